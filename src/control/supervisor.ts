import { Worker } from 'node:worker_threads';
import type { Config } from '../config/config.ts';
import { describeProblem } from '../config/error.ts';
import { loadConfig } from '../config/load.ts';
import { configWarnings } from '../config/warnings.ts';
import type { IdentitySeed } from '../identity/trust.ts';
import { fetchKeys } from '../shared/jwks/fetch-keys.ts';
import { KeyRefresher } from '../shared/jwks/key-refresher.ts';
import type { Logger } from '../shared/log.ts';
import type { TlsMaterial } from '../shared/messages.ts';
import { RateLimitedLog } from '../shared/rate-limited-log.ts';
import { watchCrls } from './crl/watch.ts';
import { Drain } from './drain.ts';
import { type StoreFacts, storeInWords } from './facts/store.ts';
import { reloadedFiles, type StartFiles } from './files/inspection.ts';
import { readTlsFiles } from './files/tls-files.ts';
import { HealthProber } from './health/health.ts';
import { httpProbe } from './health/http-probe.ts';
import { createKeyStore } from './jwks/key-store.ts';
import { RemoteKeys } from './jwks/remote-keys.ts';
import { assertFree, formatAddress, type ListenAddress, listenProblem } from './listen.ts';
import type { LogOutput } from './log-output.ts';
import type { MetricSources } from './metrics/families.ts';
import { startMetrics } from './metrics/listener.ts';
import { createState, type ProcessState, seedWorker } from './process-state.ts';
import { changedInVain, planIdentity } from './reload/identity-plan.ts';
import { Reloader, switchIdentity } from './reload/reload.ts';
import { FactReader } from './status/fact-reader.ts';
import { Readiness } from './status/readiness.ts';
import { StatusPages } from './status/status-pages.ts';
import type { FleetLimits } from './store/fleet-limits.ts';
import type { SharedRevocations } from './store/shared-revocations.ts';
import type { SharedStore } from './store/shared-store.ts';
import { systemTimers } from './timers.ts';
import type { Tracing } from './trace/tracing.ts';
import { configureHeaps } from './workers/heap.ts';
import { WorkerPool } from './workers/worker-pool.ts';

export interface SupervisorOptions {
	/** The configuration and what is in the files that it names. */
	readonly files: StartFiles;
	readonly bind: ListenAddress;
	readonly metricsBind: ListenAddress;
	/** Worker threads, at least 1. */
	readonly workers: number;
	/** Whether the metrics listener has the status page. */
	readonly statusPage: boolean;
	/** The module that each worker thread runs. */
	readonly workerUrl: URL;
	/** `RUST_LOG`, for the workers. */
	readonly logFilter: string;
	readonly log: Logger;
	/** For what the workers have to say. */
	readonly output: LogOutput;
	readonly version: string;
	readonly bodyMode: string;
	/** From here on there are connections: whoever wants the process to end has to drain it. */
	readonly onAccepting: () => void;
	/** Ends the process. */
	readonly exit: (code: number) => void;
}

/** The running proxy, as signals see it. */
export interface Supervisor {
	readonly port: number;
	readonly metricsPort: number;
	/** SIGUSR1 or SIGHUP. Resolves when the reload has ended, whatever came of it. */
	reload(signal: string): Promise<void>;
	/** SIGTERM or SIGINT. */
	stop(signal: string): void;
}

const TARGET = 'proxy';

/**
 * Starts the control plane (main thread) and through it the workers; resolves when all of them accept connections.
 *
 * The order is what a client may rely on: addresses are tried first, so that a wrong one is reported at once; the
 * listener opens only when each upstream has had its first verdict (or 2 s), so that no request meets a breaker that is
 * open for want of a probe (decisions "Circuit breaker"). Metrics are up before that, and `/readyz` says "starting".
 *
 * @throws StartError when an address or a worker is not usable.
 */
