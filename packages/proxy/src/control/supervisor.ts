import { Worker } from 'node:worker_threads';
import { KeyRefresher } from '@mtls-edge-proxy/gate/jwks/key-refresher.ts';
import { describeProblem } from '../config/error.ts';
import { loadConfig } from '../config/load.ts';
import { configWarnings } from '../config/warnings.ts';
import { DnsAddresses } from './addresses/dns-addresses.ts';
import { resolveName } from './addresses/resolve.ts';
import { openAdmin } from './admin/open.ts';
import { Readiness } from './admin/readiness.ts';
import { watchCrls } from './crl/watch.ts';
import { Drain } from './drain.ts';
import { readSpec } from './files/findings.ts';
import { keysChangedInVain, readReloadedIdentity } from './files/identity-files.ts';
import { reloadedFiles, type StartFiles } from './files/inspection.ts';
import { judgeTlsFiles } from './files/tls-files.ts';
import { judgeUpstreamTlsFiles } from './files/upstream-tls-files.ts';
import { HealthProber } from './health/health.ts';
import { httpProbe } from './health/http-probe.ts';
import { fetchByUndici } from './jwks/fetch-by-undici.ts';
import { createKeyStore } from './jwks/key-store.ts';
import { RemoteKeys } from './jwks/remote-keys.ts';
import { assertFree, formatAddress, listenProblem } from './listen.ts';
import { createState, type ProcessState, seedWorker } from './process-state.ts';
import { Reloader } from './reload/reload.ts';
import { routesShown } from './routing/table.ts';
import { Reconciler } from './state/reconciler.ts';
import { createResources, type Resources, type Specs } from './state/resources.ts';
import type { Sharing } from './store/sharing.ts';
import type { SupervisorOptions } from './supervisor-options.ts';
import { systemTimers } from './timers.ts';
import type { Tracing } from './trace/tracing.ts';
import { configureHeaps } from './workers/heap.ts';
import { WorkerPool } from './workers/worker-pool.ts';

/** The running proxy, as signals see it. */
export interface Supervisor {
	readonly port: number;
	readonly metricsPort: number;
	/** SIGUSR1 or SIGHUP. Resolves when the reload has ended, whatever its result. */
	reload(signal: string): Promise<void>;
}

const TARGET = 'proxy';

/**
 * Starts the control plane (main thread) and through it the workers; resolves when all of them accept connections.
 *
 * The order is what a client may rely on: addresses are tried first, so that a wrong one is reported at once; the listener opens
 * only when each upstream has had its first verdict (or 2 s), so that no request meets a breaker that is open only because its
 * probe is missing. Metrics are up before that, and `/readyz` says "starting".
 *
 * @returns `undefined` if it was stopped before it was ready.
 * @throws StartError if an address or a worker is not usable.
 */
export async function startSupervisor(options: SupervisorOptions): Promise<Supervisor | undefined> {
	const { files, bind, metricsBind, log } = options;
	const { config, watch } = files;
	configureHeaps();
	const state = createState(files, options.workers, log);
	for (const warning of state.warnings) log.warn(TARGET, warning);
	for (const warning of files.warnings) log.warn(TARGET, describeProblem(config.path, warning));
	await assertFree(bind, '--bind');

	const tracing = await createTracing(options, state);
	const sharing = await createSharing(options, state, () => resources.tls.changed());
	const prober = createProber(options, state);
	const remoteKeys = createRemoteKeys(options, state, () => resources.identity.changed());
	const addresses = createAddresses(options, state, () => resources.routing.changed());
	const pool = createPool(options, state, remoteKeys, tracing);
	const reconciler = new Reconciler({ offer: (...round) => pool.switchAll(...round), timers: systemTimers });
	const resources = createResources(reconciler, firstSpecs(files), {
		inForce: state.inForce,
		withRevoked: (tls) => sharing?.withRevoked(tls) ?? tls,
		keys: remoteKeys,
		upstreams: state.upstreams,
		addresses,
		prober,
		log,
	});
	const reloader = createReloader(options, state, resources);
	const readiness = new Readiness({
		listening: () => pool.listening,
		awaited: () => remoteKeys.awaited,
		issuers: () => state.inForce.identity.issuers,
		remark: () => sharing?.inWords,
	});
	const running = { state, pool, remoteKeys, addresses, tracing, sharing, readiness };
	const admin = await openAdmin(metricsBind, options, running);
	await Promise.all([
		addresses.follow(config.routes),
		remoteKeys.start(files.remotes, FIRST_KEYS_MS),
		sharing?.start(),
	]);
	await reconciler.start();
	void prober.start();
	const drain = createDrain(options, pool, tracing, sharing);
	let isStopped = false;
	options.onAccepting((signal) => {
		isStopped = true;
		readiness.stopping();
		watch?.stop();
		reloader.stop();
		remoteKeys.stop();
		addresses.stop();
		reconciler.stop();
		// Probes and metrics go on until the end: requests in flight still need breakers.
		drain.signal(signal);
	});
	const port = await pool.start();
	if (isStopped) return undefined;
	reconciler.serve();

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
		metrics_bind: formatAddress({ host: metricsBind.host, port: admin.port }),
		workers: state.workers,
		body_mode: options.bodyMode,
		...routesShown(config.routes),
		version: options.version,
		generation: state.inForce.generation,
	});
	return {
		port,
		metricsPort: admin.port,
		reload: (signal) => reloader.request({ signal }),
	};
}

