import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { UpstreamLoad } from '../../../packages/proxy/src/memory/upstream-load.ts';
import { runThreads } from './thread-pool.ts';
import type { LoadTask } from './upstream-load.thread.ts';
import type { LoadVictimTask } from './upstream-load-victim.thread.ts';

const COUNTERS = new URL('./upstream-load.thread.ts', import.meta.url);
const VICTIM = new URL('./upstream-load-victim.thread.ts', import.meta.url);

describe('the requests in flight at an upstream', () => {
	it('are the sum across all workers, for any order of requests and deaths, and not of other upstreams in the region', () => {
		const step = fc.record({
			at: fc.nat(3),
			worker: fc.nat(2),
			action: fc.constantFrom('inc', 'inc', 'try', 'dec', 'die', 'serve'),
		});
		fc.assert(
			fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
				const memory = UpstreamLoad.allocate(3, 7, 4);
				const loadOf = (worker: number, at: number) => new UpstreamLoad(memory, worker, at);
				const held = [0, 1, 2, 3].map(() => [0, 0, 0]);
				const since = [7, 7, 7, 7];
				for (const [i, { at, worker, action }] of steps.entries()) {
					const load = loadOf(worker, at);
					const own = held[at]!;
					const total = own.reduce((sum, each) => sum + each, 0);
					if (action === 'inc') load.inc();
					if (action === 'try') assert.equal(load.tryInc(3), total < 3);
					if (action === 'inc' || (action === 'try' && total < 3)) own[worker]! += 1;
					if (action === 'dec' && own[worker]! > 0) {
						load.dec();
						own[worker]! -= 1;
					}
					if (action === 'die') {
						UpstreamLoad.reclaim(memory, worker, at);
						own[worker] = 0;
					}
					if (action === 'serve') {
						load.servesSince(i);
						since[at] = i;
					}
					for (const [other, counts] of held.entries()) {
						const seen = loadOf(1, other);
						const sum = counts.reduce((all, each) => all + each, 0);
						const threads = counts.filter((each) => each > 0).length;
						assert.deepEqual(
							[seen.total, seen.recent, seen.own, seen.threads, seen.since],
							[sum, sum, counts[1], threads, since[other]],
						);
					}
				}
			}),
		);
	});

	it('are exact with threads that count at once', async () => {
		const memory = UpstreamLoad.allocate(4, 0);
		const seen = new SharedArrayBuffer(4 * 20);
		await runThreads<LoadTask>(COUNTERS, 4, { memory, rounds: 20, each: 500, seen });
		assert.deepEqual([...new Int32Array(seen)], Array(20).fill(4 * 500));
		assert.equal(new UpstreamLoad(memory, 0).total, 0);
	});

	it('never exceed a limit, and no request is refused below it, with threads that ask at once', async () => {
		const memory = UpstreamLoad.allocate(4, 0);
		const seen = new SharedArrayBuffer(4 * 50);
		await runThreads<LoadTask>(COUNTERS, 4, { memory, rounds: 50, each: 500, limit: 777, seen });
		// They ask for 2,000 slots: all 777 are taken, and no more.
		assert.deepEqual([...new Int32Array(seen)], Array(50).fill(777));
		assert.equal(new UpstreamLoad(memory, 0).total, 0);
	});

	it('have a lock that is freed if its thread dies', () => {
		const memory = UpstreamLoad.allocate(2, 0);
		// The trace of a thread that dies while it reads the words.
		Atomics.store(new Int32Array(memory), 4, 2);
		UpstreamLoad.reclaim(memory, 1);
		assert.equal(new UpstreamLoad(memory, 0).tryInc(1), true);
	});

	it('are released when a thread dies, at any point', async () => {
		const memory = UpstreamLoad.allocate(2, 0);
		const survivor = new UpstreamLoad(memory, 0);
		survivor.inc();
		for (let death = 0; death < 5; death++) {
			const progress = new SharedArrayBuffer(4);
			const workerData: LoadVictimTask = { memory, worker: 1, progress };
			const victim = new Worker(VICTIM, { workerData });
			await Atomics.waitAsync(new Int32Array(progress), 0, 0).value;
			await victim.terminate();
			assert.ok(survivor.total > 1, 'the thread died with requests in its hands');
			UpstreamLoad.reclaim(memory, 1);
			assert.equal(survivor.total, 1);
		}
	});
});

describe('since when an upstream serves', () => {
	it('is from its beginning, and from each return on, for all threads', () => {
		const memory = UpstreamLoad.allocate(2, 12.5);
		const [one, two] = [0, 1].map((worker) => new UpstreamLoad(memory, worker));
		assert.deepEqual([one!.since, two!.since], [12.5, 12.5]);
		two!.servesSince(1e9 + 0.25);
		one!.inc();
		assert.deepEqual([one!.since, two!.total], [1e9 + 0.25, 1]);
	});
});
