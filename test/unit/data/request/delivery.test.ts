/** Requests that have passed the gates: which upstream they go to, how they wait for it, and where they go when it does not take them. */
import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as collected from '../../../../packages/proxy/src/data/body/collected.ts';
import * as streaming from '../../../../packages/proxy/src/data/body/streaming.ts';
import type { Upstream } from '../../../../packages/proxy/src/data/upstream/upstream.ts';
import { FLOOR } from '../../../../packages/proxy/src/gates/balancing/retry-budget.ts';
import { type BucketCounts, BucketTotal } from '../../../../packages/proxy/src/memory/bucket-counts.ts';
import { Client, Edge, LIMITED, QUEUE_TIMEOUT_MS } from '../fixtures/fake-edge.ts';
import { LIMITS, settle } from '../fixtures/fake-plane.ts';
import type { FakeUpstream } from '../fixtures/fake-upstream.ts';

function sumMs(durations: BucketCounts): number {
	return BucketTotal.of({ bounds: [1], exemplars: false }, [durations]).sumMs;
}

for (const mode of [collected, streaming]) {
	describe(`a request that its upstream did not take, while the others are at their limits: ${mode.bodyMode}`, () => {
		/** The first upstream has refused it, and the second one is at its limit. */
		async function refused(limits = LIMITED, body = '') {
			const edge = new Edge(mode, 2, limits);
			const [first, second] = edge.upstreams as [FakeUpstream, FakeUpstream];
			const under = await edge.occupy(1);
			const client = await edge.ask('tenant', body);
			equal(first.sockets.length, 1);
			first.sockets[0]!.refuse();
			await settle();
			return { edge, first, second, under, client };
		}

		it('waits, and leaves for one of them, once', async () => {
			const { edge, first, second, under, client } = await refused();
			deepEqual([client.status, edge.waiting.total, first.unreported(), first.upstream.load.total], [0, 1, 0, 0]);
			await edge.plane.pass(5_000);
			under.answer();
			await settle();
			equal(edge.waiting.total, 0);
			ok(!under.sent.includes('x-proxy-tenant: tenant'), 'on an unused connection');
			second.sockets[1]!.accept();
			match(second.sockets[1]!.sent, /x-proxy-tenant: tenant/);
			await edge.plane.pass(1_000);
			second.sockets[1]!.answer();
			await settle();
			equal(client.status, 200);
			deepEqual(edge.results, { served: 1 });
			equal(
				sumMs(second.upstream.durations),
				5_000 + 1_000,
				"the other request's round trip, and its own without the wait",
			);
			equal(sumMs(edge.plane.histograms.gates), 0);
			equal(first.upstream.stats.read().retries.get('unreachable'), 1);
			equal(first.sockets.length, 1);
			await edge.plane.pass(2 * QUEUE_TIMEOUT_MS);
			deepEqual(edge.results, { served: 1 }, 'its time in the queue is over with its place');
			edge.assertQuiet();
		});

		it('is sent again with its body', async () => {
			const { edge, second, under, client } = await refused(LIMITED, 'whole');
			under.answer();
			await settle();
			second.sockets[1]!.accept();
			await settle();
			match(second.sockets[1]!.sent, /content-length: 5\r\n.*whole$/s);
			second.sockets[1]!.answer();
			await settle();
			equal(client.status, 200);
			edge.assertQuiet();
		});

		it('is 502 with its first failure if the queue is full, or its time there is over', async () => {
			const none = await refused({ ...LIMITED, queue: 0 });
			deepEqual(none.client.verdict, [502, 'connection refused; no other address had room, and their queue was full']);
			deepEqual(none.edge.results, { full: 1 });
			const { edge, under, client } = await refused();
			await edge.plane.pass(QUEUE_TIMEOUT_MS + 1_000);
			deepEqual(client.verdict, [
				502,
				'connection refused; no other address had room, and it waited for queue_timeout_secs',
			]);
			deepEqual(edge.results, { timeout: 1 });
			under.answer();
			await settle();
			edge.assertQuiet();
		});

		it('makes room for another tenant like any other', async () => {
			const { edge, under, client } = await refused({ ...LIMITED, queue: 2 });
			edge.upstreams[0]!.elsewhere.inc();
			const own = await edge.ask('tenant');
			const other = await edge.ask('other');
			deepEqual(own.verdict, [503, 'the upstream is at its limit, and so is its queue']);
			deepEqual([client.status, other.status], [0, 0]);
			client.exchange.onClientGone();
			other.exchange.onClientGone();
			edge.upstreams[0]!.elsewhere.dec();
			under.answer();
			await settle();
			edge.assertQuiet();
		});

		it('is 504 after the upstream_timeout_secs that began with its first attempt', async () => {
			const limits = { ...LIMITED, queueTimeoutMs: 10 * LIMITS.upstream };
			const { edge, first, second, under, client } = await refused(limits);
			second.elsewhere.inc();
			under.answer();
			await edge.plane.pass(LIMITS.upstream - 10_000);
			equal(client.status, 0);
			await edge.plane.pass(12_000);
			deepEqual(client.verdict, [504, 'connection refused; no other address had room in time']);
			equal(first.upstream.stats.read().retries.get('unreachable'), 0);
			second.elsewhere.dec();
			edge.assertQuiet();
		});

		it('is 504 at the same time if it has left the queue', async () => {
			const { edge, second, under, client } = await refused({ ...LIMITED, queueTimeoutMs: 10 * LIMITS.upstream });
			await edge.plane.pass(LIMITS.upstream - 10_000);
			under.answer();
			await settle();
			second.sockets.at(-1)!.accept();
			equal(client.status, 0);
			await edge.plane.pass(12_000);
			equal(client.status, 504);
			edge.assertQuiet();
		});

		it('is sent nowhere once its client has left', async () => {
			const { edge, second, under, client } = await refused();
			client.exchange.onClientGone();
			deepEqual([edge.waiting.total, edge.results], [0, { gone: 1 }]);
			under.answer();
			await settle();
			equal(second.sockets.length, 1);
			edge.assertQuiet();
		});

		it('leaves for an upstream that a reload has added', async () => {
			const { edge, first, under, client } = await refused();
			const third = edge.add(2);
			edge.upstreams.push(third);
			edge.use([first, third]);
			await settle();
			third.sockets[0]!.accept();
			third.sockets[0]!.answer();
			await settle();
			equal(client.status, 200);
			under.answer();
			await settle();
			edge.assertQuiet();
		});

		it('is 502 with its first failure if a reload has left it no other upstream', async () => {
			const { edge, first, under, client } = await refused();
			edge.use([first]);
			await settle();
			deepEqual(client.verdict, [502, 'connection refused']);
			deepEqual(edge.results, { unavailable: 1 });
			under.answer();
			await settle();
			edge.assertQuiet();
		});

		it('does not delay requests that may use another upstream', async () => {
			const { edge, first, second, under, client } = await refused();
			const next = await edge.ask('other');
			equal(first.sockets.length, 2, 'it does not wait for requests to another upstream');
			const behind = await edge.ask('third');
			equal(edge.waiting.total, 2);
			first.sockets[1]!.accept();
			first.sockets[1]!.answer();
			await settle();
			equal(next.status, 200);
			equal(edge.waiting.total, 1);
			match(first.sockets[1]!.sent, /x-proxy-tenant: third/);
			deepEqual([client.status, second.sockets.length], [0, 1]);
			under.answer();
			await settle();
			second.sockets[1]!.answer();
			first.sockets[1]!.answer();
			await settle();
			deepEqual([client.status, behind.status], [200, 200]);
			edge.assertQuiet();
		});

		it('keeps no other request from an upstream that has room, even if the queue is full', async () => {
			const { edge, first, client } = await refused({ ...LIMITED, queue: 1 });
			const next = await edge.ask('other');
			deepEqual([client.status, next.status, first.sockets.length], [0, 0, 2]);
		});

		it('is forgotten once it has left: requests that wait after it are not overtaken', async () => {
			const { edge, first, second, under, client } = await refused();
			client.exchange.onClientGone();
			first.elsewhere.inc();
			await edge.ask('waits');
			equal(edge.waiting.total, 1);
			new Client(edge, 'late');
			under.answer();
			await settle();
			match(second.sockets.at(-1)!.sent, /x-proxy-tenant: waits/);
			equal(edge.waiting.total, 1);
		});

		it('goes after requests that have waited longer', async () => {
			const edge = new Edge(mode, 3);
			const [first, second, third] = edge.upstreams as [FakeUpstream, FakeUpstream, FakeUpstream];
			third.elsewhere.inc();
			const under = await edge.occupy(1);
			const client = await edge.ask('tenant');
			const waits = await edge.ask('waits');
			deepEqual([first.sockets.length, edge.waiting.total], [1, 1]);
			// Both in one turn: there is room for one.
			third.elsewhere.dec();
			first.elsewhere.inc();
			first.sockets[0]!.refuse();
			await settle();
			match(third.sockets[0]!.sent, /x-proxy-tenant: waits/);
			equal(edge.waiting.total, 1);
			under.answer();
			await settle();
			second.sockets.at(-1)!.answer();
			third.sockets[0]!.answer();
			await settle();
			deepEqual([client.status, waits.status], [200, 200]);
			first.elsewhere.dec();
			edge.assertQuiet();
		});
	});

	describe(`a request that its upstream did not take, after a reload: ${mode.bodyMode}`, () => {
		for (const limits of [undefined, LIMITED]) {
			it(`goes to an upstream that is in force, and to none that is not: ${limits ? 'with' : 'without'} limits`, async () => {
				const edge = new Edge(mode, 2, limits ?? LIMITED);
				const [first, second] = edge.upstreams as [FakeUpstream, FakeUpstream];
				const parts = limits === undefined ? { limits, pending: undefined } : { limits };
				edge.use([first, second], parts);
				const client = await edge.ask('tenant', 'whole');
				equal(first.sockets.length, 1);
				const third = edge.add(2);
				edge.upstreams.push(third);
				edge.use([first, third], parts);
				first.sockets[0]!.refuse();
				await settle();
				deepEqual([second.sockets.length, third.sockets.length], [0, 1]);
				third.sockets[0]!.accept();
				await settle();
				third.sockets[0]!.answer();
				await settle();
				equal(client.status, 200);
				edge.assertQuiet();
			});
		}

		it('goes nowhere if the upstream is the only one by then', async () => {
			const edge = new Edge(mode, 2);
			const [first, second] = edge.upstreams as [FakeUpstream, FakeUpstream];
			const client = await edge.ask('tenant');
			edge.use([first]);
			first.sockets[0]!.refuse();
			await settle();
			deepEqual(client.verdict, [502, 'connection refused']);
			equal(second.sockets.length, 0);
			edge.assertQuiet();
		});
	});

	describe(`a request whose idle connection was closed: ${mode.bodyMode}`, () => {
		it('waits for the only upstream if another thread has taken its place', async () => {
			const edge = new Edge(mode, 1);
			const [{ upstream, sockets, elsewhere }] = edge.upstreams as [FakeUpstream];
			const used = await edge.occupy(0);
			used.answer();
			await settle();
			const client = await edge.ask('tenant');
			match(used.sent, /x-proxy-tenant: tenant/);
			const { dec } = upstream.load;
			upstream.load.dec = () => {
				dec.call(upstream.load);
				elsewhere.inc();
			};
			used.close();
			// Until it is known whether the upstream has taken the request.
			await new Promise((done) => setTimeout(done, 5));
			upstream.load.dec = dec;
			await settle();
			deepEqual([client.status, edge.waiting.total, sockets.length], [0, 1, 1]);
			elsewhere.dec();
			upstream.pool.freed();
			await settle();
			sockets[1]!.answer();
			await settle();
			equal(client.status, 200);
			edge.assertQuiet();
		});
	});

	describe(`the retry budget: ${mode.bodyMode}`, () => {
		const UNLIMITED_PARTS = { limits: undefined, pending: undefined };

		it('is spent once by a request that waits before it is sent again', async () => {
			const edge = new Edge(mode, 2, { ...LIMITED, queue: 100 });
			const under = await edge.occupy(1);
			const [first] = edge.upstreams as [FakeUpstream];
			const clients: Client[] = [];
			for (let i = 0; i < FLOOR + 9; i++) {
				clients.push(await edge.ask(`tenant-${i}`));
				first.sockets.at(-1)!.refuse();
				await settle();
			}
			// With those before it and the one that is under way, each of them has added a fifth of a retry.
			const denied = clients.filter(({ status }) => status === 502).length;
			deepEqual([denied, edge.waiting.total], [5, FLOOR + 4]);
			const { retries, retriesDenied } = first.upstream.stats.read();
			deepEqual([retries.get('unreachable'), retriesDenied], [0, 5], 'none has been sent again yet');
			under.answer();
			await settle();
			equal(first.upstream.stats.read().retries.get('unreachable'), 1);
		});

		/** The budget is spent when the first upstream refuses a request. @returns how many were denied for that. */
		async function denied(edge: Edge, group: Upstream): Promise<number> {
			Object.assign(group, { retryBudget: { request() {}, allows: () => false, retry() {} } });
			const client = await edge.ask('tenant');
			edge.upstreams[0]!.sockets[0]!.refuse();
			await settle();
			deepEqual(client.verdict.slice(0, 1), [502]);
			return edge.upstreams[0]!.upstream.stats.read().retriesDenied;
		}

		it('denies what another upstream could have had', async () => {
			const edge = new Edge(mode, 2);
			equal(await denied(edge, edge.use(edge.upstreams)), 1);
		});

		it('denies what could have waited for another upstream', async () => {
			const edge = new Edge(mode, 2);
			await edge.occupy(1);
			equal(await denied(edge, edge.use(edge.upstreams)), 1);
		});

		it('denies nothing if the breakers of all others are open', async () => {
			const edge = new Edge(mode, 2);
			edge.upstreams[1]!.upstream.breaker.health(false, 0);
			equal(await denied(edge, edge.use(edge.upstreams)), 0);
		});

		it('denies nothing if all others and the queue are full', async () => {
			const limits = { ...LIMITED, queue: 0 };
			const edge = new Edge(mode, 2, limits);
			await edge.occupy(1);
			equal(await denied(edge, edge.use(edge.upstreams, { limits })), 0);
		});

		it('denies nothing if no other upstream is', async () => {
			const edge = new Edge(mode, 1);
			equal(await denied(edge, edge.use(edge.upstreams, UNLIMITED_PARTS)), 0);
		});
	});

	describe(`a request that waits: ${mode.bodyMode}`, () => {
		it('counts as unavailable if no breaker admits it any more when its turn comes', async () => {
			const edge = new Edge(mode, 1);
			const [{ upstream, sockets }] = edge.upstreams as [FakeUpstream];
			await edge.occupy(0);
			const client = await edge.ask('tenant');
			equal(edge.waiting.total, 1);
			upstream.breaker.health(false, 0);
			sockets[0]!.answer();
			await settle();
			deepEqual(client.verdict, [503, 'circuit open']);
			deepEqual(edge.results, { unavailable: 1 });
			edge.assertQuiet();
		});
	});
}
