import type { Config, Limits } from '../../config/config.ts';

/** The keys that are read at the start alone (specification 2.1, decisions "Limits"), as the file spells them. */
const LIMIT_KEYS: Readonly<Record<keyof Limits, string>> = {
	maxRequestBodyBytes: 'max_request_body_bytes',
	requestBodyTimeoutMs: 'request_body_timeout_secs',
	upstreamTimeoutMs: 'upstream_timeout_secs',
	tlsHandshakeTimeoutMs: 'tls_handshake_timeout_secs',
	firstRequestTimeoutMs: 'first_request_timeout_secs',
	h2MaxConcurrentStreams: 'h2_max_concurrent_streams',
	shutdownDrainMs: 'shutdown_drain_secs',
	shutdownDelayMs: 'shutdown_delay_secs',
	maxHeaderBytes: 'max_header_bytes',
	maxBufferedBytes: 'max_buffered_bytes',
	maxBufferedBytesPerTenant: 'max_buffered_bytes_per_tenant',
	minAnswerBytesPerSec: 'min_answer_bytes_per_sec',
	maxConnections: 'max_connections',
	maxConnectionAgeMs: 'max_connection_age_secs',
	rateLimitHeaders: 'rate_limit_headers',
};

/** The boot-only keys whose value in the file is another one than what the process started with. */
export function changedBootSettings(booted: Config, current: Config): string[] {
	const before = bootSettings(booted);
	return [...bootSettings(current)].filter(([key, value]) => before.get(key) !== value).map(([key]) => key);
}

function bootSettings(config: Config): Map<string, unknown> {
	const {
		healthIntervalMs,
		tenantRps,
		reloadOnChange,
		stateDir,
		jwt,
		limits,
		log,
		metrics,
		trace,
		limiter,
		status,
		listener,
	} = config;
	const settings = new Map<string, unknown>([
		['health_interval_secs', healthIntervalMs],
		['tenant_rps', tenantRps],
		['reload_on_change', reloadOnChange],
		['state_dir', stateDir],
		...(jwt === undefined || jwt.reload ? [] : jwtSettings(jwt)),
		['log.access', log.access],
		['log.request_id', log.requestId],
		['metrics.buckets', metrics.buckets.join()],
		['metrics.gate_buckets', metrics.gateBuckets.join()],
		['trace.endpoint', trace?.endpoint],
		['trace.ratio', trace?.ratio],
		['trace.ca_path', trace?.caPath],
		['trace.headers_path', trace?.headersPath],
		['trace.service_name', trace?.serviceName],
		['trace.tenants', trace?.tenants],
		['trace.max_queue_spans', trace?.maxSpans],
		['listener.proxy_protocol_from', listener.proxyProtocolFrom.join()],
		['listener.proxy_protocol_timeout_secs', listener.proxyProtocolTimeoutMs],
		...limiterSettings(limiter),
		['status.tenants', status.tenants],
		['status.hosts', JSON.stringify(status.hosts)],
	]);
	for (const limit of Object.keys(LIMIT_KEYS) as (keyof Limits)[]) {
		settings.set(`limits.${LIMIT_KEYS[limit]}`, limits[limit]);
	}
	return settings;
}

function limiterSettings(limiter: Config['limiter']): [key: string, value: unknown][] {
	return [
		['limiter.store', JSON.stringify(limiter?.store)],
		['limiter.sentinel_name', limiter?.sentinelName],
		['limiter.cluster', limiter?.cluster],
		['limiter.on_store_failure', limiter?.onStoreFailure],
		['limiter.replicas', limiter?.replicas],
		['limiter.username', limiter?.username],
		['limiter.password_path', limiter?.passwordPath],
		['limiter.sentinel_username', limiter?.sentinelUsername],
		['limiter.sentinel_password_path', limiter?.sentinelPasswordPath],
		['limiter.ca_path', limiter?.caPath],
		['limiter.cert_path', limiter?.certPath],
		['limiter.key_path', limiter?.keyPath],
		['limiter.server_name', limiter?.serverName],
		['limiter.secret_path', limiter?.secretPath],
		['limiter.prefix', limiter?.prefix],
		['limiter.timeout_secs', limiter?.timeoutMs],
		['limiter.revocations', limiter?.revocations],
	];
}

function jwtSettings({
	publicKeyPath,
	issuer,
	audience,
	certificateBound,
	rateClaim,
}: NonNullable<Config['jwt']>): [key: string, value: unknown][] {
	return [
		['jwt.jwks_path', publicKeyPath],
		['jwt.issuer', issuer],
		['jwt.audience', audience],
		['jwt.certificate_bound', certificateBound],
		['jwt.rate_claim', rateClaim?.name],
		['jwt.max_rps', rateClaim?.maxRps],
	];
}