function firstSpecs({ config, tls, identity, remotes, upstreamTls }: StartFiles): Specs {
	return { tls, identity: { identity, remotes }, routing: { routes: config.routes, tls: upstreamTls } };
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

function createAddresses({ log }: SupervisorOptions, { clock }: ProcessState, onChange: () => void): DnsAddresses {
	return new DnsAddresses({ resolve: resolveName, timers: systemTimers, clock, random: Math.random, log }, onChange);
}

/** The listener waits this long for an issuer, as for probes, ms; without keys its tokens are refused, and `/readyz` says so. */
const FIRST_KEYS_MS = 2_000;

function createRemoteKeys(
	{ files: { config, remotes }, log }: SupervisorOptions,
	{ clock }: ProcessState,
	onChange: () => void,
): RemoteKeys {
	const store = config.stateDir === undefined ? undefined : createKeyStore(config.stateDir, log);
	const parts = { fetch: fetchByUndici, store, after: systemTimers.after, clock, random: Math.random, log };
	return new RemoteKeys(remotes, (issuer, fetches) => new KeyRefresher(issuer, parts, fetches), systemTimers, onChange);
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

/** `undefined` without `[limiter]`: then nothing of it is loaded. */
async function createSharing(
	{ files: { config, store: files }, log }: SupervisorOptions,
	{ memory, clock }: ProcessState,
	onRevoked: () => void,
): Promise<Sharing | undefined> {
	if (config.limiter === undefined) return undefined;
	const { Sharing } = await import('./store/sharing.ts');
	return new Sharing({ config: config.limiter, files, memory, onRevoked, timers: systemTimers, clock, log });
}

function createPool(
	options: SupervisorOptions,
	state: ProcessState,
	remoteKeys: RemoteKeys,
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
				workerData: seedWorker(state, config, { index, bind: { host: bind.host, port }, logFilter }),
			}),
		listenProblem: (error) => listenProblem(bind, '--bind', error),
		onUnknownKey: (issuer) => remoteKeys.unknownKey(issuer),
		reclaim: (index) => {
			state.memory.reclaim(index);
			state.upstreams.clearGauges(index);
		},
		log,
		writeRecord: output.writeRecord,
		writeLines: output.writeLines,
		exportSpans: (spans, onDone) => tracing?.exportSpans(spans, onDone),
		timers: systemTimers,
		clock: state.clock,
	});
}

function createReloader(
	{ files: { config, watch }, log }: SupervisorOptions,
	{ inForce, journal, clock }: ProcessState,
	resources: Resources,
): Reloader {
	return new Reloader({
		booted: config,
		loadConfig: async () => {
			await watch?.reading();
			const current = await loadConfig(config.path);
			await watch?.follow(reloadedFiles(current));
			return current;
		},
		read: {
			tls: (current) => readSpec(current, (found) => judgeTlsFiles(found, new Date())),
			identity: (current) => readReloadedIdentity(current, inForce.identity),
			routing: (current) =>
				readSpec(current, async (found) => {
					const tls = await judgeUpstreamTlsFiles(found, current, new Date());
					return tls && { routes: current.routes, tls };
				}),
		},
		resources,
		keysChangedInVain: (current) => keysChangedInVain(config, current, inForce.identity),
		configWarnings,
		wallSeconds: () => clock.wallSeconds(),
		inForce,
		journal,
		log,
	});
}

/** Limit for exporting the last spans, ms: an unavailable collector does not delay the end. */
const LAST_SPANS_MS = 1_500;

function createDrain(
	{ files: { config }, log, exit }: SupervisorOptions,
	pool: WorkerPool,
	tracing: Tracing | undefined,
	sharing: Sharing | undefined,
): Drain {
	return new Drain({
		drainWorkers: () => pool.drain(),
		cutWorkers: () => pool.cut(),
		delayMs: config.limits.shutdownDelayMs,
		limitMs: config.limits.shutdownDrainMs,
		timers: systemTimers,
		log,
		exit: (code) => {
			if (code !== 0) return exit(code);
			void Promise.all([tracing?.flush(LAST_SPANS_MS), sharing?.leave()]).then(() => exit(code));
		},
	});
}
