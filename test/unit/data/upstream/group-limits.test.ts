import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Timed } from '../../../../src/data/deadlines.ts';
import type { Upstream } from '../../../../src/data/plane.ts';
import type { UpstreamConnection } from '../../../../src/data/upstream/connection.ts';
import { UpstreamGroup } from '../../../../src/data/upstream/group.ts';
import { UpstreamPool } from '../../../../src/data/upstream/pool.ts';
import { BALANCES, DEFAULT_BALANCING } from '../../../../src/gates/balancing/settings.ts';
import { NORMAL } from '../../../../src/gates/breaker.ts';
import { UpstreamLoad } from '../../../../src/shared/upstream-load.ts';
import { FakePlane } from '../fixtures/fake-plane.ts';

const COOLDOWN_MS = 1_000;
const LIMITS = { maxRequests: undefined, maxConnections: 2, queue: 0, queueTimeoutMs: 1_000 };

/** An upstream whose breaker is closed. A choice that does not end would ask it for ever. */
function testUpstream(authority: string, plane: FakePlane): Upstream {
	let asked = 0;
	const admit = () => {
		assert.ok(++asked < 100, 'the choice ends');
		return NORMAL;
	};
	const counts = () => new UpstreamLoad(UpstreamLoad.allocate(1, 0), 0);
	const upstream = {
		authority,
		breaker: { admits: () => true, admit, report: () => {} },
		stats: { connections: () => {} },
		load: counts(),
		connections: counts(),
	};
	const pool = new UpstreamPool(upstream as unknown as Upstream, plane.deadlines, {
		idleTimeoutMs: 10_000,
		connectTimeoutMs: undefined,
	});
	pool.limitTo(LIMITS.maxConnections, undefined);
	return Object.assign(upstream, { pool }) as unknown as Upstream;
}

/** As much of a connection as the pool looks at. */
class FakeConnection extends Timed {
	usableUntil = 0;
	isDestroyed = false;
	readonly #pool: UpstreamPool;

	constructor(pool: UpstreamPool) {
		super();
		this.#pool = pool;
	}

	destroy(): void {
		this.isDestroyed = true;
		this.#pool.forget(this as unknown as UpstreamConnection);
	}

	override onDeadline(): void {
		this.destroy();
	}
}

/** A connection to the upstream that waits for its next request. */
function idle({ connections, pool }: Upstream): FakeConnection {
	const connection = new FakeConnection(pool);
	connections.inc();
	pool.release(connection as unknown as UpstreamConnection);
	return connection;
}

describe('a group of few places', () => {
	const settings = { ...DEFAULT_BALANCING, name: 'group', random: Math.random };

	for (const balance of BALANCES) {
		it(`without an address, which DNS may leave, admits nothing: ${balance}`, () => {
			const group = new UpstreamGroup({ ...settings, balance, upstreams: [], weights: [] });
			assert.equal(group.admit(0, COOLDOWN_MS, 'tenant-a'), undefined);
			assert.equal(group.isFull, false);
		});
	}

	it('sends a request elsewhere over a new connection: at max_connections an idle one makes room for it', () => {
		const plane = new FakePlane();
		const [failed, other] = [testUpstream('a:1', plane), testUpstream('b:1', plane)];
		const kept = [idle(other), idle(other)];
		const group = new UpstreamGroup({ ...settings, upstreams: [failed, other], weights: [1, 1], limits: LIMITS });
		assert.equal(group.admitOther(0, COOLDOWN_MS, 'tenant-a', [failed]), other);
		assert.deepEqual(
			kept.map(({ isDestroyed }) => isDestroyed),
			[true, false],
		);
		assert.equal(other.connections.total, 2);
	});
});
