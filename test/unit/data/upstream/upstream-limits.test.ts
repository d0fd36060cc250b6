import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Timed } from '../../../../packages/proxy/src/data/loop/deadlines.ts';
import type { UpstreamConnection } from '../../../../packages/proxy/src/data/upstream/connection.ts';
import type { Endpoint } from '../../../../packages/proxy/src/data/upstream/endpoint.ts';
import { PendingQueue, type Waiting } from '../../../../packages/proxy/src/data/upstream/pending-queue.ts';
import { UpstreamPool } from '../../../../packages/proxy/src/data/upstream/pool.ts';
import { Upstream } from '../../../../packages/proxy/src/data/upstream/upstream.ts';
import { BALANCES, DEFAULT_BALANCING } from '../../../../packages/proxy/src/gates/balancing/settings.ts';
import { NORMAL } from '../../../../packages/proxy/src/gates/breaker.ts';
import { UpstreamLoad } from '../../../../packages/proxy/src/memory/upstream-load.ts';
import type { UpstreamLimits } from '../../../../packages/proxy/src/shared/messages.ts';
import { queueSeed } from '../fixtures/fake-edge.ts';
import { FakePlane, settle } from '../fixtures/fake-plane.ts';

const COOLDOWN_MS = 1_000;
const LIMITS = { maxRequests: undefined, maxConnections: 2, queue: 0, queueTimeoutMs: 1_000 };

/** An upstream whose breaker is closed. A choice that does not end would ask it for ever. */
function testUpstream(authority: string, plane: FakePlane): Endpoint {
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
		deadlines: plane.deadlines,
		idleMs: 10_000,
		idleDeadlines: plane.deadlines.lasting(10_000),
	};
	const pool = new UpstreamPool(upstream as unknown as Endpoint);
	pool.limitTo(LIMITS.maxConnections, undefined);
	return Object.assign(upstream, { pool }) as unknown as Endpoint;
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
function idle({ connections, pool: any }: Endpoint): FakeConnection {
	const pool = any as UpstreamPool;
	const connection = new FakeConnection(pool);
	connections.inc();
	pool.release(connection as unknown as UpstreamConnection);
	return connection;
}

/** A request in the queue. */
function waits(depart: Waiting['depart'] = () => 'full', giveUp: Waiting['giveUp'] = () => {}): Waiting {
	return { isRetry: false, depart, giveUp, onFault: () => {} };
}

describe('a group of few places', () => {
	const settings = { ...DEFAULT_BALANCING, name: 'group', random: Math.random };

	for (const balance of BALANCES) {
		it(`an upstream without addresses admits nothing: ${balance}`, () => {
			const group = new Upstream({ ...settings, balance, endpoints: [], weights: [] });
			assert.equal(group.choose(0, COOLDOWN_MS, 'tenant-a'), 'none');
		});
	}

	it('sends a request elsewhere over a new connection: at max_connections an idle one makes room for it', () => {
		const plane = new FakePlane();
		const [failed, other] = [testUpstream('a:1', plane), testUpstream('b:1', plane)];
		const kept = [idle(other), idle(other)];
		const group = new Upstream({ ...settings, endpoints: [failed, other], weights: [1, 1], limits: LIMITS });
		assert.deepEqual(group.choose(0, COOLDOWN_MS, 'tenant-a', [failed]), {
			endpoint: other,
			admission: NORMAL,
			load: other.load,
		});
		assert.deepEqual(
			kept.map(({ isDestroyed }) => isDestroyed),
			[true, false],
		);
		assert.equal(other.connections.total, 2);
	});

	it('closes an idle connection, too, for a retry that may go to any address again', () => {
		const only = testUpstream('a:1', new FakePlane());
		const kept = [idle(only), idle(only)];
		const group = new Upstream({ ...settings, endpoints: [only], weights: [1], limits: LIMITS });
		assert.notEqual(typeof group.choose(0, COOLDOWN_MS, 'tenant-a', []), 'string');
		assert.deepEqual(
			kept.map(({ isDestroyed }) => isDestroyed),
			[true, false],
		);
	});
});

