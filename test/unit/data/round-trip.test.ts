/** Requests that have passed the gates: which upstream they go to, how they wait for it, and where they go when it does not take them. */
import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { AnswerFields } from '../../../src/data/answer-fields.ts';
import * as collected from '../../../src/data/body/collected.ts';
import * as streaming from '../../../src/data/body/streaming.ts';
import type { ClientRequest } from '../../../src/data/client.ts';
import { ClientConnection } from '../../../src/data/client-connection.ts';
import type { Exchange } from '../../../src/data/exchange.ts';
import { type GroupParts, UpstreamGroup } from '../../../src/data/upstream/group.ts';
import { WaitingRoom } from '../../../src/data/upstream/waiting-room.ts';
import { FLOOR } from '../../../src/gates/balancing/retry-budget.ts';
import { DEFAULT_BALANCING } from '../../../src/gates/balancing/settings.ts';
import { UNLIMITED } from '../../../src/gates/quota.ts';
import type { Rejection } from '../../../src/gates/rejection.ts';
import { RouteTable } from '../../../src/gates/routes.ts';
import { type BucketCounts, BucketTotal } from '../../../src/shared/bucket-counts.ts';
import { QUEUE_RESULTS, QueueStats } from '../../../src/shared/queue-stats.ts';
import { RouteStats } from '../../../src/shared/route-stats.ts';
import { UpstreamLoad } from '../../../src/shared/upstream-load.ts';
import { WakeUp } from '../../../src/shared/wake-up.ts';
import { FakePlane, LIMITS, settle } from './fixtures/fake-plane.ts';
import { type FakeSocket, type FakeUpstream, fakeUpstream } from './fixtures/fake-upstream.ts';

const QUEUE_TIMEOUT_MS = 20_000;
const LIMITED = { maxRequests: 1, maxConnections: undefined, queue: 3, queueTimeoutMs: QUEUE_TIMEOUT_MS };

/** As much of a client as an exchange talks to. */
class Client {
	readonly head;
	readonly method: string;
	readonly target = '/';
	readonly targetAuthority = undefined;
	readonly connection = new ClientConnection({} as never, '192.0.2.1', 'http/1.1');
	readonly exchange: Exchange;
	readonly #bytes: string;
	status = 0;
	refusal: Rejection | undefined;

	/** @param body its bytes. */
	constructor(edge: Edge, tenant: string, body = '') {
		this.method = body === '' ? 'GET' : 'POST';
		this.#bytes = body;
		this.head = {
			...{ authorization: tenant, lines: '', bodyLength: body.length, wantsUpgrade: false, expectsContinue: false },
			...{ traceparent: undefined, requestId: undefined, tracestate: '', authority: 'edge', claimsOrigin: false },
		};
		this.exchange = new edge.Exchange(this as unknown as ClientRequest, edge.plane);
		this.exchange.start();
	}

