import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Deadlines, TICK_MS } from '../../../../../packages/proxy/src/data/loop/deadlines.ts';
import { Liveness } from '../../../../../packages/proxy/src/data/upstream/http2/liveness.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** More than any of the deadlines is late. */
const LATE = SECOND;

/** A connection with a request in flight, and an upstream that answers PINGs for as long as it lives. */
function watched({ answers = true } = {}) {
	let now = 0;
	const wheel = new Deadlines({ now: () => now, wallSeconds: () => 0 });
	const [ping, pong] = [wheel.queue(30 * SECOND), wheel.queue(20 * SECOND)];
	const pings: number[] = [];
	let silentAt: number | undefined;
	const connection = {
		reads: 0,
		protocol: { ping: () => pings.push(now) },
		onSilence: () => {
			silentAt = now;
		},
		onFault: (error: unknown) => {
			throw error;
		},
	};
	const deadlines = {
		get now() {
			return wheel.now;
		},
		...{ ping, pong },
	};
	const liveness = new Liveness(connection, deadlines);
	liveness.watch();
	let answered = 0;
	/** @param onTick what else goes on. */
	const pass = (ms: number, onTick: (now: number) => void = () => {}) => {
		for (const end = now + ms; now < end; ) {
			now += TICK_MS;
			wheel.tick(now);
			onTick(now);
			if (!answers || answered === pings.length) continue;
			answered = pings.length;
			connection.reads++;
			liveness.onPong();
		}
	};
	return { pass, pings, connection, liveness, silentAt: () => silentAt };
}

/** Time between PINGs that gRPC servers allow where nothing of a response goes out between: `min_recv_ping_interval_without_data_ms`, ms. */
const ALLOWED = 5 * MINUTE;

describe('an upstream that is silent while a request is in flight', () => {
	it('gets a PING after 30 s, and is closed without an answer in 20 s', () => {
		const { pass, pings, silentAt } = watched({ answers: false });
		pass(30 * SECOND + LATE);
		assert.equal(pings.length, 1);
		assert.equal(silentAt(), undefined);
		pass(20 * SECOND);
		assert.ok(silentAt()! <= 50 * SECOND + LATE);
	});

	it('is not asked as long as something comes', () => {
		const { pass, pings, connection } = watched();
		pass(10 * MINUTE, (now) => {
			if (now % (20 * SECOND) === 0) connection.reads++;
		});
		assert.deepEqual(pings, []);
	});

	it('is asked no more often than gRPC servers allow: they end a connection with more PINGs, and every call on it', () => {
		const { pass, pings, silentAt } = watched();
		pass(60 * MINUTE);
		assert.ok(pings.length >= 8, `${pings.length} PINGs in an hour`);
		for (const [i, at] of pings.entries()) {
			if (i > 0) assert.ok(at - pings[i - 1]! > ALLOWED, pings.join());
		}
		assert.equal(silentAt(), undefined);
	});

	it('is asked no more often where frames come that are no response, or another request begins', () => {
		const { pass, pings, connection, liveness } = watched();
		pass(60 * MINUTE, (now) => {
			if (now % (45 * SECOND) === 0) connection.reads++;
			if (now % (40 * SECOND) !== 0) return;
			liveness.cancelDeadline();
			liveness.watch();
		});
		for (const [i, at] of pings.entries()) {
			if (i > 0) assert.ok(at - pings[i - 1]! > ALLOWED, pings.join());
		}
	});
});
