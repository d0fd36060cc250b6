import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
	ALLOWANCE,
	ALLOWANCES,
	CertificateShares,
	ConnectionShare,
	PeerShare,
	SHARE,
} from '../../../../packages/proxy/src/data/loop/read-share.ts';

/** What a client of a certificate with several connections does, one step after the other. */
const step = (connections: number) =>
	fc.record({
		/** Milliseconds since the step before. */
		pause: fc.double({ min: 0, max: 20, noNaN: true }),
		connection: fc.nat(connections - 1),
		/** Tokens of a frame that no request needs, of a head that is paid for at once, and of bytes that are read. */
		waste: fc.double({ min: 0, max: 400, noNaN: true }),
		paid: fc.double({ min: 0, max: 400, noNaN: true }),
		read: fc.double({ min: 0, max: 64, noNaN: true }),
	});
const flood = fc
	.integer({ min: 1, max: 64 })
	.chain((count) => fc.tuple(fc.constant(count), fc.array(step(count), { maxLength: 400 })));

describe('a share of a worker', () => {
	it('bounds the work for a certificate, whatever its connections do', () => {
		fc.assert(
			fc.property(flood, ([count, steps]) => {
				const certificate = new PeerShare();
				const connections = Array.from({ length: count }, () => new ConnectionShare(certificate));
				let now = 0;
				let work = 0;
				/** Of each connection, the largest step: it is begun as long as there is any token. */
				const largest = new Array<number>(count).fill(0);
				for (const connection of connections) connection.settle(now);
				for (const { pause, connection: i, waste } of steps) {
					now += pause;
					const share = connections[i]!;
					if (share.isOverdrawn && !share.settle(now)) continue;
					share.spend(waste);
					work += waste;
					largest[i] = Math.max(largest[i]!, waste);
				}
				const overshoot = largest.reduce((sum, waste) => sum + waste, 0);
				const allowed = mostWork(count, now) + overshoot;
				assert.ok(work <= allowed + 1e-6, `${work} of ${allowed}`);
			}),
		);
	});

	it('bounds the work for a certificate, however many connections use up their allowances', () => {
		const connections = fc.integer({ min: 1, max: 1000 });
		fc.assert(
			fc.property(
				connections,
				fc.integer({ min: 1, max: 20 }),
				fc.integer({ min: 1, max: 50 }),
				(count, step, waste) => {
					const certificate = new PeerShare();
					const connections = Array.from({ length: count }, () => new ConnectionShare(certificate));
					let work = 0;
					let now = 0;
					for (; now < 1000; now += step) {
						for (const share of connections) {
							while (!share.isOverdrawn || share.settle(now)) {
								share.spend(waste);
								work += waste;
							}
						}
					}
					assert.ok(work <= mostWork(count, now) + count * waste, `${work} in ${now} ms`);
				},
			),
			{ numRuns: 30 },
		);
	});

	/** Tokens for `count` connections in `ms` milliseconds. */
	function mostWork(count: number, ms: number): number {
		const begun = count * ALLOWANCE.burst;
		return begun + ALLOWANCES.burst + SHARE.burst + (ALLOWANCES.perMs + SHARE.perMs) * ms;
	}

	it('does not delay a client whose requests are all admitted, whatever others waste', () => {
		fc.assert(
			fc.property(flood, ([count, steps]) => {
				const certificate = new PeerShare();
				const honest = new ConnectionShare(certificate);
				const others = Array.from({ length: count }, () => new ConnectionShare(certificate));
				let now = 0;
				for (const { pause, connection, waste, paid, read } of steps) {
					now += pause;
					others[connection]!.spend(waste);
					others[connection]!.settle(now);
					// A turn of the loop: bytes are read, a head is decoded, its request is admitted.
					honest.lend(read);
					honest.spend(paid);
					assert.ok(!honest.isOverdrawn);
					honest.release(paid);
					honest.endTurn();
				}
				assert.ok(honest.settle(now, ALLOWANCE.burst - 1e-6), 'everything has come back');
			}),
		);
	});

	it('lends tokens for one turn only, and reports only the first loan of a turn', () => {
		const share = new ConnectionShare(new PeerShare());
		assert.equal(share.lend(ALLOWANCE.burst), true);
		assert.equal(share.lend(1), false);
		assert.equal(share.isOverdrawn, true);
		share.endTurn();
		assert.equal(share.isOverdrawn, false);
		assert.equal(share.lend(1), true);
	});

	it('gives what a connection cannot keep back to its certificate', () => {
		const certificate = new PeerShare();
		const share = new ConnectionShare(certificate);
		share.settle(0);
		const tokens = ALLOWANCE.burst + SHARE.burst / 2;
		share.spend(tokens);
		assert.equal(share.settle(0), true);
		assert.equal(certificate.takeSome(SHARE.burst, 0), SHARE.burst / 2);
		share.release(tokens);
		assert.equal(certificate.takeSome(SHARE.burst, 0), SHARE.burst / 2);
	});

	it('repays a debt over time, up to its burst', () => {
		const certificate = new PeerShare();
		const share = new ConnectionShare(certificate);
		assert.equal(share.settle(0), true);
		certificate.takeSome(SHARE.burst, 0);
		share.spend(ALLOWANCE.burst + 50);
		assert.equal(share.settle(0), false);
		assert.equal(share.settle(1), true, 'the certificate has tokens again');
		assert.equal(share.settle(1, ALLOWANCE.burst + 1), false);
		assert.equal(share.settle(1e9, ALLOWANCE.burst), true);
		assert.equal(share.settle(1e9, ALLOWANCE.burst + SHARE.burst), true);
		assert.equal(share.settle(2e9, ALLOWANCE.burst + SHARE.burst + 1), false, 'no more than both bursts');
	});
});

describe('the shares of certificates', () => {
	it('are shared by all connections of a certificate, and forgotten after the last one', () => {
		const shares = new CertificateShares();
		const first = shares.enter('A');
		assert.equal(shares.enter('A'), first);
		assert.notEqual(shares.enter('B'), first);
		shares.leave('A', 0);
		assert.equal(shares.enter('A'), first);
		shares.leave('A', 0);
		shares.leave('A', 0);
		shares.leave('B', 0);
		assert.equal(shares.size, 0);
		assert.notEqual(shares.enter('A'), first);
	});

	it('keep the debt of a connection that has ended, and that of the last one until it is paid', () => {
		const shares = new CertificateShares();
		const certificate = shares.enter('A');
		const connection = new ConnectionShare(certificate);
		connection.settle(0);
		const debt = 100 * SHARE.perMs;
		connection.spend(ALLOWANCE.burst + SHARE.burst + debt);
		connection.leave();
		shares.leave('A', 0);
		assert.equal(shares.enter('A'), certificate);
		assert.equal(certificate.settle(99), false);
		shares.leave('A', 99);
		shares.enter('B');
		shares.leave('B', 99);
		assert.equal(shares.size, 2, 'the oldest debt is not paid');
		shares.enter('C');
		shares.leave('C', 100);
		assert.equal(shares.size, 0);
	});
});
