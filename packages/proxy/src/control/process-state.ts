import { type Clock, systemClock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { Config } from '../config/config.ts';
import type { WorkerSeed } from '../shared/messages.ts';
import { connectionsFor, openFilesLimit } from './descriptor-limit.ts';
import type { StartFiles } from './files/inspection.ts';
import type { ListenAddress } from './listen.ts';
import { fleetSecret, type HistogramLayouts, ProcessMemory } from './process-memory.ts';
import { ReloadJournal } from './reload/journal.ts';
import { routingSeed } from './routing/seed.ts';
import { Upstreams } from './routing/upstreams.ts';
import { connectionWarnings, nodeWarnings, sharesPorts } from './start-warnings.ts';
import type { InForce } from './state/in-force.ts';

/** Everything that outlives single workers: their initial state, their shared memory, and the state that a reload replaces. */
export interface ProcessState {
	readonly workers: number;
	/** Zero of `clock`, for the clocks of the workers. */
	readonly clockEpoch: bigint;
	readonly clock: Clock;
	readonly inForce: InForce;
	readonly journal: ReloadJournal;
	/** Seconds since the epoch. */
	readonly startedSeconds: number;
	readonly memory: ProcessMemory;
	readonly upstreams: Upstreams;
	readonly warnings: readonly string[];
}

/**
 * Allocates what the workers share.
 *
 * @param wantedWorkers at least 1. If the platform cannot share a port among workers, there is only one.
 */
export function createState(
	{ config, tls, identity, store }: StartFiles,
	wantedWorkers: number,
	log: Logger,
): ProcessState {
	const { workers, room, warnings } = processLimits(config, wantedWorkers);
	const histograms = histogramLayouts(config);
	const clockEpoch = process.hrtime.bigint();
	const clock = systemClock(clockEpoch);
	const upstreams = new Upstreams(workers, clock, log, histograms.upstream);
	const memory = new ProcessMemory({
		workers,
		maxBufferedBytes: config.limits.maxBufferedBytes,
		maxBufferedBytesPerTenant: config.limits.maxBufferedBytesPerTenant,
		maxConnections: config.limits.maxConnections ?? room,
		histograms,
		fleetSecret: config.limiter && fleetSecret(config.limiter.prefix, store.secret),
	});
	return {
		workers,
		clockEpoch,
		clock,
		inForce: {
			tls,
			identity,
			generation: 1,
			reloads: { success: 0, failure: 0 },
			failures: [],
			needsRestart: undefined,
			reloading: false,
		},
		journal: new ReloadJournal(clock.wallSeconds),
		startedSeconds: clock.wallSeconds(),
		memory,
		upstreams,
		warnings,
	};
}

/** Histograms have exemplars if requests get identifiers or are traced. */
function histogramLayouts({ metrics: { buckets, gateBuckets }, log, trace }: Config): HistogramLayouts {
	const exemplars = log.requestId || trace !== undefined;
	return {
		upstream: { bounds: buckets, exemplars },
		handshake: { bounds: buckets, exemplars: false },
		gate: { bounds: gateBuckets, exemplars },
	};
}

export function processLimits(config: Config, wantedWorkers: number) {
	const workers = sharesPorts(process.platform) ? wantedWorkers : 1;
	const room = connectionsFor(openFilesLimit(), workers);
	const warnings = [
		...nodeWarnings(process.versions.node),
		...workerWarnings(wantedWorkers, workers),
		...connectionWarnings(config.limits.maxConnections, room),
	];
	return { workers, room, warnings };
}

export function seedWorker(
	{ clockEpoch, workers, inForce, upstreams, memory }: ProcessState,
	{ limits, listener, tenantRps, log, trace }: Config,
	{ index, bind, logFilter }: Pick<WorkerSeed, 'index' | 'logFilter'> & { bind: ListenAddress },
): WorkerSeed {
	return {
		index,
		workers,
		clockEpoch,
		bind,
		reusePort: workers > 1,
		proxyProtocol: proxyProtocol(listener),
		limits,
		tenantRps,
		identity: inForce.identity,
		tls: inForce.tls,
		routing: routingSeed(upstreams.current, index),
		limiter: memory.limiter,
		fleet: memory.fleet,
		concurrency: memory.concurrency,
		tenantSecret: memory.tenantSecret,
		bufferedBytes: memory.bufferedBytes,
		tenantShares: memory.tenantShares,
		connections: memory.connections,
		stats: memory.statsRegions[index]!,
		histograms: memory.histograms,
		logFilter,
		log,
		trace: trace && { ratio: trace.ratio, tenants: trace.tenants, maxQueueSpans: trace.maxQueueSpans },
	};
}

function proxyProtocol({ proxyProtocolFrom, proxyProtocolTimeoutMs }: Config['listener']): WorkerSeed['proxyProtocol'] {
	return proxyProtocolFrom.length === 0 ? undefined : { from: proxyProtocolFrom, timeoutMs: proxyProtocolTimeoutMs };
}

function workerWarnings(wanted: number, workers: number): string[] {
	if (wanted === workers) return [];
	return [`threads cannot share a port on this platform: the proxy runs ${workers} worker instead of ${wanted}`];
}
