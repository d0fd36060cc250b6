import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { FlushQueue, STEP, TurnEnd } from '../../../../packages/proxy/src/data/loop/turn-end.ts';

describe('the end of a turn of the loop', () => {
	it('runs its steps in a fixed order', async () => {
		const turnEnd = new TurnEnd();
		const done: string[] = [];
		turnEnd.add(STEP.read, () => done.push('read'));
		turnEnd.add(STEP.write, () => done.push('write'));
		turnEnd.add(STEP.begin, () => done.push('begin'));
		turnEnd.add(STEP.dispatch, () => done.push('dispatch 1'));
		turnEnd.add(STEP.dispatch, () => done.push('dispatch 2'));
		assert.deepEqual(done, []);
		await turn();
		assert.deepEqual(done, ['begin', 'dispatch 1', 'dispatch 2', 'write', 'read']);
		await turn();
		assert.equal(done.length, 5, 'each is done once');
	});

	it('includes later additions to steps that have not run yet', async () => {
		const turnEnd = new TurnEnd();
		const done: string[] = [];
		turnEnd.add(STEP.dispatch, () => {
			for (const [name, step] of Object.entries(STEP)) turnEnd.add(step, () => done.push(name));
		});
		await turn();
		assert.deepEqual(done, ['write', 'read']);
		await turn();
		assert.deepEqual(done, ['write', 'read', 'begin', 'dispatch']);
	});

	it('reports a turn after which nothing waits', async () => {
		let ends = 0;
		const turnEnd = new TurnEnd(undefined, { onTurnEnd: () => ends++ });
		turnEnd.add(STEP.dispatch, () => turnEnd.add(STEP.begin, () => {}));
		await turn();
		assert.equal(ends, 0, 'a step of the next turn waits');
		await turn();
		assert.equal(ends, 1);
	});

	it('flushes in the order of requests, and later requests at the next end', async () => {
		const turnEnd = new TurnEnd();
		const queue = new FlushQueue(turnEnd);
		const done: string[] = [];
		const last = { flush: () => void done.push('last'), onFault: assert.fail };
		queue.add({
			flush: () => {
				done.push('first');
				queue.add(last);
			},
			onFault: assert.fail,
		});
		queue.add({ flush: () => void done.push('second'), onFault: assert.fail });
		await turn();
		assert.deepEqual(done, ['first', 'second']);
		await turn();
		assert.deepEqual(done, ['first', 'second', 'last']);
	});

	it('continues after a task that throws, and reports the error', async () => {
		const errors: unknown[] = [];
		const turnEnd = new TurnEnd((error) => errors.push(error));
		const done: string[] = [];
		turnEnd.add(STEP.begin, () => {
			throw new Error('injected');
		});
		turnEnd.add(STEP.begin, () => done.push('begin'));
		turnEnd.add(STEP.write, () => done.push('write'));
		await turn();
		assert.deepEqual(done, ['begin', 'write']);
		turnEnd.add(STEP.begin, () => done.push('next turn'));
		await turn();
		assert.deepEqual(done, ['begin', 'write', 'next turn']);
		assert.deepEqual(errors.map(String), ['Error: injected']);
	});

	it('flushes the others if one throws, which gets the error', async () => {
		const errors: unknown[] = [];
		const queue = new FlushQueue(new TurnEnd((error) => errors.push(error)));
		const told: unknown[] = [];
		const injected = new Error('injected');
		const fails = () => {
			throw injected;
		};
		queue.add({ flush: fails, onFault: (error) => void told.push(error) });
		queue.add({ flush: fails, onFault: fails });
		let flushed = 0;
		queue.add({ flush: () => void flushed++, onFault: assert.fail });
		await turn();
		assert.deepEqual([told, errors, flushed], [[injected], [injected], 1]);
	});
});
