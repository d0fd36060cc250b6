import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type QueuedRequest, RequestQueue } from '../../../src/data/request-queue.ts';

class Recorded implements QueuedRequest {
	isGone = false;
	readonly #started: string[];
	readonly #name: string;
	readonly #onStart: () => void;

	constructor(name: string, started: string[], onStart: () => void = () => {}) {
		this.#name = name;
		this.#started = started;
		this.#onStart = onStart;
	}

	start(): void {
		this.#started.push(this.#name);
		this.#onStart();
	}
}

/** Whoever asks for it first runs first: what the queue has scheduled is done when this resolves, and no more. */
const endOfTurn = () => new Promise((resolve) => setImmediate(resolve));

function filled(count: number): { queue: RequestQueue; requests: Recorded[]; started: string[] } {
	const started: string[] = [];
	const queue = new RequestQueue();
	const requests = Array.from({ length: count }, (_, i) => new Recorded(`${i}`, started));
	for (const request of requests) queue.add(request);
	return { queue, requests, started };
}

const names = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `${from + i}`);

describe('the queue of a worker’s requests', () => {
	it('begins none before the turn of the loop has ended', async () => {
		const { started } = filled(3);
		await Promise.resolve();
		assert.deepEqual(started, []);
		await endOfTurn();
		assert.deepEqual(started, ['0', '1', '2']);
	});

	it('begins 32 in a turn, in their order, until all have begun', async () => {
		const { started } = filled(70);
		await endOfTurn();
		assert.deepEqual(started, names(0, 32));
		await endOfTurn();
		assert.deepEqual(started, names(0, 64));
		await endOfTurn();
		assert.deepEqual(started, names(0, 70));
	});

	it('begins one that comes behind those that wait, after them', async () => {
		const { queue, started } = filled(40);
		await endOfTurn();
		queue.add(new Recorded('late', started));
		await endOfTurn();
		assert.deepEqual(started, [...names(0, 40), 'late']);
	});

	it('leaves what a request brings about when it begins to the next turn', async () => {
		const started: string[] = [];
		const queue = new RequestQueue();
		queue.add(new Recorded('first', started, () => queue.add(new Recorded('second', started))));
		await endOfTurn();
		assert.deepEqual(started, ['first']);
		await endOfTurn();
		assert.deepEqual(started, ['first', 'second']);
	});

	it('never begins one that is gone, and takes another one in its place', async () => {
		const { requests, started } = filled(40);
		for (const request of requests.slice(0, 8)) request.isGone = true;
		await endOfTurn();
		assert.deepEqual(started, names(8, 40));
	});

	it('forgets those that are gone, however many wait before them', async () => {
		const { requests, started } = filled(64);
		const last = requests.at(-1)!;
		last.isGone = true;
		await endOfTurn();
		// It was looked at and dropped: coming back changes nothing.
		last.isGone = false;
		await endOfTurn();
		await endOfTurn();
		assert.deepEqual(started, names(0, 63));
	});

	it('begins again after it has been empty', async () => {
		const { queue, started } = filled(1);
		await endOfTurn();
		await endOfTurn();
		queue.add(new Recorded('later', started));
		await endOfTurn();
		assert.deepEqual(started, ['0', 'later']);
	});
});
