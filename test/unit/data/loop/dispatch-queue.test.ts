import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Dispatched, DispatchQueue } from '../../../../packages/proxy/src/data/loop/dispatch-queue.ts';
import { TurnEnd } from '../../../../packages/proxy/src/data/loop/turn-end.ts';

class Turns {
	now = 1000;
	/** Who was dispatched, in order. */
	readonly sent: string[] = [];
	/** With which time. */
	readonly times: number[] = [];
	readonly faults: unknown[] = [];
	readonly queue = new DispatchQueue({ now: () => this.now, wallSeconds: () => 0 }, new TurnEnd());

	add(name: string, onDispatch: () => void = () => {}): Dispatched & { isGone: boolean } {
		const request = {
			isGone: false,
			dispatch: (now: number) => {
				this.sent.push(name);
				this.times.push(now);
				onDispatch();
			},
			onFault: (error: unknown) => void this.faults.push(error),
		};
		this.queue.add(request);
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
	it('sends no request before the end of its turn', async () => {
		const turns = new Turns();
		turns.add('first');
		assert.deepEqual(turns.sent, []);
		await turns.end();
		assert.deepEqual(turns.sent, ['first']);
		// And again long after, when nothing is scheduled any more.
		await turns.end();
		turns.add('later');
		assert.deepEqual(turns.sent, ['first']);
		await turns.end();
		assert.deepEqual(turns.sent, ['first', 'later']);
	});

	it('sends 32 requests at the end of each turn, in order', async () => {
		const turns = new Turns();
		turns.addMany(70);
		for (const [end, now] of [
			[32, 1002],
			[64, 1003],
			[70, 1004],
		] as const) {
			turns.now = now;
			await turns.end();
			assert.deepEqual(turns.sent, names(0, end));
			assert.equal(turns.times.at(-1), now);
		}
	});

	it('leaves requests that a dispatch adds to the next turn', async () => {
		const turns = new Turns();
		turns.add('parent', () => turns.add('child'));
		await turns.end();
		assert.equal(turns.sent.at(-1), 'parent');
		await turns.end();
		assert.equal(turns.sent.at(-1), 'child');
	});

	it('never sends a removed request, however many wait before it', async () => {
		const turns = new Turns();
		const last = turns.addMany(64).at(-1)!;
		last.isGone = true;
		await turns.end();
		// It was looked at and dropped: coming back changes nothing.
		last.isGone = false;
		await turns.end();
		await turns.end();
		assert.deepEqual(turns.sent, names(0, 63));
	});

	it('sends one in thirty-two if very many wait', async () => {
		const turns = new Turns();
		turns.addMany(6400);
		await turns.end();
		assert.equal(turns.sent.length, 200);
		await turns.end();
		assert.equal(turns.sent.length, 200 + 194);
	});

	it('reports an error to the request that threw it, and continues with the next', async () => {
		const turns = new Turns();
		const error = new Error('injected');
		turns.add('throws', () => {
			throw error;
		});
		turns.add('next');
		await turns.end();
		assert.deepEqual([turns.sent, turns.faults], [['throws', 'next'], [error]]);
	});

	it('sends no request that another one of the same turn has ended', async () => {
		const turns = new Turns();
		let second: { isGone: boolean } | undefined;
		turns.add('first', () => {
			second!.isGone = true;
		});
		second = turns.add('second');
		await turns.end();
		assert.deepEqual(turns.sent, ['first']);
	});
});
