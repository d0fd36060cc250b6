import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
	LoopSampler,
	RESOLUTION_MS,
	SAMPLE_MS,
	WINDOW_MS,
} from '../../../../packages/proxy/src/data/loop/loop-watch.ts';

/** An event loop that is as busy and as late as a test says. */
class FakeLoop {
	now = 0;
	idle = 0;
	active = 0;
	rested = 0;
	/** Nanoseconds, as `monitorEventLoopDelay` has them. */
	readonly delays = {
		max: 0,
		percentile: (p: number) => (p === 50 ? this.delays.max / 4 : this.delays.max / 2),
		reset: () => {
			this.delays.max = 0;
		},
	};
	readonly sampler = new LoopSampler(
		{
			utilization: () => ({ idle: this.idle, active: this.active }),
			restedMs: () => this.rested,
			delays: this.delays,
		},
		{ now: () => this.now, wallSeconds: () => 0 },
	);

	late(ms: number): void {
		this.delays.max = (RESOLUTION_MS + ms) * 1e6;
	}

	after(ms: number) {
		this.now += ms;
		return this.sampler.sample();
	}
}

describe('a sample of the event loop', () => {
	it('says for which part of the time since the last one it did not wait', () => {
		const loop = new FakeLoop();
		loop.idle = 200;
		loop.active = 50;
		const { utilization, activeMs, idleMs, sampledAt } = loop.after(SAMPLE_MS);
		assert.deepEqual([utilization, activeMs, idleMs, sampledAt], [0.2, 50, 200, SAMPLE_MS]);
		loop.active = 300;
		assert.equal(loop.after(SAMPLE_MS).utilization, 1);
		assert.equal(loop.after(SAMPLE_MS).utilization, 0, 'no time, no use');
	});

	it('counts a rest as time without work, which Node does not', () => {
		const loop = new FakeLoop();
		loop.idle = 100;
		loop.active = 150;
		loop.rested = 100;
		const { utilization, activeMs, idleMs } = loop.after(SAMPLE_MS);
		assert.deepEqual([utilization, activeMs, idleMs], [0.2, 50, 200]);
		loop.active = 400;
		loop.rested = 300;
		assert.equal(loop.after(SAMPLE_MS).activeMs, 50);
	});

	it('has delays without the resolution of the timer that measures them', () => {
		const loop = new FakeLoop();
		loop.late(60);
		assert.deepEqual([loop.after(SAMPLE_MS).delayMax, loop.after(SAMPLE_MS).delayP99], [60, 20]);
		assert.equal(loop.after(SAMPLE_MS).delayP50, 0, 'never below none');
	});

	it('remembers a delay for one window at least, and for two at most', () => {
		const loop = new FakeLoop();
		loop.late(60);
		assert.equal(loop.after(WINDOW_MS).delayMax, 60);
		assert.equal(loop.after(WINDOW_MS - 1).delayMax, 60);
		assert.equal(loop.after(1).delayMax, 60);
		assert.equal(loop.after(SAMPLE_MS).delayMax, 0);
	});
});
