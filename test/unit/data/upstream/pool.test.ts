import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Timed } from '../../../../packages/proxy/src/data/loop/deadlines.ts';
import type { UpstreamConnection } from '../../../../packages/proxy/src/data/upstream/connection.ts';
import type { Endpoint } from '../../../../packages/proxy/src/data/upstream/endpoint.ts';
import type { UpstreamPool } from '../../../../packages/proxy/src/data/upstream/pool.ts';
import type { Transport } from '../../../../packages/proxy/src/data/upstream/transport.ts';
import { FakePlane } from '../fixtures/fake-plane.ts';
import { fakeUpstream } from '../fixtures/fake-upstream.ts';

/** As much of a connection as the pool looks at. */
class FakeConnection extends Timed {
	usableUntil = 0;
	isDestroyed = false;
	readonly transport: Transport;
	readonly keepAliveTimeoutMs: number | undefined;

	constructor({ transport }: Endpoint, keepAliveTimeoutMs?: number) {
		super();
		this.transport = transport;
		this.keepAliveTimeoutMs = keepAliveTimeoutMs;
	}

	destroy(): void {
		this.isDestroyed = true;
		this.cancelDeadline();
	}

	override onDeadline(): void {
		this.destroy();
	}
}

function idle(upstream: Endpoint, keepAliveTimeoutMs?: number): FakeConnection {
	const connection = new FakeConnection(upstream, keepAliveTimeoutMs);
	(upstream.pool as UpstreamPool).release(connection as unknown as UpstreamConnection);
	return connection;
}

function testUpstream(idleMs: number, plane = new FakePlane()): { plane: FakePlane; upstream: Endpoint } {
	return { plane, upstream: fakeUpstream('192.0.2.1:80', plane, { idleTimeoutMs: idleMs }).upstream };
}

describe('an idle connection', () => {
	it('is kept as long as its upstream is given, each upstream its own time', async () => {
		const { plane, upstream } = testUpstream(2_000);
		const { upstream: other } = testUpstream(30_000, plane);
		const [short, long] = [idle(upstream), idle(other)];
		await plane.pass(1_000);
		assert.equal(short.isDestroyed, false);
		await plane.pass(3_000);
		assert.deepEqual([short.isDestroyed, long.isDestroyed], [true, false]);
		await plane.pass(24_000);
		assert.equal(long.isDestroyed, false);
		await plane.pass(4_000);
		assert.equal(long.isDestroyed, true);
	});

	it('is used up to a second before the end of what its upstream promises, if that is sooner', () => {
		const { plane, upstream } = testUpstream(4_000);
		assert.equal(idle(upstream, 3_000).usableUntil, plane.deadlines.now + 2_000);
		assert.equal(idle(upstream, 60_000).usableUntil, plane.deadlines.now + 4_000);
		assert.equal(idle(upstream, 1_000).isDestroyed, true);
	});

	it('gets another time from the next use on when that changes', async () => {
		const { plane, upstream } = testUpstream(30_000);
		const before = idle(upstream);
		upstream.use(upstream.transport, { idleTimeoutMs: 2_000 });
		const since = idle(upstream);
		await plane.pass(4_000);
		assert.deepEqual([before.isDestroyed, since.isDestroyed], [false, true]);
	});
});
