import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { FlushQueue, STEP, TurnEnd } from '../../../src/data/turn-end.ts';

describe('the end of a turn of the loop', () => {
	it('has its steps in their order, whichever was asked for first', async () => {
		const turnEnd = new TurnEnd();
		const done: string[] = [];
		turnEnd.add(STEP.write, () => done.push('write'));
		turnEnd.add(STEP.begin, () => done.push('begin'));
		turnEnd.add(STEP.dispatch, () => done.push('dispatch 1'));
		turnEnd.add(STEP.dispatch, () => done.push('dispatch 2'));
		assert.deepEqual(done, []);
		await turn();
		assert.deepEqual(done, ['begin', 'dispatch 1', 'dispatch 2', 'write']);
		await turn();
		assert.equal(done.length, 4, 'each is done once');
	});

	it('takes along what is asked for while it is under way, if the step is still to come', async () => {
		const turnEnd = new TurnEnd();
		const done: string[] = [];
		turnEnd.add(STEP.dispatch, () => {
			for (const [name, step] of Object.entries(STEP)) turnEnd.add(step, () => done.push(name));
		});
		await turn();
		assert.deepEqual(done, ['write']);
		await turn();
		assert.deepEqual(done, ['write', 'begin', 'dispatch']);
	});

	it('flushes who asked, in the order of asking, and who asks meanwhile at the next one', async () => {
		const turnEnd = new TurnEnd();
		const queue = new FlushQueue(turnEnd);
		const done: string[] = [];
		const last = { flush: () => void done.push('last') };
		queue.add({
			flush: () => {
				done.push('first');
				queue.add(last);
			},
		});
		queue.add({ flush: () => void done.push('second') });
		await turn();
		assert.deepEqual(done, ['first', 'second']);
		await turn();
		assert.deepEqual(done, ['first', 'second', 'last']);
	});
});
