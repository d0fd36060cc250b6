import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type DeadlineQueue, Deadlines, Timed } from '../../../../packages/proxy/src/data/loop/deadlines.ts';

/** The most that the wheel adds to a limit: its tick may be old when a deadline is set, and it may look late. */
const TICK_MS = 50;

class Recorded extends Timed {
	readonly name: string;
	readonly fired: string[];
	readonly #then: (self: Recorded) => void;

	constructor(name: string, fired: string[], then: (self: Recorded) => void = () => {}) {
		super();
		this.name = name;
		this.fired = fired;
		this.#then = then;
	}

	override onDeadline(): void {
		this.fired.push(this.name);
		this.#then(this);
	}
}

function wheelAt(now = 1000): Deadlines {
	return new Deadlines({ now: () => now, wallSeconds: () => 0 });
}

describe('a deadline', () => {
	it('falls due after its time, never before it and at most two ticks later', () => {
		const wheel = wheelAt(1000);
		const queue = wheel.queue(400);
		const fired: string[] = [];
		queue.add(new Recorded('a', fired));
		wheel.tick(1000 + 400);
		assert.deepEqual(fired, []);
		wheel.tick(1000 + 400 + 2 * TICK_MS);
		assert.deepEqual(fired, ['a']);
		wheel.tick(9999);
		assert.deepEqual(fired, ['a']);
	});

	it('is not shortened if the wheel stood still for almost a tick before it was set', () => {
		const wheel = wheelAt(1000);
		const queue = wheel.queue(400);
		const fired: string[] = [];
		wheel.tick(1001);
		// At 1050 by the true clock.
		queue.add(new Recorded('a', fired));
		wheel.tick(1050 + 399);
		assert.deepEqual(fired, []);
	});

	it('a deadline that throws does not delay others: its owner or the report gets the error', () => {
		const errors: unknown[] = [];
		const wheel = new Deadlines({ now: () => 0, wallSeconds: () => 0 }, (error) => errors.push(error));
		const queue = wheel.queue(100);
		const fired: string[] = [];
		const told: unknown[] = [];
		const injected = new Error('injected');
		const fails = () => {
			throw injected;
		};
		queue.add(
			Object.assign(new Recorded('told', fired, fails), { onFault: (error: unknown) => void told.push(error) }),
		);
		queue.add(new Recorded('reported', fired, fails));
		queue.add(new Recorded('behind', fired));
		wheel.tick(1000);
		assert.deepEqual([fired, told, errors], [['told', 'reported', 'behind'], [injected], [injected]]);
	});

	it('is no longer set when it falls due, so it may be set again then, and waits its whole time', () => {
		const wheel = wheelAt(0);
		const queue = wheel.queue(100);
		const fired: string[] = [];
		queue.add(
			new Recorded('a', fired, (self) => {
				assert.equal(self.deadline.queue, undefined);
				queue.add(self);
			}),
		);
		wheel.tick(1000);
		assert.deepEqual(fired, ['a']);
		wheel.tick(1100);
		assert.deepEqual(fired, ['a']);
		wheel.tick(1200);
		assert.deepEqual(fired, ['a', 'a']);
	});

	it('a deadline that falls due may cancel the next one', () => {
		const wheel = wheelAt(0);
		const queue = wheel.queue(100);
		const fired: string[] = [];
		const b = new Recorded('b', fired);
		queue.add(new Recorded('a', fired, () => b.cancelDeadline()));
		queue.add(b);
		queue.add(new Recorded('c', fired));
		wheel.tick(1000);
		assert.deepEqual(fired, ['a', 'c']);
	});

	it('deadlines that are set, set again and cancelled in several queues fall due as in a model, each queue in its order', () => {
		const limits = [100, 250, 1000];
		const operation = fc.oneof(
			fc.record({ kind: fc.constant('add' as const), who: fc.nat(4), where: fc.nat(limits.length - 1) }),
			fc.record({ kind: fc.constant('cancel' as const), who: fc.nat(4) }),
			fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 400 }) }),
		);
		fc.assert(
			fc.property(fc.array(operation, { maxLength: 60 }), (operations) => {
				let now = 0;
				const wheel = wheelAt(now);
				const queues: DeadlineQueue[] = limits.map((ms) => wheel.queue(ms));
				const fired: string[] = [];
				const timed = [...'01234'].map((name) => new Recorded(name, fired));
				/** In the order in which they were set. */
				const due = new Map<string, { at: number; where: number }>();
				for (const step of operations) {
					if (step.kind === 'add') {
						queues[step.where]!.add(timed[step.who]!);
						due.delete(`${step.who}`);
						due.set(`${step.who}`, { at: now + limits[step.where]! + TICK_MS, where: step.where });
					} else if (step.kind === 'cancel') {
						timed[step.who]!.cancelDeadline();
						due.delete(`${step.who}`);
					} else {
						now += step.ms;
						fired.length = 0;
						wheel.tick(now);
						const expected = [...due].filter(([, { at }]) => at <= now).toSorted(([, a], [, b]) => a.where - b.where);
						assert.deepEqual(
							fired,
							expected.map(([who]) => who),
						);
						for (const [who] of expected) due.delete(who);
					}
				}
			}),
		);
	});
});

describe('the wheel', () => {
	it('ticks by its own timer until it is stopped', async (t) => {
		t.mock.timers.enable({ apis: ['setInterval'] });
		let now = 0;
		const wheel = new Deadlines({ now: () => now, wallSeconds: () => 0 });
		const fired: string[] = [];
		const queue = wheel.queue(100);
		queue.add(new Recorded('a', fired));
		wheel.start();
		for (let i = 0; i < 3; i++) {
			now += TICK_MS;
			t.mock.timers.tick(TICK_MS);
		}
		assert.deepEqual(fired, ['a']);
		assert.equal(wheel.now, now);
		queue.add(new Recorded('b', fired));
		wheel.stop();
		now += 10_000;
		t.mock.timers.tick(10_000);
		assert.deepEqual(fired, ['a']);
	});
});
