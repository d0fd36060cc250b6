import { hostname } from 'node:os';
import { RateLimitedLog } from '@mtls-edge-proxy/gate/shared/rate-limited-log.ts';
import type { DnsAddresses } from '../addresses/dns-addresses.ts';
import type { RemoteKeys } from '../jwks/remote-keys.ts';
import type { ListenAddress } from '../listen.ts';
import type { MetricSources } from '../metrics/families.ts';
import type { ProcessState } from '../process-state.ts';
import { StatusReader } from '../status/snapshot.ts';
import { StatusPages } from '../status/status-pages.ts';
import type { Sharing } from '../store/sharing.ts';
import type { SupervisorOptions } from '../supervisor-options.ts';
import { systemTimers } from '../timers.ts';
import type { Tracing } from '../trace/tracing.ts';
import type { WorkerPool } from '../workers/worker-pool.ts';
import { type AdminListener, startAdmin } from './listener.ts';
import type { Readiness } from './readiness.ts';

/** What the admin listener reads of the running proxy. */
export interface Running {
	readonly state: ProcessState;
	readonly pool: WorkerPool;
	readonly remoteKeys: RemoteKeys;
	readonly addresses: DnsAddresses;
	/** `undefined`: nothing is traced. */
	readonly tracing: Tracing | undefined;
	/** `undefined`: limits are this process's own. */
	readonly sharing: Sharing | undefined;
	readonly readiness: Readiness;
}

/**
 * Opens the admin listener: metrics, readiness, process and, if wanted, the status page.
 *
 * @throws StartError if the address cannot be bound.
 */
export function openAdmin(
	address: ListenAddress,
	options: SupervisorOptions,
	running: Running,
): Promise<AdminListener> {
	const { log, files } = options;
	const { readiness } = running;
	const sources = metricSources(options, running);
	const status = options.statusPage ? createStatus(options, running, sources) : undefined;
	const { hosts } = files.config.status;
	return startAdmin(address, { sources, readiness, log, hosts, ...(status && { status: status.routes }) });
}

function metricSources(
	{ version, bodyMode, output }: SupervisorOptions,
	{ state, pool, remoteKeys, addresses, tracing, sharing }: Running,
): MetricSources {
	return {
		build: { version, bodyMode, node: process.versions.node },
		state,
		listening: () => pool.listening,
		logLosses: () => output.losses,
		remoteKeys: () => remoteKeys.all,
		addresses: () => addresses.all,
		spans: tracing && (() => tracing.counts),
		store: () => sharing?.facts,
	};
}

function createStatus(
	{ files: { config }, log }: SupervisorOptions,
	{ state, readiness }: Running,
	metrics: MetricSources,
): StatusPages {
	const { tenants, shareBounds } = config.status;
	const faults = new RateLimitedLog(log, state.clock);
	return new StatusPages({
		source: new StatusReader({ state, metrics, host: hostname(), readiness, tenants, shareBounds }),
		timers: systemTimers,
		now: () => state.clock.now(),
		onFault: (cause) => faults.write('error', 'proxy::metrics', 'status page failed', 'status', () => ({ cause })),
	});
}
