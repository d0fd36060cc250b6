import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import { systemClock } from '../../../packages/gate/src/shared/clock.ts';
import type { ClockTask } from './clock.thread.ts';

describe('the system clock', () => {
	it('counts milliseconds from the epoch it is given', () => {
		const epoch = process.hrtime.bigint() - 5_000_000_000n;
		const clock = systemClock(epoch);
		for (let i = 0; i < 100; i++) {
			const before = Number(process.hrtime.bigint() - epoch) / 1e6;
			const now = clock.now();
			const after = Number(process.hrtime.bigint() - epoch) / 1e6;
			assert.ok(before - TOLERANCE <= now && now <= after + TOLERANCE, `${before} ${now} ${after}`);
			assert.ok(now >= 5000);
		}
	});

	it('never runs backwards, and has a resolution below a millisecond', () => {
		const clock = systemClock(process.hrtime.bigint());
		const times = Array.from({ length: 10_000 }, () => clock.now());
		assert.ok(times.every((time, i) => i === 0 || time >= times[i - 1]!));
		assert.ok(new Set(times.map((time) => time % 1)).size > 10);
	});

	it('tells the wall-clock time in seconds', () => {
		const { wallSeconds } = systemClock(process.hrtime.bigint());
		const before = Date.now() / 1000;
		const now = wallSeconds();
		assert.ok(before <= now && now <= Date.now() / 1000);
	});

	it('is one scale for all threads: a later event has a later time', async () => {
		const epoch = process.hrtime.bigint() - 1_000_000n;
		const clock = systemClock(epoch);
		const questions = 500;
		for (let thread = 0; thread < 3; thread++) {
			const counters = new SharedArrayBuffer(8);
			const answer = new SharedArrayBuffer(8);
			const workerData: ClockTask = { epoch, counters, answer, questions };
			const worker = new Worker(new URL('./clock.thread.ts', import.meta.url), { workerData });
			const words = new Int32Array(counters);
			try {
				for (let question = 1; question <= questions; question++) {
					const asked = clock.now();
					Atomics.store(words, 0, question);
					Atomics.notify(words, 0);
					while (Atomics.load(words, 1) < question) Atomics.wait(words, 1, question - 1);
					const told = new Float64Array(answer)[0]!;
					const heard = clock.now();
					assert.ok(asked - TOLERANCE <= told && told <= heard + TOLERANCE, `${asked} ${told} ${heard}`);
				}
			} finally {
				await worker.terminate();
			}
		}
	});
});

/** Milliseconds by which two threads may disagree: the time between two readings of one clock. */
const TOLERANCE = 0.01;
