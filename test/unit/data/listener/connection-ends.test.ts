import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { before, beforeEach, describe, test } from 'node:test';
import { ClientConnection } from '../../../../packages/proxy/src/data/client/client-connection.ts';
import {
	type Admitted,
	ConnectionEnds,
	type LiveConnection,
	withJitter,
} from '../../../../packages/proxy/src/data/listener/connection-ends.ts';
import { Deadlines } from '../../../../packages/proxy/src/data/loop/deadlines.ts';
import { createDeadlines } from '../../../../packages/proxy/src/data/plane/plane-deadlines.ts';
import { WorkerStats } from '../../../../packages/proxy/src/memory/worker-stats.ts';
import { testPki } from '../../../fixtures/pki.ts';
import { RecordedLog } from '../../control/fixtures/recorded-log.ts';
import { FakePlane } from '../fixtures/fake-plane.ts';

/** Wall-clock seconds at the beginning. */
const START = 1_800_000_000;

let certificate: X509Certificate;
before(async () => {
	certificate = new X509Certificate((await testPki()).clients.valid.certPem);
});

class FakeSocket extends EventEmitter {
	isClosed = false;
	get destroyed(): boolean {
		return this.isClosed;
	}
	/** `undefined` once it is closed, as of a real one. */
	getPeerX509Certificate = () => (this.isClosed ? undefined : certificate);
	getX509Certificate = () => undefined;
	getProtocol = () => 'TLSv1.3';
	destroy(): void {
		this.isClosed = true;
		this.emit('close');
	}
}

class FakeConnection implements LiveConnection {
	readonly fake = new FakeSocket();
	readonly socket = this.fake as unknown as Socket;
	readonly client = new ClientConnection(this.fake, '192.0.2.1', 'h2');
	endsAt = Number.POSITIVE_INFINITY;
	admitted: Admitted | undefined;
	drains = 0;
	/** Its drain throws. */
	isFaulty = false;
	drain(): void {
		if (this.isFaulty) throw new Error('injected');
		this.drains++;
	}
}

let now: number;
let wheel: Deadlines;
let live: FakeConnection[];
let log: RecordedLog;
let stats: WorkerStats;
let ends: ConnectionEnds;
let later: (() => void)[];
/** How often all connections have been looked at. */
let looks: number;
/** When the certificate ends its connections. */
let expiry: number;
beforeEach(() => {
	now = 0;
	live = [];
	later = [];
	looks = 0;
	expiry = Number.POSITIVE_INFINITY;
	log = new RecordedLog();
	stats = new WorkerStats(WorkerStats.allocate());
	const clock = { now: () => now, wallSeconds: () => START + now / 1000 };
	wheel = new Deadlines(clock);
	ends = new ConnectionEnds({
		clock,
		stats,
		log: log.logger,
		deadlines: createDeadlines(wheel, new FakePlane().limits),
		live: () => {
			looks++;
			return live.filter(({ fake }) => !fake.isClosed);
		},
		endOf: () => expiry,
		soon: (run) => void later.push(run),
	});
});

function pass(ms: number): void {
	for (const end = now + ms; now < end; ) {
		now = Math.min(end, now + 50);
		wheel.tick(now);
	}
}

/** @param seconds from the beginning. */
function connected(seconds = Number.POSITIVE_INFINITY): FakeConnection {
	const connection = new FakeConnection();
	live.push(connection);
	ends.expect(connection, certificate, { bundle: { cas: [] }, seconds: START, oldAt: START + seconds });
	return connection;
}

function counted(): Record<string, number> {
	return Object.fromEntries([...stats.read().connectionEnds].filter(([, count]) => count > 0));
}

