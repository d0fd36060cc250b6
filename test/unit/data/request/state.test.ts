import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checkTransition, STATE, type State } from '../../../../packages/proxy/src/data/request/state.ts';
import { blockNamed } from '../../../fixtures/doc-blocks.ts';

const STATES = Object.entries(STATE) as [string, State][];
const ARROW = /^ *(\w+) --> (\w+)/gm;

describe('the states of a request', () => {
	const drawn = Array.from(
		blockNamed('the states of a request').code.matchAll(ARROW),
		([, from, to]) => `${from} ${to}`,
	);

	it('are all in the diagram of ARCHITECTURE.md, and no others', () => {
		const names = STATES.map(([name]) => name);
		assert.deepEqual([...new Set(drawn.join(' ').split(' '))].sort(), names.sort());
	});

	for (const [from, state] of STATES) {
		it(`${from} is followed by the states that the diagram shows, and every other transition throws`, () => {
			for (const [to, next] of STATES) {
				if (drawn.includes(`${from} ${to}`)) checkTransition(state, next);
				else assert.throws(() => checkTransition(state, next), new Error(`a request cannot go from ${from} to ${to}`));
			}
		});
	}
});
