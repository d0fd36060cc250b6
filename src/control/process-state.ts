import type { Config } from '../config/config.ts';
import { type Clock, systemClock } from '../shared/clock.ts';
import type { WorkerSeed } from '../shared/messages.ts';
import type { ConfigInForce } from './config-in-force.ts';
import { connectionsFor, openFilesLimit } from './descriptor-limit.ts';
import type { ListenAddress } from './listen.ts';
import { readJwtKeyFile, readTlsFiles } from './pem-files.ts';
import { ProcessMemory } from './process-memory.ts';
import { StartError } from './start-error.ts';
import { connectionWarnings, nodeWarnings, sharesPorts } from './start-warnings.ts';
import { Upstreams } from './upstreams.ts';

/** All that outlives single workers: what they are started with, what they share, what a reload exchanges. */
export interface ProcessState {
	readonly workers: number;
	/** Zero of `clock`, for the clocks of the workers. */
	readonly clockEpoch: bigint;
	readonly clock: Clock;
	readonly jwtPublicKeyPem: string;
	readonly inForce: ConfigInForce;
	readonly memory: ProcessMemory;
	readonly upstreams: Upstreams;
	/** What the operator should know. */
	readonly warnings: readonly string[];
}

/**
 * Reads the files that the configuration names and allocates what the workers share.
 *
 * @param wantedWorkers at least 1; where the platform cannot share a port among them there will be one.
 * @throws StartError when one of the files cannot be used.
 */
export function createState(config: Config, wantedWorkers: number): ProcessState {
	const { files, jwtPublicKeyPem } = readFiles(config);
	const workers = sharesPorts(process.platform) ? wantedWorkers : 1;
	const room = connectionsFor(openFilesLimit(), workers);
	const clockEpoch = process.hrtime.bigint();
	const clock = systemClock(clockEpoch);
	const upstreams = new Upstreams(workers, () => clock.now());
	upstreams.apply(upstreams.plan(config.routes));
	return {
		workers,
		clockEpoch,
		clock,
		jwtPublicKeyPem,
		inForce: { tls: files.material, generation: 1, reloads: { success: 0, failure: 0 } },
		memory: new ProcessMemory({
			workers,
			tenantRps: config.tenantRps,
			maxBufferedBytes: config.limits.maxBufferedBytes,
			maxConnections: config.limits.maxConnections ?? room,
		}),
		upstreams,
		warnings: [
			...nodeWarnings(process.versions.node),
			...workerWarnings(wantedWorkers, workers),
			...connectionWarnings(config.limits.maxConnections, room),
			...files.warnings,
		],
	};
}

/** What a worker begins with, at the moment it is started. */
export function seedWorker(
	{ clockEpoch, workers, jwtPublicKeyPem, inForce, upstreams, memory }: ProcessState,
	{ limits, tenantRps, jwt, log }: Config,
	{ index, bind, logFilter }: { index: number; bind: ListenAddress; logFilter: string },
): WorkerSeed {
	return {
		index,
		workers,
		clockEpoch,
		bind,
		reusePort: workers > 1,
		limits,
		tenantRps,
		jwt: { publicKeyPem: jwtPublicKeyPem, issuer: jwt.issuer, audience: jwt.audience },
		tls: inForce.tls,
		routing: upstreams.seed(upstreams.current, index),
		limiter: memory.limiter,
		bufferedBytes: memory.bufferedBytes,
		connections: memory.connections,
		stats: memory.statsRegions[index]!,
		logFilter,
		log,
	};
}

function readFiles(config: Config) {
	try {
		return {
			files: readTlsFiles(config.tls, new Date()),
			jwtPublicKeyPem: readJwtKeyFile(config.jwt.publicKeyPath),
		};
	} catch (error) {
		throw new StartError((error as Error).message);
	}
}

function workerWarnings(wanted: number, workers: number): string[] {
	if (wanted === workers) return [];
	return [`this platform cannot share a port among threads: there will be ${workers} worker, not ${wanted}`];
}
