import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Timed } from '../../../../packages/proxy/src/data/loop/deadlines.ts';
import type { UpstreamConnection } from '../../../../packages/proxy/src/data/upstream/connection.ts';
import type { Endpoint } from '../../../../packages/proxy/src/data/upstream/endpoint.ts';
import { UpstreamPool } from '../../../../packages/proxy/src/data/upstream/pool.ts';
import { UpstreamStats } from '../../../../packages/proxy/src/memory/upstream-stats.ts';
import { FakePlane } from '../fixtures/fake-plane.ts';

/** As much of a connection as the pool looks at. */
class FakeConnection extends Timed {
	usableUntil = 0;
	isDestroyed = false;
	readonly keepAliveTimeoutMs: number | undefined;

	constructor(keepAliveTimeoutMs?: number) {
		super();
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

function idle(pool: UpstreamPool, keepAliveTimeoutMs?: number): FakeConnection {
	const connection = new FakeConnection(keepAliveTimeoutMs);
	pool.release(connection as unknown as UpstreamConnection);
	return connection;
}

function testPool(idleMs: number, plane = new FakePlane()): { plane: FakePlane; pool: UpstreamPool } {
	const upstream = { stats: new UpstreamStats(UpstreamStats.allocate()) } as unknown as Endpoint;
	return { plane, pool: new UpstreamPool(upstream, plane, { idleTimeoutMs: idleMs }) };
}

describe('an idle connection', () => {
	it('is kept as long as its upstream is given, each upstream its own time', async () => {
		const { plane, pool } = testPool(2_000);
		const { pool: other } = testPool(30_000, plane);
		const [short, long] = [idle(pool), idle(other)];
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
		const { plane, pool } = testPool(4_000);
		assert.equal(idle(pool, 3_000).usableUntil, plane.deadlines.now + 2_000);
		assert.equal(idle(pool, 60_000).usableUntil, plane.deadlines.now + 4_000);
		assert.equal(idle(pool, 1_000).isDestroyed, true);
	});

	it('gets another time from the next use on when that changes', async () => {
		const { plane, pool } = testPool(30_000);
		const before = idle(pool);
		pool.use({ idleTimeoutMs: 2_000 });
		const since = idle(pool);
		await plane.pass(4_000);
		assert.deepEqual([before.isDestroyed, since.isDestroyed], [false, true]);
	});
});
