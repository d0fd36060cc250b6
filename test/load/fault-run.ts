/** Sends many concurrent requests through the proxy to bad upstreams until enough of them have ended. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RouteEntry } from '../../packages/proxy/src/cli/demo/config-file.ts';
import { type ProxyOptions, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { Changes } from '../fixtures/wait.ts';
import { Conversations } from './conversations.ts';
import { ConnectFailed, type FaultClient, H1FaultClient, H2FaultClient } from './fault-clients.ts';
import { FAULT_KINDS, type FaultKind } from './fault-kinds.ts';
import type { FaultLane } from './fault-lane.ts';
import { Lane } from './fault-upstream.ts';
import { HTTP1_KINDS } from './http1-fault-kinds.ts';
import { Http2Lane, type Http2LaneOptions } from './http2-fault-upstream.ts';
import { type Entry, Ledger, type Outcome, type Rules } from './ledger.ts';
import { type Plan, type Protocol, planRequest } from './plan.ts';
import { TalkUpstreams } from './talk-upstreams.ts';

interface FaultRunOptions {
	readonly seed: number;
	readonly mode: Rules['mode'];
	readonly kinds?: readonly FaultKind[];
	/** Clients of each protocol. HTTP/2 clients share connections, 8 to each. */
	readonly clients?: number;
	/** WebSockets and gRPC streams at the same time. */
	readonly talkers?: number;
	readonly threadsDie?: boolean;
	/** Probe interval of an upstream, s, and so the time that its breaker stays open after a failure. Default 0.05. */
	readonly probeSeconds?: number;
	readonly onViolation?: () => void;
	readonly proxy?: ProxyOptions;
}

/** `upstream_timeout_secs`, ms. */
export const LIMIT_MS = 1000;
/** `max_buffered_bytes`: low, so that a flooding upstream reaches it soon. */
export const BUDGET_BYTES = 64 * 2 ** 20;
const STREAMS = 8;
/** HTTP/1.1 upstreams that many requests share. */
const SHARED = 12;
/** HTTP/1.1 upstreams for requests that need one to themselves. */
const SOLO = 4;
/**
 * HTTP/2 upstreams with small, usual and large windows. No run reaches their stream limit. node:http2 counts ended streams for a while, and
 * resets streams beyond the limit with a code that does not say so.
 */
const STREAM_LANES: readonly Http2LaneOptions[] = [
	{ isRough: false, overTls: false, window: 65_535, streams: 100 },
	{ isRough: false, overTls: true, window: 65_535, streams: 100 },
	{ isRough: false, overTls: false, window: 2_000, streams: 100 },
	{ isRough: false, overTls: true, window: 1_000_000, streams: 1_000 },
	{ isRough: true, overTls: false, window: 65_535, streams: 100 },
	{ isRough: true, overTls: true, window: 65_535, streams: 100 },
	{ isRough: true, overTls: false, window: 10_000, streams: 100 },
];

interface Lanes {
	readonly shared: readonly Lane[];
	readonly solo: readonly Lane[];
	readonly calm: readonly Http2Lane[];
	readonly rough: readonly Http2Lane[];
}

export class FaultRun {
	readonly ledger: Ledger;
	readonly proxy: ProxyProcess;
	readonly #options: FaultRunOptions;
	readonly #kinds: readonly FaultKind[];
	readonly #changes: Changes;
	readonly #lanes: Lanes;
	readonly #talkUpstreams: TalkUpstreams;
	readonly talks: Conversations;
	#clients: { readonly protocol: Protocol; readonly client: FaultClient }[] = [];
	/** The last request of each HTTP/1.1 client. */
	readonly #last = new Map<FaultClient, Entry>();
	#turn = 0;
	#stopped = false;
	/** Connections to a thread that was dying. */
	failedConnects = 0;