describe('connections at max_connections', () => {
	const wanted = { owes: () => true, cede: () => {}, freed: () => {} } as unknown as PendingQueue;

	it('end when they become free, if another thread has to have one, and are kept below the limit', () => {
		const upstream = testUpstream('a:1', new FakePlane());
		upstream.pool.limitTo(2, wanted);
		const first = idle(upstream);
		const second = idle(upstream);
		assert.deepEqual([first.isDestroyed, second.isDestroyed], [false, true]);
	});

	it('at max_connections as many idle connections end as requests wait in other threads', () => {
		const upstream = testUpstream('a:1', new FakePlane());
		upstream.pool.limitTo(4, undefined);
		const kept = Array.from({ length: 3 }, () => idle(upstream));
		upstream.pool.giveWay(1);
		assert.equal(upstream.connections.total, 3);
		upstream.pool.giveWay(3);
		assert.deepEqual(
			kept.map(({ isDestroyed }) => isDestroyed),
			[true, true, false],
		);
	});
});

describe('a thread with requests that wait', () => {
	it('owes others a connection as long as it has more than an equal part of them', () => {
		const seed = queueSeed();
		const memory = UpstreamLoad.allocate(2, 0);
		const plane = new FakePlane();
		const [here, there] = [0, 1].map((worker) => ({
			pending: new PendingQueue(seed, { ...LIMITS, queue: 100 }, worker, plane),
			connections: new UpstreamLoad(memory, worker),
		})) as [Thread, Thread];
		here.connections.inc();
		assert.equal(here.pending.owes(here.connections), false, 'no request waits');
		for (let i = 0; i < 50; i++) here.pending.enter('heavy', waits());
		assert.equal(here.pending.owes(here.connections), false, 'only its own wait');
		const light = there.pending.enter('light', waits())!;
		assert.equal(here.pending.owes(here.connections), true, 'it has the only one');
		there.connections.inc();
		assert.equal(here.pending.owes(here.connections), false, 'each has one');
		light.leave('gone');
		light.leave('gone');
		assert.equal(there.pending.stats.total('gone'), 1, 'it leaves once');
		assert.equal(there.pending.owes(there.connections), true, 'the other one has no use for its own');
	});
});

describe('a full queue of two threads', () => {
	const QUEUE = 20;

	function twoQueues() {
		const seed = queueSeed();
		const plane = new FakePlane();
		const count = new UpstreamLoad(seed.count, 0);
		const refused = new Map<string, number>();
		const queues = [0, 1].map((worker) => new PendingQueue(seed, { ...LIMITS, queue: QUEUE }, worker, plane));
		const enter = (worker: number, tenant: string) => {
			const refuse = () => void refused.set(tenant, (refused.get(tenant) ?? 0) + 1);
			const place = queues[worker]!.enter(
				tenant,
				waits(() => 'full', refuse),
			);
			if (place === undefined) refuse();
			return place;
		};
		return { seed, plane, count, refused, enter };
	}

	it('admits small tenants of the other thread: a greedy one gives way until all have as many places', async () => {
		const { count, refused, enter } = twoQueues();
		for (let i = 0; i < 60; i++) enter(0, 'greedy');
		for (let i = 0; i < 8; i++) for (const worker of [0, 1]) assert.ok(enter(worker, `small-${i}-${worker}`), `${i}`);
		await settle();
		assert.deepEqual([...refused], [['greedy', 40 + 16]]);
		assert.equal(count.total, QUEUE);
		// No more than a place each can be had now: the greedy one has four.
		assert.deepEqual([enter(1, 'small-0-1'), enter(1, 'small-1-1')].map(Boolean), [true, true]);
		assert.equal(enter(1, 'small-2-1'), undefined);
		await settle();
		assert.deepEqual([refused.get('greedy'), count.total], [40 + 18, QUEUE]);
	});

	it('keeps to its size, and is empty when all have left, even if a claimed place was already free', async () => {
		const { count, enter } = twoQueues();
		const places = Array.from({ length: QUEUE }, () => enter(0, 'greedy')!);
		const claimed = Array.from({ length: 5 }, (_, i) => enter(1, `small-${i}`)!);
		assert.equal(count.total, QUEUE);
		// Before the other thread has heard of it.
		for (const place of places) place.leave('gone');
		await settle();
		assert.equal(count.total, 5);
		for (const place of claimed) place.leave('gone');
		assert.equal(count.total, 0);
	});
});