describe('a connection with an end', () => {
	test('is drained when its certificate expires, and closed when that takes too long', () => {
		expiry = START + 10;
		const connection = connected(10);
		pass(9900);
		assert.equal(connection.drains, 0);
		pass(1300);
		assert.equal(connection.drains, 1);
		assert.equal(connection.fake.isClosed, false);
		assert.deepEqual(counted(), { expired: 1 });
		const { reason, peer, subject } = log.fields('connection is being ended');
		assert.deepEqual([reason, peer, subject], ['expired', '192.0.2.1', 'CN=client']);
		pass(4200);
		assert.equal(connection.fake.isClosed, true);
		pass(10_000);
		assert.deepEqual([connection.drains, counted()], [1, { expired: 1 }]);
	});

	test('a connection that reaches its age is drained, and its requests may finish until the certificate expires', () => {
		expiry = START + 60;
		const connection = connected(10);
		pass(30_000);
		assert.deepEqual([connection.drains, connection.fake.isClosed, counted()], [1, false, { age: 1 }]);
		pass(36_000);
		assert.deepEqual([connection.fake.isClosed, counted()], [true, { age: 1, expired: 1 }]);
	});

	test('is not looked at before one is due', () => {
		connected();
		connected(100);
		pass(99_000);
		assert.equal(looks, 0);
		pass(2000);
		assert.equal(looks, 1);
		const early = connected(102);
		live.unshift(connected(200));
		pass(2000);
		assert.deepEqual([looks, early.drains], [2, 1]);
		pass(90_000);
		assert.equal(looks, 2);
		pass(10_000);
		assert.deepEqual([looks, counted()], [3, { age: 3 }]);
	});

	test('is drained once, a few in each turn of the loop', () => {
		expiry = START + 10;
		for (let i = 0; i < 100; i++) connected(10);
		pass(12_000);
		const drained = () => live.filter(({ drains }) => drains === 1).length;
		const turns = [drained()];
		// The next look comes before their turn.
		pass(2000);
		const [closed] = live;
		closed!.fake.destroy();
		while (later.length > 0) {
			later.shift()!();
			turns.push(drained());
		}
		assert.deepEqual(turns, [32, 64, 96, 99], 'and not the one that has closed meanwhile');
		assert.ok(live.every(({ drains }) => drains <= 1));
		assert.deepEqual(counted(), { expired: 99 });
	});

	test('an internal error where a connection is drained closes that one, and the others are drained', () => {
		expiry = START + 10;
		const all = Array.from({ length: 40 }, () => connected(10));
		for (const at of [0, 20]) all[at]!.isFaulty = true;
		pass(11_000);
		for (let run = later.shift(); run !== undefined; run = later.shift()) run();
		for (const { isFaulty, drains, fake } of all)
			assert.deepEqual([fake.isClosed, drains], [isFaulty, isFaulty ? 0 : 1]);
		assert.equal(log.lines.filter((line) => line === 'error proxy::tls: internal error').length, 2);
	});

	test('a revoked connection is not counted again when its certificate expires', () => {
		expiry = START + 10;
		connected(10);
		pass(9900);
		ends.sweep(() => 'revoked');
		pass(2000);
		assert.deepEqual(counted(), { revoked: 1 });
	});

	test('a connection that its client has closed has no later end', () => {
		const connection = connected(10);
		connection.fake.destroy();
		pass(20_000);
		assert.deepEqual([connection.drains, counted(), looks], [0, {}, 1]);
	});

	test('a reload can put off the end at expiry, and a later one can bring it forward again', () => {
		expiry = START + 10;
		const connection = connected();
		expiry = Number.POSITIVE_INFINITY;
		pass(20_000);
		assert.deepEqual([connection.drains, counted()], [0, {}], 'also where no sweep has come by yet');
		expiry = START + 30;
		ends.sweep(() => undefined);
		pass(9000);
		assert.equal(connection.drains, 0);
		pass(2000);
		assert.deepEqual([connection.drains, counted()], [1, { expired: 1 }]);
	});

	test('has its end a tenth earlier or later', () => {
		assert.deepEqual(
			[0, 0.5, 1].map((random) => Math.round(withJitter(100, random))),
			[90, 100, 110],
		);
		assert.equal(withJitter(0, 0.7), 0);
	});
});

describe('a sweep', () => {
	test('checks each connection once, a few in a turn, and ends the chosen ones', () => {
		for (let i = 0; i < 100; i++) connected();
		let asked = 0;
		ends.sweep(() => (asked++ % 2 === 0 ? 'revoked' : undefined));
		const turns = [asked];
		while (later.length > 0) {
			later.shift()!();
			turns.push(asked);
		}
		assert.deepEqual(turns, [32, 64, 96, 100]);
		assert.equal(live.filter(({ drains }) => drains === 1).length, 50);
		assert.deepEqual(counted(), { revoked: 50 });
		assert.equal(log.records.length, 50, 'each with its line');
		pass(4200);
		assert.equal(live.filter(({ fake }) => fake.isClosed).length, 50);
	});

	test('is replaced by the next one, which does not end connections twice', () => {
		for (let i = 0; i < 64; i++) connected();
		ends.sweep(() => 'revoked');
		ends.sweep(() => 'ca_removed');
		while (later.length > 0) later.shift()!();
		assert.deepEqual(counted(), { revoked: 32, ca_removed: 32 });
		assert.ok(live.every(({ drains }) => drains === 1));
	});

	test('passes over those that have closed meanwhile', () => {
		for (let i = 0; i < 40; i++) connected();
		ends.sweep(() => undefined);
		for (const { fake } of live) fake.destroy();
		later.shift()!();
		assert.deepEqual(counted(), {});
	});

	test('ends those at once that only had reached their age', () => {
		const connection = connected(1);
		pass(3000);
		ends.sweep(() => 'revoked');
		pass(4200);
		assert.deepEqual([connection.fake.isClosed, counted()], [true, { age: 1, revoked: 1 }]);
	});

	test('ends those that cannot be checked, logs it once, and goes on', () => {
		for (let i = 0; i < 40; i++) connected();
		let asked = 0;
		ends.sweep(() => {
			if (asked++ % 2 === 0) throw new Error('unreadable');
			return undefined;
		});
		while (later.length > 0) later.shift()!();
		assert.deepEqual([asked, counted()], [40, { revoked: 20 }]);
		const faults = log.lines.filter((line) => line.startsWith('error'));
		assert.deepEqual(faults.length, 1, faults.join());
		assert.match(faults[0]!, /^error proxy::tls: a connection could not be checked after a reload; ending it/);
	});
});
