/** Requests through the proxy to a bad upstream, many at once, until enough of them have come to something. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RouteEntry } from '../../packages/proxy/src/cli/demo/config-file.ts';
import { type ProxyOptions, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { Changes } from '../fixtures/wait.ts';
import { ConnectFailed, type FaultClient, H1FaultClient, H2FaultClient } from './fault-clients.ts';
import { FAULT_KINDS, type FaultKind } from './fault-kinds.ts';
import { Lane } from './fault-upstream.ts';
import { type Entry, Ledger, type Outcome, type Rules } from './ledger.ts';
import { type Plan, type Protocol, planRequest } from './plan.ts';

export interface FaultRunOptions {
	readonly seed: number;
	readonly mode: Rules['mode'];
	readonly kinds?: readonly FaultKind[];
	/** Clients of each protocol. Those of HTTP/2 share connections, 8 to each. */
	readonly clients?: number;
	/** Lanes that many requests share; a third as many are for those that need one alone. */
	readonly lanes?: number;
	readonly threadsDie?: boolean;
	readonly onViolation?: () => void;
	readonly proxy?: ProxyOptions;
}

/** `upstream_timeout_secs`, ms. */
export const LIMIT_MS = 1000;
/** `max_buffered_bytes`: an upstream that floods must get there soon. */
export const BUDGET_BYTES = 64 * 2 ** 20;
const STREAMS = 8;

export class FaultRun {
	readonly ledger: Ledger;
	readonly proxy: ProxyProcess;
	readonly #options: FaultRunOptions;
	readonly #kinds: readonly FaultKind[];
	readonly #changes: Changes;
	readonly #shared: readonly Lane[];
	readonly #solo: readonly Lane[];
	#clients: { readonly protocol: Protocol; readonly client: FaultClient }[] = [];
	#turn = 0;
	#stopped = false;
	/** Connections to a thread that was just dying. */
	failedConnects = 0;

	static async start(options: FaultRunOptions): Promise<FaultRun> {
		const { mode, lanes = 12, threadsDie = false, onViolation, proxy } = options;
		const ledger = new Ledger({ mode, limitMs: LIMIT_MS, threadsDie }, onViolation);
		const changes = new Changes();
		const count = lanes + Math.max(2, Math.ceil(lanes / 3));
		const all = await Promise.all(Array.from({ length: count }, (_, i) => Lane.start(i + 1, ledger, changes)));
		const process = await startProxy({
			boxedBody: mode === 'streaming',
			...proxy,
			routes: all.map(({ prefix, url }) => ({ prefix, upstream: url })),
			config: { health_interval_secs: 0.05, default_cooldown_secs: 1, tenant_rps: 0 },
			limits: { upstream_timeout_secs: LIMIT_MS / 1000, max_buffered_bytes: BUDGET_BYTES },
		});
		return new FaultRun(options, ledger, process, changes, all.slice(0, lanes), all.slice(lanes));
	}

	private constructor(
		options: FaultRunOptions,
		ledger: Ledger,
		proxy: ProxyProcess,
		changes: Changes,
		shared: readonly Lane[],
		solo: readonly Lane[],
	) {
		this.#options = options;
		this.ledger = ledger;
		this.proxy = proxy;
		this.#changes = changes;
		this.#shared = shared;
		this.#solo = solo;
		this.#kinds = options.kinds ?? FAULT_KINDS;
	}

	/** As the configuration has them. */
	get routes(): RouteEntry[] {
		return this.lanes.map(({ prefix, url }) => ({ prefix, upstream: url }));
	}

	get lanes(): readonly Lane[] {
		return [...this.#shared, ...this.#solo];
	}

	/** Sends until `enough` says so, then lets what is under way come to its end. */
	async send(enough: () => boolean): Promise<void> {
		this.#stopped = false;
		if (this.#clients.length === 0) this.#clients = this.#createClients();
		const over = () => this.#stopped || enough();
		await Promise.all(this.#clients.map(({ protocol, client }) => this.#sendAll(protocol, client, over)));
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
		await Promise.all(this.lanes.map((lane) => lane.stop()));
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
				// Who knocks at a thread that is just dying knocks again.
				if (this.#options.threadsDie && error instanceof ConnectFailed) this.failedConnects++;
				else this.ledger.violate(`${plan.id} (${protocol}, '${plan.kind.name}'): ${(error as Error).message}`);
				// Whatever it is, it need not be said a thousand times a second.
				await sleep(100);
			}
		}
	}

	/** Even numbers are HTTP/1.1, odd ones are HTTP/2: the next one of the kind. */
	#numberFor(protocol: Protocol): number {
		const number = this.#numbers[protocol];
		this.#numbers[protocol] += 2;
		return number;
	}
	readonly #numbers: Record<Protocol, number> = { h1: 0, h2: 1 };

	async #sendShared(plan: Plan, client: FaultClient): Promise<void> {
		const lane = await this.#usable(this.#shared);
		await this.#sendOn(lane, plan, client);
	}

	async #sendOn(lane: Lane, plan: Plan, client: FaultClient): Promise<Outcome> {
		const entry: Entry = this.ledger.open(plan);
		const reply = await client.send(plan, lane.prefix).catch((error) => {
			this.ledger.withdraw(entry);
			throw error;
		});
		const outcome = this.ledger.settle(entry, reply);
		// The breaker may be open; nothing is learnt from a hundred 503.
		const opened = outcome !== 'whole' ? outcome !== 'left' : [502, 503, 504].includes(plan.status);
		if (opened) lane.rest();
		return outcome;
	}

	async #sendAlone(plan: Plan, client: FaultClient): Promise<void> {
		const lane = await this.#usable(this.#solo, (free) => free.reserve());
		if (plan.kind.alone !== 'poison while idle') {
			await lane.alone(plan.kind.alone!, () => this.#sendOn(lane, plan, client));
			return;
		}
		await lane.alone(plan.kind.alone, async () => {
			await this.#sendOn(lane, plan, client);
			if (!(await lane.poisonIdle(plan.random))) this.ledger.violate(`${plan.id}: a poisoned connection was kept`);
			// Who comes next must get an answer of its own; the poisoned connection is not to be seen again.
			const next = planRequest(this.#options.seed, this.#numberFor(plan.protocol), AFTER_POISON);
			await this.#sendOn(lane, next, client);
		});
	}

	/** The lanes take turns, as far as their breakers let them. */
	async #usable(lanes: readonly Lane[], take = (_: Lane) => {}): Promise<Lane> {
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

const AFTER_POISON = FAULT_KINDS.filter(({ name }) => name === 'answers');