export async function startSupervisor(options: SupervisorOptions): Promise<Supervisor> {
	const { files, bind, metricsBind, log } = options;
	const { config, watch } = files;
	configureHeaps(options.bodyMode);
	const store = await createStore(options);
	const state = createState(files, options.workers, log, store?.fleet);
	for (const warning of state.warnings) log.warn(TARGET, warning);
	for (const warning of files.warnings) log.warn(TARGET, describeProblem(config.path, warning));
	await assertFree(bind, '--bind');

	const tracing = await createTracing(options, state);
	const prober = createProber(options, state);
	const remoteKeys = createRemoteKeys(options, state, () => pool);
	const revocations = createRevocations(options, state, store, () => pool);
	const pool = createPool(options, state, remoteKeys, revocations, tracing);
	const { fleet } = state;
	const storeFacts = store && fleet && (() => store.facts(fleet.facts, revocations));
	const readiness = new Readiness(
		() => pool.listening,
		() => remoteKeys.awaited,
		storeFacts && (() => storeInWords(storeFacts())),
	);
	const sources = metricSources(options, state, pool, remoteKeys, tracing, storeFacts);
	const status = options.statusPage ? createStatus(options, state, sources, readiness) : undefined;
	const metrics = await startMetrics(metricsBind, sources, readiness, log, status?.routes);
	prober.watch(state.upstreams.current.upstreams.values());
	await Promise.all([prober.start(), remoteKeys.start(FIRST_KEYS_MS), startSharing(store, fleet, revocations)]);
	useIdentity(state, remoteKeys, remoteKeys.compose(state.inForce.identity));
	options.onAccepting();
	const port = await pool.start();
	remoteKeys.serve();
	revocations?.serve();

	const reloader = createReloader(options, state, prober, pool, remoteKeys, revocations);
	const drain = createDrain(options, pool, {
		flush: () => tracing?.flush(LAST_SPANS_MS),
		leave: fleet && (() => leaveFleet(fleet, revocations)),
	});
	watchCrls({
		timers: systemTimers,
		crls: () => state.inForce.tls.clients?.crls ?? [],
		wallSeconds: () => state.clock.wallSeconds(),
		log,
	});
	watch?.start((changed) => void reloader.request({ changed }));
	readiness.serving();
	log.info(TARGET, 'ready', {
		bind: formatAddress({ host: bind.host, port }),
		metrics_bind: formatAddress({ host: metricsBind.host, port: metrics.port }),
		workers: state.workers,
		body_mode: options.bodyMode,
		...routesShown(config.routes),
		version: options.version,
		generation: state.inForce.generation,
	});
	return {
		port,
		metricsPort: metrics.port,
		reload: (signal) => reloader.request({ signal }),
		stop: (signal) => {
			readiness.stopping();
			watch?.stop();
			reloader.stop();
			remoteKeys.stop();
			// Probes and metrics go on until the very end: requests in flight still have breakers to pass.
			drain.signal(signal);
		},
	};
}

/** More would make the line longer than some collectors of logs accept. */
const MAX_ROUTES_SHOWN = 20;

function routesShown(routes: Config['routes']) {
	const shown = routes
		.slice(0, MAX_ROUTES_SHOWN)
		.map(({ prefix, upstream }) => ({ prefix, upstream: upstream.authority }));
	return { routes: shown, ...(routes.length > shown.length && { routes_total: routes.length }) };
}

function createProber({ files: { config }, log }: SupervisorOptions, { clock }: ProcessState): HealthProber {
	return new HealthProber({
		intervalMs: config.healthIntervalMs,
		probe: httpProbe,
		timers: systemTimers,
		clock,
		log,
	});
}

/** So long the listener waits for an issuer, as it does for probes; without keys its tokens are refused, and `/readyz` says so. */
const FIRST_KEYS_MS = 2_000;

/** So long it waits for the store of limits, once there is a connection or could be none. */
const FIRST_LEASES_MS = 2_000;