	readBody(): void {
		setImmediate(() => {
			this.exchange.onRequestBody(Buffer.from(this.#bytes));
			this.exchange.onRequestEnd();
		});
	}

	answer(status: number): void {
		this.status = status;
		this.exchange.onAnswered();
	}

	begin(status: number, _fields: AnswerFields, _hasBody: boolean): void {
		this.status = status;
	}

	write(): boolean {
		return true;
	}

	end(): void {
		this.exchange.onAnswered();
	}

	refuse(refusal: Rejection): void {
		this.refusal = refusal;
		this.answer(refusal.status);
	}

	get verdict(): [number, string | undefined] {
		return [this.status, this.refusal?.reason];
	}
}

function sumMs(durations: BucketCounts): number {
	return BucketTotal.of({ bounds: [1], exemplars: false }, [durations]).sumMs;
}

/** One worker, with a group of several upstreams. */
class Edge {
	readonly Exchange;
	readonly plane = new FakePlane();
	readonly upstreams: FakeUpstream[];
	readonly room: WaitingRoom;
	readonly waiting: UpstreamLoad;
	#group: UpstreamGroup | undefined;

	constructor(mode: typeof collected | typeof streaming, addresses: number, limits: typeof LIMITED = LIMITED) {
		this.Exchange = mode.BodyExchange;
		const { plane } = this;
		const authenticate = (tenant: string) => {
			return { tenant, tenantHeader: `x-proxy-tenant: ${tenant}\r\n`, tenantKey: 1n, quota: UNLIMITED };
		};
		Object.assign(plane, { authenticator: { authenticate } });
		this.upstreams = Array.from({ length: addresses }, (_, i) => this.add(i));
		const count = UpstreamLoad.allocate(2, 0);
		this.waiting = new UpstreamLoad(count, 0);
		const seed = { count, freed: WakeUp.allocate(), wanted: WakeUp.allocate(), stats: QueueStats.allocate(2) };
		this.room = new WaitingRoom(seed, limits, 0, plane);
		this.use(this.upstreams, { limits });
	}

	add(i: number): FakeUpstream {
		return fakeUpstream(`192.0.2.${i}:80`, this.plane);
	}

	/** From now on requests are routed there. */
	use(among: readonly FakeUpstream[], parts: Partial<GroupParts> = {}): UpstreamGroup {
		const limits = 'limits' in parts ? parts.limits : LIMITED;
		const group = new UpstreamGroup({
			...{ ...DEFAULT_BALANCING, balance: 'round-robin', name: 'group', random: () => 0.5 },
			...{ upstreams: among.map(({ upstream }) => upstream), weights: among.map(() => 1), room: this.room },
			before: this.#group,
			...parts,
			limits,
		});
		this.#group = group;
		group.comesIntoForce();
		for (const { upstream } of among) upstream.pool.limitTo(limits?.maxConnections, this.room);
		this.room.use(limits, group);
		const stats = RouteStats.of(RouteStats.allocate(1), 0);
		const route = { ...{ prefix: '/', cooldownMs: 1_000_000, opening: { failures: 100, tenants: 1 } }, group, stats };
		this.plane.routes = new RouteTable([{ ...route, access: undefined, certificateHeaders: undefined }]);
		return group;
	}

	/** Sends a request, and says what has come of it so far. */
	async ask(tenant = 'tenant', body?: string): Promise<Client> {
		const client = new Client(this, tenant, body);
		await settle();
		return client;
	}

	/** A request that stays under way there. */
	async occupy(i: number): Promise<FakeSocket> {
		const { sockets } = this.upstreams[i]!;
		const others = this.upstreams.filter((_, other) => other !== i);
		const before = sockets.length;
		for (const { elsewhere } of others) elsewhere.inc();
		await this.ask('somebody');
		for (const { elsewhere } of others) elsewhere.dec();
		equal(sockets.length, before + 1);
		sockets.at(-1)!.accept();
		return sockets.at(-1)!;
	}

	/** Counts of those who had to wait, by result. */
	get results(): Partial<Record<string, number>> {
		const all = QUEUE_RESULTS.map((result) => [result, this.room.stats.total(result)] as const);
		return Object.fromEntries(all.filter(([, count]) => count > 0));
	}

	/** Nothing is under way any more, nobody waits, and each breaker knows what became of all that it has admitted. */
	assertQuiet(): void {
		deepEqual([this.waiting.total, this.room.isEmpty], [0, true]);
		for (const { upstream, unreported } of this.upstreams) deepEqual([upstream.load.total, unreported()], [0, 0]);
	}
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
			ok(!under.sent.includes('x-proxy-tenant: tenant'), 'on a connection that nobody has used');
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

		it('has its body taken along', async () => {
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

		it('is 502 with its first failure where the queue is full, or its time there is over', async () => {
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

		it('is 504 once the time is over that it had from the first', async () => {
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

		it('has no more time than that after it has left, either', async () => {
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

		it('leaves by what a reload has brought', async () => {
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

		it('is 502 with its first failure where a reload has left it no other upstream', async () => {
			const { edge, first, under, client } = await refused();
			edge.use([first]);
			await settle();
			deepEqual(client.verdict, [502, 'connection refused']);
			deepEqual(edge.results, { unavailable: 1 });
			under.answer();
			await settle();
			edge.assertQuiet();
		});

		it('holds up nobody who may go where it may not', async () => {
			const { edge, first, second, under, client } = await refused();
			const next = await edge.ask('other');
			equal(first.sockets.length, 2, 'it need not wait for those who wait for another one');
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

		it('keeps nobody out of an upstream that has room, though the queue is full', async () => {
			const { edge, first, client } = await refused({ ...LIMITED, queue: 1 });
			const next = await edge.ask('other');
			deepEqual([client.status, next.status, first.sockets.length], [0, 0, 2]);
		});

		it('is forgotten once it has left: nobody overtakes those who wait after it', async () => {
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

		it('lets those go first who have been waiting', async () => {
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
				const parts = limits === undefined ? { limits, room: undefined } : { limits };
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

		it('goes nowhere where the upstream is the only one by then', async () => {
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
		it('waits for the only upstream where another thread has taken its place', async () => {
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
		const UNLIMITED_PARTS = { limits: undefined, room: undefined };

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
		async function denied(edge: Edge, group: UpstreamGroup): Promise<number> {
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

		it('denies nothing where the breakers of all others are open', async () => {
			const edge = new Edge(mode, 2);
			edge.upstreams[1]!.upstream.breaker.health(false, 0);
			equal(await denied(edge, edge.use(edge.upstreams)), 0);
		});

		it('denies nothing where all others and the queue are full', async () => {
			const limits = { ...LIMITED, queue: 0 };
			const edge = new Edge(mode, 2, limits);
			await edge.occupy(1);
			equal(await denied(edge, edge.use(edge.upstreams, { limits })), 0);
		});

		it('denies nothing where no other upstream is', async () => {
			const edge = new Edge(mode, 1);
			equal(await denied(edge, edge.use(edge.upstreams, UNLIMITED_PARTS)), 0);
		});
	});

	describe(`a request that waits: ${mode.bodyMode}`, () => {
		it('counts as unavailable where no breaker admits it any more when its turn comes', async () => {
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
