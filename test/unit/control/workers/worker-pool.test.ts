import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FakeThread } from '../fixtures/fake-thread.ts';
import { settle } from '../fixtures/fake-time.ts';
import { TestPool } from '../fixtures/pool.ts';

const DISCARD_OR_COMMIT = ['discard', 'commit'];

function prepareRouting(_worker: number, id: number) {
	return { type: 'prepare-routing', id, routing: { endpoints: [], upstreams: [], routes: [] } } as const;
}

describe('starting workers', () => {
	test('the first worker chooses the port and the others follow it', async () => {
		const { pool, spawned } = new TestPool(3, 0);
		assert.equal(await pool.start(), 4711);
		assert.deepEqual(
			spawned.map(({ worker, thread }) => [worker, thread.port]),
			[
				[0, 4711],
				[1, 4711],
				[2, 4711],
			],
		);
		assert.equal(pool.listening, 3);
	});

	test('an unusable address is reported once, by the first worker', async () => {
		const test = new TestPool(3);
		test.makeThread = (port) => new FakeThread(port, 'waits');
		const started = test.pool.start();
		test.thread(0).say({ type: 'listen-failed', code: 'EADDRINUSE', message: 'taken' });
		await assert.rejects(started, { name: 'StartError', message: 'cannot listen: EADDRINUSE' });
		assert.equal(test.spawned.length, 1);
	});

	test('a worker that dies while it starts fails the start with its own words', async () => {
		const test = new TestPool(1);
		test.makeThread = (port) => new FakeThread(port, 'waits');
		const started = test.pool.start();
		test.thread(0).die(new Error('no such module'));
		await assert.rejects(started, { name: 'StartError', message: 'worker 0 ended while starting: no such module' });
	});

	test('a worker that says nothing fails the start after 30 s', async () => {
		const test = new TestPool(1);
		test.makeThread = (port) => new FakeThread(port, 'waits');
		const started = assert.rejects(test.pool.start(), { message: 'worker 0 did not start within 30 s' });
		await test.time.advance(30_000);
		await started;
	});

	test('a drain during the start ends those that have not started, starts no more, and lets the others finish', async () => {
		const test = new TestPool(40);
		test.makeThread = (port) => new FakeThread(port, test.spawned.length === 0 ? 'listens' : 'waits');
		const started = test.pool.start();
		await settle();
		assert.equal(test.spawned.length, 9, 'the first one, and eight at once');
		const drained = test.pool.drain();
		await settle();
		assert.deepEqual(test.thread(0).types, ['stop-accepting', 'drain']);
		assert.equal(await started, 8443);
		test.thread(0).say({ type: 'drained' });
		await drained;
		assert.equal(test.spawned.length, 9);
	});

	test('a worker that dies while the others are still starting is replaced', async () => {
		const test = new TestPool(2);
		test.makeThread = (port) => new FakeThread(port, test.spawned.length === 1 ? 'waits' : 'listens');
		const started = test.pool.start();
		await settle();
		test.thread(0).die();
		await settle();
		test.thread(1).say({ type: 'listening', port: 8443 });
		await started;
		await settle();
		assert.deepEqual(
			test.spawned.map(({ worker }) => worker),
			[0, 1, 0],
		);
		assert.equal(test.pool.listening, 2);
	});
});