	static async start(options: FaultRunOptions): Promise<FaultRun> {
		const { mode, kinds = FAULT_KINDS, threadsDie = false, probeSeconds = 0.05, onViolation, proxy } = options;
		const ledger = new Ledger({ mode, limitMs: LIMIT_MS, threadsDie }, onViolation);
		const changes = new Changes();
		const speaks = (protocol: FaultKind['upstream']) => kinds.some(({ upstream }) => upstream === protocol);
		const [http1, http2] = await Promise.all([
			Promise.all(
				Array.from({ length: speaks('h1') ? SHARED + SOLO : 0 }, (_, i) => Lane.start(i + 1, ledger, changes)),
			),
			Promise.all((speaks('h2') ? STREAM_LANES : []).map((own, i) => Http2Lane.start(i + 1, ledger, changes, own))),
		]);
		const lanes: Lanes = {
			shared: http1.slice(0, SHARED),
			solo: http1.slice(SHARED),
			calm: http2.filter(({ options: { isRough } }) => !isRough),
			rough: http2.filter(({ options: { isRough } }) => isRough),
		};
		const all = Object.values(lanes).flat() as readonly FaultLane[];
		const talkUpstreams = await TalkUpstreams.start();
		const process = await startProxy({
			boxedBody: mode === 'streaming',
			...proxy,
			upstreams: all.flatMap(({ upstream }) => upstream ?? []),
			routes: [...all.map(({ route }) => route), ...talkUpstreams.routes],
			config: { health_interval_secs: probeSeconds, default_cooldown_secs: 1, tenant_rps: 0 },
			limits: { upstream_timeout_secs: LIMIT_MS / 1000, max_buffered_bytes: BUDGET_BYTES },
		});
		return new FaultRun(options, ledger, process, changes, lanes, talkUpstreams);
	}

	private constructor(
		options: FaultRunOptions,
		ledger: Ledger,
		proxy: ProxyProcess,
		changes: Changes,
		lanes: Lanes,
		talkUpstreams: TalkUpstreams,
	) {
		this.#options = options;
		this.ledger = ledger;
		this.proxy = proxy;
		this.#changes = changes;
		this.#lanes = lanes;
		this.#talkUpstreams = talkUpstreams;
		this.talks = new Conversations(proxy, ledger, talkUpstreams, options);
		this.#kinds = options.kinds ?? FAULT_KINDS;
	}

