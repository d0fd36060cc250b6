import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checkTransition, STATE, type State } from '../../../../src/data/request/state.ts';

const STATES = Object.entries(STATE) as [keyof typeof STATE, State][];

/** As in the diagram of ARCHITECTURE.md, and `done` from each: a client may leave at any time. */
const POSSIBLE: Readonly<Record<keyof typeof STATE, readonly (keyof typeof STATE)[]>> = {
	reading: ['queued', 'answering', 'done'],
	queued: ['waiting', 'sent', 'answering', 'done'],
	waiting: ['sent', 'answering', 'done'],
	sent: ['waiting', 'sent', 'answering', 'done'],
	answering: ['done'],
	done: [],
};

describe("a request's state", () => {
	for (const [from, state] of STATES) {
		it(`${from} is followed by what may follow it, and by nothing else`, () => {
			for (const [to, next] of STATES) {
				if (POSSIBLE[from].includes(to)) checkTransition(state, next);
				else assert.throws(() => checkTransition(state, next), new Error(`a request cannot go from ${from} to ${to}`));
			}
		});
	}
});
