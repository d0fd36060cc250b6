import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
	LONG_REST_MS,
	LONG_RESTS,
	MANY_REQUESTS,
	PAUSE_MS,
	REST_MS,
	Rests,
	SHORT_TURN_MS,
	WINDOW_MS,
} from '../../../../packages/proxy/src/data/loop/rests.ts';

/** A worker whose turns and rests take as long as a test says. */
class FakeWorker {
	now = 1000;
	/** Of each rest, ms. */
	restMs = 0.06;
	readonly asked: number[] = [];
	readonly rests = new Rests({ now: () => this.now, wallSeconds: () => 0 }, (ms) => {
		this.asked.push(ms);
		this.now += this.restMs;
	});

	/** When each of the requests in flight began. */
	#begun: number[] = [];

	/** @param requests always in flight: new ones take the place of those that are over. */
	constructor(requests: number) {
		this.begin(requests);
		this.turn(1);
		this.turn(1);
	}

	begin(requests: number): void {
		for (let n = 0; n < requests; n++) {
			this.rests.count(this.now, 1);
			this.#begun.push(this.now);
		}
	}

	/** @returns how many there were. */
	end(): number {
		const begun = this.#begun;
		this.#begun = [];
		for (const startedAt of begun) this.rests.count(startedAt, -1);
		return begun.length;
	}

	/** A turn in which all requests end and the same number begins. @param ms of the wait and the work. @returns whether a rest follows. */
	turn(ms: number): boolean {
		this.now += ms;
		this.begin(this.end());
		return this.idleTurn(0);
	}

	/** Likewise, but no request begins or ends. */
	idleTurn(ms: number): boolean {
		const before = this.asked.length;
		this.now += ms;
		this.rests.onTurnEnd();
		return this.asked.length > before;
	}
}

const SHORT = SHORT_TURN_MS / 2;
const LONG = SHORT_TURN_MS * 2;

describe('a rest between turns of the loop', () => {
	it('follows a short turn while many requests are in flight', () => {
		const worker = new FakeWorker(MANY_REQUESTS);
		assert.deepEqual(
			[SHORT, SHORT, LONG, SHORT].map((ms) => worker.turn(ms)),
			[true, true, false, true],
		);
		assert.deepEqual(worker.asked, [REST_MS, REST_MS, REST_MS]);
	});

	it('delays no request while few are in flight', () => {
		const worker = new FakeWorker(MANY_REQUESTS - 1);
		assert.equal(worker.turn(SHORT), false);
		worker.begin(1);
		worker.turn(LONG);
		worker.turn(LONG);
		assert.equal(worker.turn(SHORT), true);
	});

	it('delays no request because of others that have been in flight for long', () => {
		const worker = new FakeWorker(10 * MANY_REQUESTS);
		const rested: boolean[] = [];
		for (let ms = 0; ms < 4 * WINDOW_MS; ms += SHORT) rested.push(worker.idleTurn(SHORT));
		assert.equal(rested[0], true);
		assert.deepEqual(rested.slice(-WINDOW_MS / SHORT / 4).filter(Boolean), []);
		// Nor do they once they are over: new ones count as before.
		worker.end();
		worker.begin(MANY_REQUESTS - 1);
		assert.equal(worker.idleTurn(SHORT), false);
		worker.begin(1);
		worker.turn(LONG);
		worker.turn(LONG);
		assert.equal(worker.turn(SHORT), true);
	});

	it('does not count what began while few were in flight, however long ago', () => {
		const worker = new FakeWorker(MANY_REQUESTS - 1);
		worker.idleTurn(100 * WINDOW_MS);
		worker.begin(2);
		worker.idleTurn(SHORT);
		assert.equal(worker.idleTurn(SHORT), false);
	});

	it('is no part of the next turn, and is counted', () => {
		const worker = new FakeWorker(MANY_REQUESTS);
		worker.restMs = 0.2;
		for (let n = 0; n < 3; n++) assert.equal(worker.turn(SHORT), true);
		assert.ok(Math.abs(worker.rests.totalMs - 0.6) < 1e-6, `${worker.rests.totalMs}`);
	});

	it('stays out for a while after several in a row that took too long, but not after some of them', () => {
		const worker = new FakeWorker(MANY_REQUESTS);
		for (let n = 0; n < 3 * LONG_RESTS; n++) {
			worker.restMs = n % LONG_RESTS === 0 ? 0.06 : 2 * LONG_REST_MS;
			assert.equal(worker.turn(SHORT), true, `${n}`);
		}
		worker.restMs = 0.06;
		worker.turn(SHORT);
		worker.restMs = 2 * LONG_REST_MS;
		for (let n = 0; n < LONG_RESTS; n++) assert.equal(worker.turn(SHORT), true, `${n}`);
		assert.equal(worker.turn(SHORT), false);
		worker.turn(PAUSE_MS);
		worker.turn(1);
		assert.equal(worker.turn(SHORT), true);
	});
});