/** `undefined` without `[limiter]`: then no library is loaded for it. */
async function createStore({ files: { config, store } }: SupervisorOptions): Promise<SharedStore | undefined> {
	if (config.limiter === undefined) return undefined;
	const { SharedStore } = await import('./store/shared-store.ts');
	return new SharedStore(config.limiter, store, systemTimers);
}

async function startSharing(
	store: SharedStore | undefined,
	fleet: FleetLimits | undefined,
	revocations: SharedRevocations | undefined,
): Promise<void> {
	await store?.connect();
	await Promise.all([fleet?.start(FIRST_LEASES_MS), revocations?.start()]);
}

function createRevocations(
	{ log }: SupervisorOptions,
	{ inForce, clock }: ProcessState,
	store: SharedStore | undefined,
	pool: () => WorkerPool,
): SharedRevocations | undefined {
	const revocations: SharedRevocations | undefined = store?.revocations({
		takeOver: () =>
			pool().switchAll(
				(_, id) => ({ type: 'prepare-tls', id, tls: forWorkers(revocations, inForce.tls) }),
				() => {},
			),
		timers: systemTimers,
		log,
		limitedLog: new RateLimitedLog(log, clock),
	});
	return revocations;
}

/** What is revoked in the store is added to what the files say. */
function forWorkers(revocations: SharedRevocations | undefined, tls: TlsMaterial): TlsMaterial {
	return revocations?.withShared(tls) ?? tls;
}

function createRemoteKeys(
	{ files: { config, remotes }, log }: SupervisorOptions,
	state: ProcessState,
	pool: () => WorkerPool,
): RemoteKeys {
	const store = config.stateDir === undefined ? undefined : createKeyStore(config.stateDir, log);
	const parts = { fetch: fetchKeys, store, after: systemTimers.after, clock: state.clock, random: Math.random, log };
	const remoteKeys: RemoteKeys = new RemoteKeys(remotes, {
		createRefresher: (issuer) => new KeyRefresher(issuer, parts),
		takeOver: () =>
			switchIdentity(
				pool(),
				() => remoteKeys.compose(state.inForce.identity),
				(identity) => useIdentity(state, remoteKeys, identity),
			),
		timers: systemTimers,
		log,
	});
	return remoteKeys;
}

function useIdentity({ inForce }: ProcessState, remoteKeys: RemoteKeys, identity: IdentitySeed): void {
	inForce.identity = identity;
	remoteKeys.inForce(identity);
}

/** `undefined` without `[trace]`: then nothing of OpenTelemetry is loaded. */
async function createTracing(
	{ files: { config, trace: files }, bind, version, log }: SupervisorOptions,
	{ clock }: ProcessState,
): Promise<Tracing | undefined> {
	if (config.trace === undefined) return undefined;
	const { startTracing } = await import('./trace/tracing.ts');
	return startTracing({ config: config.trace, files, bind, version, timers: systemTimers, clock, log });
}

function createPool(
	options: SupervisorOptions,
	state: ProcessState,
	remoteKeys: RemoteKeys,
	revocations: SharedRevocations | undefined,
	tracing: Tracing | undefined,
): WorkerPool {
	const { bind, workerUrl, logFilter, log, output } = options;
	const { config } = options.files;
	return new WorkerPool({
		size: state.workers,
		port: bind.port,
		spawn: (index, port) =>
			new Worker(workerUrl, {
				name: `worker-${index}`,
				workerData: seedWorker(state, config, {
					tls: forWorkers(revocations, state.inForce.tls),
					index,
					bind: { host: bind.host, port },
					logFilter,
				}),
			}),
		listenProblem: (error) => listenProblem(bind, '--bind', error),
		onUnknownKey: (issuer) => remoteKeys.unknownKey(issuer),
		reclaim: (index) => {
			state.memory.reclaim(index);
			state.upstreams.clearGauges(index);
			state.fleet?.workerDied();
		},
		log,
		writeRecord: output.writeRecord,
		writeLines: output.writeLines,
		exportSpans: (spans, onDone) => tracing?.exportSpans(spans, onDone),
		timers: systemTimers,
		clock: state.clock,
	});
}