describe('replacing workers', () => {
	test('a worker that dies is replaced at once, under its index and on the port, after its memory was reclaimed', async () => {
		const test = await TestPool.withWorkers(2, 0);
		await test.time.advance(60_000);
		test.thread(1).die(new Error('bad luck'));
		await settle();
		assert.equal(test.pool.listening, 1);
		assert.deepEqual(test.reclaimed, [1]);
		await test.time.advance(0);
		assert.equal(test.pool.listening, 2);
		assert.deepEqual(test.spawned.at(-1)!.worker, 1);
		assert.equal(test.thread(1).port, 4711);
		const { worker, cause, lived_ms } = test.log.fields('worker died; replacing it');
		assert.deepEqual({ worker, cause, lived_ms }, { worker: 1, cause: 'bad luck', lived_ms: 60_000 });
		assert.ok(test.log.lines.includes('info proxy::worker: worker replaced'));
	});

	test('workers that die at once are replaced after ever longer pauses, up to 5 s', async () => {
		const test = await TestPool.withWorkers(1);
		const pauses: unknown[] = [];
		for (let death = 0; death < 9; death++) {
			test.thread(0).die();
			await settle();
			const pause = test.log.fields('worker died; replacing it').pause_ms as number;
			pauses.push(pause);
			const before = test.spawned.length;
			if (pause > 0) await test.time.advance(pause - 1);
			assert.equal(test.spawned.length, before, 'not before the pause is over');
			await test.time.advance(1);
			assert.equal(test.spawned.length, before + 1);
		}
		assert.deepEqual(pauses, [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
	});

	test('a worker that has lived for 10 s resets the pause', async () => {
		const test = await TestPool.withWorkers(1);
		for (const lifetime of [1, 1, 1, 10_000, 1]) {
			await test.time.advance(lifetime);
			test.thread(0).die();
			await test.time.advance(5_000);
		}
		const pauses = test.log.records
			.filter(({ message }) => message === 'worker died; replacing it')
			.map(({ fields }) => fields!.pause_ms);
		assert.deepEqual(pauses, [0, 100, 200, 0, 0]);
	});

	test('a worker that cannot be started is retried, and the others continue', async () => {
		const test = await TestPool.withWorkers(2);
		test.makeThread = () => {
			throw new Error('no thread');
		};
		test.thread(0).die();
		await test.time.advance(0);
		assert.equal(test.log.fields('worker died; replacing it').cause, 'no thread');
		assert.equal(test.pool.listening, 1);
		test.makeThread = (port) => new FakeThread(port);
		await test.time.advance(100);
		assert.equal(test.pool.listening, 2);
	});

	test('a replacement that cannot listen is tried again', async () => {
		const test = await TestPool.withWorkers(1);
		test.makeThread = (port) => new FakeThread(port, 'waits');
		test.thread(0).die();
		await test.time.advance(0);
		test.thread(0).say({ type: 'listen-failed', code: 'EADDRINUSE', message: 'taken' });
		await test.time.advance(0);
		assert.equal(test.log.fields('worker died; replacing it').cause, 'cannot listen: EADDRINUSE');
		test.makeThread = (port) => new FakeThread(port);
		await test.time.advance(100);
		assert.equal(test.pool.listening, 1);
	});
});

describe('switching workers', () => {
	test('all prepare before it is applied, and commit after it', async () => {
		const test = await TestPool.withWorkers(2);
		let atApply: string[] = [];
		await test.pool.switchAll(prepareRouting, () => {
			atApply = test.spawned.flatMap(({ thread }) => thread.types);
		});
		assert.deepEqual(atApply, ['prepare-routing', 'prepare-routing']);
		for (const { thread } of test.spawned) assert.deepEqual(thread.types, ['prepare-routing', 'commit']);
	});

	test('one refusal is enough: nothing is applied, all discard', async () => {
		const test = await TestPool.withWorkers(3);
		test.thread(1).temper = 'refusing';
		await assert.rejects(test.pool.switchAll(prepareRouting, assert.fail), {
			message: 'worker 1 refused: not with me',
		});
		for (const { thread } of test.spawned) assert.deepEqual(thread.types, ['prepare-routing', 'discard']);
	});

	test('a worker without an answer within 10 s: nothing is applied, all discard, its late answer is ignored', async () => {
		const test = await TestPool.withWorkers(2);
		test.thread(0).temper = 'silent';
		const switched = assert.rejects(test.pool.switchAll(prepareRouting, assert.fail), {
			message: 'worker 0 did not answer within 10 s',
		});
		await test.time.advance(10_000);
		await switched;
		for (const { thread } of test.spawned) assert.deepEqual(thread.types, ['prepare-routing', 'discard']);
		test.thread(0).say({ type: 'prepared', id: 1 });
		await settle();
		assert.equal(test.pool.listening, 2);
	});

	test('a worker that dies during it: nothing is applied, the others discard, its replacement does not get it', async () => {
		const test = await TestPool.withWorkers(2);
		test.thread(0).temper = 'dying';
		await assert.rejects(test.pool.switchAll(prepareRouting, assert.fail), {
			message: 'worker 0 died while applying it',
		});
		assert.deepEqual(test.thread(1).types, ['prepare-routing', 'discard']);
		await test.time.advance(0);
		assert.equal(test.spawned.length, 3);
		assert.deepEqual(test.thread(0).types, []);
	});

	test('no thread is started between prepare and commit: it would begin with what is being left', async () => {
		const test = await TestPool.withWorkers(2);
		test.thread(0).die();
		test.thread(1).temper = 'silent';
		await settle();
		const switched = test.pool.switchAll(prepareRouting, () => {
			assert.equal(test.spawned.length, 2);
		});
		await test.time.advance(1_000);
		assert.equal(test.spawned.length, 2, 'due, but it has to wait');
		test.thread(1).say({ type: 'prepared', id: 1 });
		await switched;
		await settle();
		assert.deepEqual(
			test.spawned.map(({ worker }) => worker),
			[0, 1, 0],
		);
	});

	test('a switch with every worker dead succeeds: their replacements begin with the new state', async () => {
		const test = await TestPool.withWorkers(1);
		test.thread(0).die();
		await settle();
		let applied = false;
		await test.pool.switchAll(prepareRouting, () => {
			applied = true;
		});
		assert.ok(applied);
		await test.time.advance(0);
		assert.equal(test.spawned.length, 2);
	});

	test('a second switch is not confused by answers to the first', async () => {
		const test = await TestPool.withWorkers(1);
		await test.pool.switchAll(prepareRouting, () => {});
		test.thread(0).temper = 'silent';
		const switched = test.pool.switchAll(prepareRouting, assert.fail);
		test.thread(0).say({ type: 'prepared', id: 1 });
		const refused = assert.rejects(switched, { message: 'worker 0 did not answer within 10 s' });
		await test.time.advance(10_000);
		await refused;
		assert.equal(
			test
				.thread(0)
				.types.filter((type) => DISCARD_OR_COMMIT.includes(type))
				.at(-1),
			'discard',
		);
	});
});

describe('draining workers', () => {
	test('it is over when the last one has said so', async () => {
		const test = await TestPool.withWorkers(2);
		test.thread(1).idle = false;
		let drained = false;
		const done = test.pool.drain().then(() => {
			drained = true;
		});
		await settle();
		assert.equal(drained, false);
		test.thread(1).say({ type: 'drained' });
		await done;
	});

	test('no client gets a GOAWAY before all listeners are closed', async () => {
		const test = await TestPool.withWorkers(2);
		test.thread(1).temper = 'silent';
		const done = test.pool.drain();
		await settle();
		assert.equal(test.pool.listening, 1);
		for (const { thread } of test.spawned) assert.deepEqual(thread.types, ['stop-accepting']);
		test.thread(1).say({ type: 'closed' });
		await done;
		for (const { thread } of test.spawned) assert.deepEqual(thread.types, ['stop-accepting', 'drain']);
	});

	test('a worker that does not close its listener within 2 s is not waited for', async () => {
		const test = await TestPool.withWorkers(2);
		test.thread(0).temper = 'silent';
		const done = test.pool.drain();
		await test.time.advance(2_000);
		await done;
		assert.deepEqual(test.thread(1).types, ['stop-accepting', 'drain']);
	});

	test('a worker that dies over closing its listener is not waited for', async () => {
		const test = await TestPool.withWorkers(2);
		test.thread(0).temper = 'dying';
		await test.pool.drain();
		assert.deepEqual(test.thread(1).types, ['stop-accepting', 'drain']);
	});

	test('a worker that dies meanwhile is not replaced, and not waited for', async () => {
		const test = await TestPool.withWorkers(2);
		test.thread(0).idle = false;
		const done = test.pool.drain();
		test.thread(0).die();
		await done;
		await test.time.advance(10_000);
		assert.equal(test.spawned.length, 2);
	});

	test('a worker that was about to be replaced is not', async () => {
		const test = await TestPool.withWorkers(1);
		test.thread(0).die();
		await settle();
		await test.pool.drain();
		await test.time.advance(10_000);
		assert.equal(test.spawned.length, 1);
	});
});

describe('the access logs of workers', () => {
	test('are written, and the worker that sent the lines learns when', async () => {
		const test = await TestPool.withWorkers(2);
		test.thread(1).say({ type: 'access-lines', lines: '{}\n', dropped: 2 });
		await settle();
		const [sent] = test.lines;
		assert.deepEqual([sent!.lines, sent!.dropped], ['{}\n', 2]);
		assert.ok(!test.thread(1).types.includes('access-lines-written'));
		sent!.onWritten();
		assert.deepEqual(test.thread(1).received.at(-1), { type: 'access-lines-written', bytes: 3 });
	});

	test('are not attributed to the replacement of the thread that sent them', async () => {
		const test = await TestPool.withWorkers(1);
		const dead = test.thread(0);
		dead.say({ type: 'access-lines', lines: '{}\n', dropped: 0 });
		dead.die();
		await settle();
		await test.time.advance(0);
		await settle();
		test.lines[0]!.onWritten();
		assert.notEqual(test.thread(0), dead);
		assert.ok(!test.thread(0).types.includes('access-lines-written'));
	});
});
