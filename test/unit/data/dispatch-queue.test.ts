import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Dispatched, DispatchQueue } from '../../../src/data/dispatch-queue.ts';

class Turns {
	now = 1000;
	/** Who was dispatched, in order. */
	readonly sent: string[] = [];
	/** With which time. */
	readonly times: number[] = [];
	readonly queue = new DispatchQueue({ now: () => this.now, wallSeconds: () => 0 });

	add(name: string, onDispatch: () => void = () => {}): Dispatched & { isGone: boolean } {
		const request = {
			isGone: false,
			dispatch: (now: number) => {
				this.sent.push(name);
				this.times.push(now);
				onDispatch();
			},
		};
		this.queue.add(request, this.now);
		return request;
	}

	addMany(count: number): (Dispatched & { isGone: boolean })[] {
		return names(0, count).map((name) => this.add(name));
	}

	/** What the queue has scheduled is done when this resolves, and no more: who asks first is called first. */
	end(): Promise<void> {
		return new Promise((resolve) => setImmediate(resolve));
	}
}

const names = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `${from + i}`);

describe('the queue before the upstreams', () => {
	it('lets the first 32 of a turn go at once, with the time that they came with', () => {
		const turns = new Turns();
		turns.addMany(40);
		assert.deepEqual(turns.sent, names(0, 32));
		assert.deepEqual(new Set(turns.times), new Set([1000]));
	});

	it('lets 32 more go at the end of each turn, in their order, with the time of then', async () => {
		const turns = new Turns();
		turns.addMany(100);
		for (const [end, now] of [
			[64, 1002],
			[96, 1003],
			[100, 1004],
		] as const) {
			turns.now = now;
			await turns.end();
			assert.deepEqual(turns.sent, names(0, end));
			assert.equal(turns.times.at(-1), now);
		}
	});

	it('has room again after a turn in which nobody waited', async () => {
		const turns = new Turns();
		turns.addMany(32);
		await turns.end();
		turns.add('next');
		assert.equal(turns.sent.at(-1), 'next');
		// And again long after, when nothing is scheduled any more.
		await turns.end();
		await turns.end();
		turns.add('later');
		assert.equal(turns.sent.at(-1), 'later');
	});

	it('counts those that have waited as well: a newcomer waits behind them, or takes the room that they left', async () => {
		const turns = new Turns();
		turns.addMany(32 + 40);
		await turns.end();
		turns.add('behind');
		assert.deepEqual(turns.sent, names(0, 64));
		await turns.end();
		assert.deepEqual(turns.sent, [...names(0, 72), 'behind']);
		for (const name of names(0, 24)) turns.add(name);
		assert.equal(turns.sent.length, 73 + 23);
	});

	it('leaves to the next turn what comes of a dispatch beyond the room', async () => {
		const turns = new Turns();
		turns.addMany(32 + 31);
		turns.add('parent', () => turns.add('child'));
		await turns.end();
		assert.equal(turns.sent.at(-1), 'parent');
		await turns.end();
		assert.equal(turns.sent.at(-1), 'child');
	});

	it('never lets one go that is gone, and another one in its place', async () => {
		const turns = new Turns();
		const requests = turns.addMany(32 + 40);
		for (const request of requests.slice(32, 40)) request.isGone = true;
		await turns.end();
		assert.deepEqual(turns.sent, [...names(0, 32), ...names(40, 72)]);
	});

	it('forgets one that is gone, however many wait before it', async () => {
		const turns = new Turns();
		const last = turns.addMany(32 + 64).at(-1)!;
		last.isGone = true;
		await turns.end();
		// It was looked at and dropped: coming back changes nothing.
		last.isGone = false;
		await turns.end();
		await turns.end();
		assert.deepEqual(turns.sent, names(0, 95));
	});

	it('lets a thirty-second part go where very many wait', async () => {
		const turns = new Turns();
		turns.addMany(32 + 6400);
		await turns.end();
		assert.equal(turns.sent.length, 32 + 200);
		await turns.end();
		assert.equal(turns.sent.length, 32 + 200 + 194);
	});
});