describe('requests that wait', () => {
	const limits = { ...LIMITS, maxConnections: undefined, maxRequests: 1, queue: 10 };

	function testQueue(plane: FakePlane) {
		const upstream = testUpstream('a:1', plane);
		const memory = queueSeed();
		const pending = new PendingQueue(memory, limits, 0, plane);
		const groupOf = (is: UpstreamLimits | undefined) =>
			new Upstream({
				...{ ...DEFAULT_BALANCING, name: 'group', random: Math.random, endpoints: [upstream], weights: [1] },
				...(is && { limits: is, pending }),
			});
		return { upstream, pending, groupOf, wanted: memory.wanted };
	}

	for (const [what, then] of [
		['a limit that was raised', { ...limits, maxRequests: 3 }],
		['the end of all limits', undefined],
	] as const) {
		it(`leave by what a reload has brought: ${what}`, async () => {
			const { pending, groupOf } = testQueue(new FakePlane());
			const before = groupOf(limits);
			pending.use(limits, before);
			assert.notEqual(typeof before.choose(0, COOLDOWN_MS, 'tenant-a'), 'string');
			const left: boolean[] = [];
			const waiting = waits((now, group) => {
				left.push(typeof group.choose(now, COOLDOWN_MS, 'tenant-a') !== 'string');
				return left.at(-1) ? 'served' : 'full';
			});
			pending.enter('tenant-a', waiting);
			pending.enter('tenant-a', waiting);
			await settle();
			assert.deepEqual(left.splice(0), [false]);
			pending.use(then, groupOf(then));
			await settle();
			assert.deepEqual(left, [true, true]);
			assert.ok(pending.isEmpty);
		});
	}

	it('pending requests of a removed upstream are served, and its queue then stops listening', async () => {
		const { pending, groupOf, wanted } = testQueue(new FakePlane());
		const connectionLimits = { ...limits, maxConnections: 1 };
		pending.use(connectionLimits, groupOf(connectionLimits));
		let isFree = false;
		pending.enter(
			'tenant-a',
			waits(() => (isFree ? 'served' : 'full')),
		);
		await settle();
		pending.retire();
		await settle();
		isFree = true;
		pending.freed();
		await settle();
		assert.equal(pending.stats.total('served'), 1);
		assert.equal(Atomics.notify(new Int32Array(wanted), 0), 0);
	});

	it('learn that a request from before the limits has ended', async () => {
		const plane = new FakePlane();
		const { upstream, pending, groupOf } = testQueue(plane);
		const connection = idle(upstream);
		upstream.pool.retire(pending);
		pending.use(limits, groupOf(limits));
		let asked = 0;
		pending.enter(
			'tenant-a',
			waits(() => (++asked > 2 ? 'served' : 'full')),
		);
		await settle();
		assert.equal(asked, 1);
		upstream.pool.freed();
		await settle();
		assert.equal(asked, 2);
		(upstream.pool as UpstreamPool).forget(connection as unknown as UpstreamConnection);
		await settle();
		assert.equal(asked, 3);
	});
});

interface Thread {
	readonly pending: PendingQueue;
	readonly connections: UpstreamLoad;
}