	/** Addresses as in the configuration. */
	get routes(): RouteEntry[] {
		return [...this.lanes.map(({ route }) => route), ...this.#talkUpstreams.routes];
	}

	get lanes(): readonly FaultLane[] {
		return Object.values(this.#lanes).flat();
	}

	/** Sends until `enough` returns true, then waits for the requests in flight. */
	async send(enough: () => boolean): Promise<void> {
		this.#stopped = false;
		if (this.#clients.length === 0) this.#clients = this.#createClients();
		const over = () => this.#stopped || enough();
		await Promise.all([
			this.talks.run(over),
			...this.#clients.map(({ protocol, client }) => this.#sendAll(protocol, client, over)),
		]);
	}

	stop(): void {
		this.#stopped = true;
	}

	/** Closes all connections to the proxy. */
	async closeClients(): Promise<void> {
		await Promise.all(this.#clients.map(({ client }) => client.close()));
		this.#clients = [];
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.closeClients();
		await this.proxy.kill();
		await Promise.all([this.#talkUpstreams[Symbol.asyncDispose](), ...this.lanes.map((lane) => lane.stop())]);
	}

	#createClients() {
		const { clients = 40, threadsDie = false } = this.#options;
		const ended = () => {
			if (!threadsDie) this.ledger.violate('the proxy has ended an HTTP/2 connection');
		};
		const sessions = Array.from({ length: Math.ceil(clients / STREAMS) }, () => new H2FaultClient(this.proxy, ended));
		return Array.from({ length: clients }, (_, i) => [
			{ protocol: 'h1' as const, client: new H1FaultClient(this.proxy) },
			{ protocol: 'h2' as const, client: sessions[i % sessions.length]! },
		]).flat();
	}

	async #sendAll(protocol: Protocol, client: FaultClient, over: () => boolean): Promise<void> {
		while (!over()) {
			const plan = planRequest(this.#options.seed, this.#numberFor(protocol), this.#kinds);
			try {
				if (plan.kind.alone === undefined) await this.#sendShared(plan, client);
				else await this.#sendAlone(plan, client);
			} catch (error) {
				// A client that connects to a dying thread tries again.
				if (this.#options.threadsDie && error instanceof ConnectFailed) this.failedConnects++;
				else this.ledger.violate(`${plan.id} (${protocol}, '${plan.kind.name}'): ${(error as Error).message}`);
				// One report is enough, whatever the fault.
				await sleep(100);
			}
		}
	}

	/** The next client of a kind: even numbers are HTTP/1.1, odd ones HTTP/2. */
	#numberFor(protocol: Protocol): number {
		const number = this.#numbers[protocol];
		this.#numbers[protocol] += 2;
		return number;
	}
	readonly #numbers: Record<Protocol, number> = { h1: 0, h2: 1 };

	async #sendShared(plan: Plan, client: FaultClient): Promise<void> {
		const { shared, calm, rough } = this.#lanes;
		if (plan.kind.upstream === 'h1') return void (await this.#sendOn(await this.#usable(shared), plan, client));
		// A fault that ends connections needs other requests on them.
		const isAmongRough = plan.kind.hitsConnection || plan.clientRandom.chance(0.4);
		await this.#sendOn(await this.#usable(isAmongRough ? rough : calm), plan, client, isAmongRough);
	}

	async #sendOn(lane: FaultLane, plan: Plan, client: FaultClient, isAmongRough = false): Promise<Outcome> {
		const entry: Entry = this.ledger.open(plan);
		entry.isAmongRough = isAmongRough;
		if (plan.protocol === 'h1') {
			entry.before = this.#last.get(client);
			// Keeps one predecessor, not a chain of all.
			if (entry.before !== undefined) entry.before.before = undefined;
			this.#last.set(client, entry);
		}
		const reply = await client.send(plan, lane.prefix).catch((error) => {
			this.ledger.withdraw(entry);
			throw error;
		});
		const outcome = this.ledger.settle(entry, reply);
		// The breaker may be open; a hundred 503s prove nothing.
		const opened = outcome !== 'whole' ? outcome !== 'left' : [502, 503, 504].includes(plan.status);
		if (opened) lane.rest.begin();
		return outcome;
	}

	async #sendAlone(plan: Plan, client: FaultClient): Promise<void> {
		const lane = await this.#usable(this.#lanes.solo, (free) => free.reserve());
		if (plan.kind.alone !== 'poison while idle') {
			await lane.alone(plan.kind.alone!, () => this.#sendOn(lane, plan, client));
			return;
		}
		await lane.alone(plan.kind.alone, async () => {
			await this.#sendOn(lane, plan, client);
			if (!(await lane.poisonIdle(plan.random))) this.ledger.violate(`${plan.id}: a poisoned connection was kept`);
			// The next request must get its own response; the poisoned connection must not be used again.
			const next = planRequest(this.#options.seed, this.#numberFor(plan.protocol), AFTER_POISON);
			await this.#sendOn(lane, next, client);
		});
	}

	/** Lanes take turns, as far as their breakers allow. */
	async #usable<T extends { readonly isUsable: boolean }>(lanes: readonly T[], take = (_: T) => {}): Promise<T> {
		const next = () => {
			for (let i = 0; i < lanes.length; i++) {
				const lane = lanes[(this.#turn + i) % lanes.length]!;
				if (!lane.isUsable) continue;
				this.#turn += i + 1;
				take(lane);
				return lane;
			}
			return undefined;
		};
		return await this.#changes.until(next, 'a lane whose breaker is closed');
	}
}

const AFTER_POISON = HTTP1_KINDS.filter(({ name }) => name === 'answers');
