import { parentPort, workerData } from 'node:worker_threads';
import { CACHE_CAPACITY } from '@mtls-edge-proxy/gate/gates/token-cache.ts';
import { Quotas } from '@mtls-edge-proxy/gate/identity/quotas.ts';
import { NOTHING_REVOKED, RevokedTokens } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import { type IdentitySeed, type OnUnknownKey, Trust } from '@mtls-edge-proxy/gate/identity/trust.ts';
import { ConcurrencyCounts } from '@mtls-edge-proxy/gate/memory/concurrency.ts';
import { tenantKey } from '@mtls-edge-proxy/gate/memory/tenant-key.ts';
import { Authenticator } from '@mtls-edge-proxy/gate/shared/authenticator.ts';
import { type Clock, systemClock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import { createLogger, parseLogFilter } from '@mtls-edge-proxy/gate/shared/log.ts';
import { assertNodeInternals } from '@mtls-edge-proxy/gate/tls/node-internals.ts';
import { createListenerContexts } from '@mtls-edge-proxy/gate/tls/tls-options.ts';
import type { NameReader } from '../identity/certificate-names.ts';
import { WorkerStats } from '../memory/worker-stats.ts';
import type { FromWorker, TlsMaterial, ToWorker, WorkerSeed } from '../shared/messages.ts';
import { SLABS, TRIM_MS } from '../shared/slabs.ts';
import { ClientPolicy } from '../tls/client-policy.ts';
import { Listener } from './listener/listener.ts';
import { Deadlines } from './loop/deadlines.ts';
import { reportTo } from './loop/faults.ts';
import { watchLoop } from './loop/loop-watch.ts';
import { createPlane } from './plane/create-plane.ts';
import type { DataPlane } from './plane/plane.ts';
import { createDeadlines } from './plane/plane-deadlines.ts';
import { AccessLog, accessLogShare } from './records/access-log.ts';
import { SpanQueue } from './records/span-queue.ts';
import { reportUnknownKeys } from './records/unknown-keys.ts';
import { nameReaderFor, Routing } from './routes/routing.ts';

/**
 * One data-plane thread: builds its part of the world from `workerData`, serves, and does what the control plane says
 * (`shared/messages.ts`).
 */
class Worker {
	readonly #seed: WorkerSeed;
	readonly #plane: DataPlane;
	/** `undefined` when it is off. */
	readonly #accessLog: AccessLog | undefined;
	/** `undefined` without `[trace]`. */
	readonly #spans: SpanQueue | undefined;
	readonly #listener: Listener;
	readonly #onUnknownKey: OnUnknownKey;
	readonly #routing: Routing;
	/** What a `commit` will put into force. */
	readonly #prepared = new Map<number, () => void>();
	/** Rounds whose part here is being prepared. */
	readonly #preparing = new Set<number>();

	/** @param readNames for a routing table whose routes ask for names (`nameReaderFor`). */
	constructor(seed: WorkerSeed, readNames: NameReader | undefined) {
		this.#seed = seed;
		const clock = systemClock(seed.clockEpoch);
		const log = createLogger(
			parseLogFilter(seed.logFilter),
			(record) => tell({ type: 'log', record }),
			() => new Date(),
		);
		const deadlines = new Deadlines(clock, reportTo(log));
		const stats = new WorkerStats(seed.stats);
		this.#accessLog = createAccessLog(seed, clock, stats);
		this.#spans = createSpanQueue(seed, clock, stats);
		this.#onUnknownKey = reportUnknownKeys(clock, (issuer) => tell({ type: 'unknown-key', issuer }));
		const trust = new Trust(seed.identity, this.#onUnknownKey);
		const keys = { keyOf: (tenant: string) => tenantKey(seed.tenantSecret, tenant) };
		const authenticator = new Authenticator(trust, keys, createQuotas(seed, seed.identity), CACHE_CAPACITY, stats);
		const planeDeadlines = createDeadlines(deadlines, seed.limits);
		this.#plane = createPlane(seed, clock, stats, planeDeadlines, authenticator, {
			log,
			accessLog: this.#accessLog,
			spans: this.#spans,
		});
		authenticator.refuseRevoked(new RevokedTokens(seed.tls.clients?.revoked ?? NOTHING_REVOKED));
		this.#routing = new Routing(seed, this.#plane);
		this.#routing.prepare(seed.routing, readNames)();
		this.#listener = new Listener(this.#plane, seed);
		deadlines.start();
		watchLoop(clock, stats, this.#plane.rests);
		setInterval(() => SLABS.trim(), TRIM_MS).unref();
	}

	async listen(): Promise<void> {
		try {
			const port = await this.#listener.listen(this.#seed.bind, this.#seed.reusePort);
			tell({ type: 'listening', port });
		} catch (error) {
			const { code = 'EUNKNOWN', message } = error as NodeJS.ErrnoException;
			tell({ type: 'listen-failed', code, message });
		}
	}

	/** Takes and reads nothing more. */
	abandon(): void {
		this.#listener.abandon();
	}

	/** What requests have left to say. */
	flush(): void {
		this.#accessLog?.flush();
		this.#spans?.flush();
	}

	onMessage(message: ToWorker): void {
		switch (message.type) {
			case 'prepare-tls':
				return void this.#prepare(message.id, () => this.#tls(message.tls));
			case 'prepare-routing':
				return void this.#prepare(message.id, async () =>
					this.#routing.prepare(message.routing, await nameReaderFor(message.routing)),
				);
			case 'prepare-identity':
				return void this.#prepare(message.id, () => this.#identity(message.identity));
			case 'commit':
				this.#prepared.get(message.id)?.();
				this.#prepared.delete(message.id);
				return tell({ type: 'committed', id: message.id });
			case 'discard':
				this.#preparing.delete(message.id);
				this.#prepared.delete(message.id);
				return;
			case 'stop-accepting':
				return this.#listener.stopAccepting(() => tell({ type: 'closed' }));
			case 'drain':
				return this.#listener.drain(() => this.#onDrained());
			case 'cut':
				return this.#listener.cut();
			case 'access-lines-written':
				return this.#accessLog?.onWritten(message.bytes);
			case 'spans-done':
				return this.#spans?.onDone(message.count);
		}
	}

	/** The last connection has closed. The requests that it carried hear of it in the same turn of the loop. */
	#onDrained(): void {
		setImmediate(() => {
			this.flush();
			this.#routing.end();
			// Its connections say goodbye in the meantime.
			setImmediate(() => tell({ type: 'drained' }));
		});
	}

	/** Does all that can fail; what is left to do at the commit cannot. */
	async #prepare(id: number, build: () => (() => void) | Promise<() => void>): Promise<void> {
		this.#preparing.add(id);
		try {
			const takeOver = await build();
			// Another worker may have refused meanwhile, and the round is over.
			if (!this.#preparing.delete(id)) return;
			this.#prepared.set(id, takeOver);
			tell({ type: 'prepared', id });
		} catch (error) {
			if (!this.#preparing.delete(id)) return;
			tell({ type: 'refused', id, message: (error as Error).message });
		}
	}

	#tls(material: TlsMaterial): () => void {
		const contexts = createListenerContexts(material, this.#listener.tls);
		const policy = new ClientPolicy(material);
		const revoked = new RevokedTokens(material.clients?.revoked ?? NOTHING_REVOKED);
		return () => {
			this.#listener.useTls(contexts, policy);
			this.#plane.authenticator.refuseRevoked(revoked);
			this.#plane.tunnels.endRevoked(revoked);
		};
	}

	#identity(identity: IdentitySeed): () => void {
		const trust = new Trust(identity, this.#onUnknownKey);
		const quotas = createQuotas(this.#seed, identity);
		return () => this.#plane.authenticator.use(trust, quotas);
	}
}

/** The tenants' quotas. Who is under way with the slots of others before them goes on being counted. */
function createQuotas({ tenantRps, concurrency, index, tenantSecret }: WorkerSeed, identity: IdentitySeed): Quotas {
	const counts = new ConcurrencyCounts(concurrency, index);
	return new Quotas(identity.quotas, tenantRps, (tenant, limit) =>
		counts.slots(tenantKey(tenantSecret, tenant), limit),
	);
}

function createAccessLog({ log, workers }: WorkerSeed, clock: Clock, stats: WorkerStats): AccessLog | undefined {
	if (log.access === 'off') return undefined;
	return new AccessLog({
		errorsOnly: log.access === 'errors',
		clock,
		send: (lines, dropped) => tell({ type: 'access-lines', lines, dropped }),
		maxBytes: accessLogShare(workers),
		stats,
	});
}

function createSpanQueue({ trace, workers }: WorkerSeed, clock: Clock, stats: WorkerStats): SpanQueue | undefined {
	if (trace === undefined) return undefined;
	return new SpanQueue({
		clock,
		send: (spans) => tell({ type: 'spans', spans }),
		maxSpans: Math.ceil(trace.maxQueueSpans / workers),
		tenants: trace.tenants,
		stats,
	});
}

function tell(message: FromWorker): void {
	parentPort!.postMessage(message);
}

assertNodeInternals();
const seed = workerData as WorkerSeed;
const worker = new Worker(seed, await nameReaderFor(seed.routing));
/**
 * An error that nothing has caught ends the thread, but not at once. Node goes on reading once more after it has stopped
 * the thread's JavaScript, and aborts the whole process over what an HTTP/2 session gets then (nodejs/node#64850). So the
 * sockets go first; outside the poll, for there Node may be in the middle of a read.
 */
process.once('uncaughtException', (error) => {
	setImmediate(() => {
		worker.abandon();
		setImmediate(() => {
			worker.flush();
			throw error;
		});
	});
});
parentPort!.on('message', (message: ToWorker) => worker.onMessage(message));
await worker.listen();