function metricSources(
	{ version, bodyMode }: SupervisorOptions,
	state: ProcessState,
	pool: WorkerPool,
	remoteKeys: RemoteKeys,
	tracing: Tracing | undefined,
	store: (() => StoreFacts) | undefined,
): MetricSources {
	return {
		build: { version, bodyMode, node: process.versions.node },
		workerStats: state.memory.stats,
		listening: () => pool.listening,
		upstreams: () => state.upstreams.current.upstreams.values(),
		inForce: state.inForce,
		journal: state.journal,
		budgets: state.memory,
		histograms: state.memory.histograms,
		startedSeconds: state.startedSeconds,
		routes: () => state.upstreams.current.traffic,
		remoteKeys: () => remoteKeys.all,
		now: () => state.clock.now(),
		wallSeconds: () => state.clock.wallSeconds(),
		spans: tracing && (() => tracing.counts),
		store,
	};
}

function createStatus(
	{ files: { config }, log }: SupervisorOptions,
	{ clock, inForce, memory, upstreams }: ProcessState,
	metrics: MetricSources,
	readiness: Readiness,
): StatusPages {
	const { tenants, hosts } = config.status;
	const faults = new RateLimitedLog(log, clock);
	const routing = () => upstreams.current;
	return new StatusPages({
		source: new FactReader({ metrics, routing, inForce, readiness, memory, tenants }),
		hosts,
		timers: systemTimers,
		now: () => clock.now(),
		onFault: (cause) => faults.write('error', 'proxy::metrics', 'status page failed', 'status', () => ({ cause })),
	});
}

function createReloader(
	{ files: { config, watch }, log }: SupervisorOptions,
	{ inForce, journal, upstreams }: ProcessState,
	prober: HealthProber,
	pool: WorkerPool,
	remoteKeys: RemoteKeys,
	revocations: SharedRevocations | undefined,
): Reloader {
	return new Reloader({
		booted: config,
		loadConfig: async () => {
			await watch?.reading();
			const current = await loadConfig(config.path);
			await watch?.follow(reloadedFiles(current));
			return current;
		},
		readTlsFiles: (current) => readTlsFiles(current, new Date()),
		forWorkers: (tls) => forWorkers(revocations, tls),
		planIdentity: (current) => planIdentity(current, inForce.identity, remoteKeys),
		changedInVain: (current) => changedInVain(config, current, inForce.identity),
		configWarnings,
		inForce,
		journal,
		upstreams,
		prober,
		pool,
		log,
	});
}

/** For spans of the last requests, ms: a collector that is away does not hold up the end. */
const LAST_SPANS_MS = 1_500;

/** For leases that go back, ms: those of a store that is away run out by themselves. */
const LAST_LEASES_MS = 1_000;

/** What is done once the last request has ended. */
interface LastThings {
	readonly flush: () => Promise<void> | undefined;
	readonly leave: (() => Promise<void>) | undefined;
}

function createDrain({ files: { config }, log, exit }: SupervisorOptions, pool: WorkerPool, last: LastThings): Drain {
	return new Drain({
		drainWorkers: () => pool.drain(),
		delayMs: config.limits.shutdownDelayMs,
		limitMs: config.limits.shutdownDrainMs,
		timers: systemTimers,
		log,
		exit: (code) => {
			if (code !== 0) return exit(code);
			void Promise.all([last.flush(), last.leave?.()]).then(() => exit(code));
		},
	});
}

async function leaveFleet(fleet: FleetLimits, revocations: SharedRevocations | undefined): Promise<void> {
	revocations?.stop();
	const { promise, resolve } = Promise.withResolvers<void>();
	const cancel = systemTimers.after(LAST_LEASES_MS, resolve);
	void fleet.stop().then(resolve);
	await promise;
	cancel();
}
