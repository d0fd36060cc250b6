import { type BalancingSettings, DEFAULT_BALANCING } from '../gates/balancing/settings.ts';
import type { RateSeed, TenantSeed } from '../identity/quotas.ts';
import type {
	Config,
	DnsSource,
	GroupAddress,
	HealthSettings,
	LimiterConfig,
	Limits,
	RouteConfig,
	UpstreamAddress,
	UpstreamGroupConfig,
	UpstreamTlsConfig,
} from './config.ts';
import { toIssuers, toRateClaim } from './issuer.ts';
import type { ConfigFile } from './schema.ts';
import { startSettings } from './start-settings.ts';

/** From the tables of a file that is right to `Config`: its own names, milliseconds for seconds, and defaults that depend on other keys. */

export function toConfig(path: string, lines: Config['lines'], file: ConfigFile): Config {
	const upstreams = file.upstreams.map((table, i) => ({
		...toGroup(file, table, table.name, table.addresses ?? [], {
			connectTimeoutMs: milliseconds(table.connect_timeout_secs),
			balancing: toBalancing(table),
			tls: table.tls && toUpstreamTls(table.tls, `upstreams[${i}].tls`, table.dns?.host),
		}),
		limits: toUpstreamLimits(table),
		dns: table.dns && toDns(table.dns, table),
	}));
	return {
		path,
		lines,
		atStart: startSettings(file),
		healthIntervalMs: milliseconds(file.health_interval_secs),
		tenantRps: file.tenant_rps,
		reloadOnChange: file.reload_on_change,
		tls: {
			certPath: file.tls.cert_path,
			keyPath: file.tls.key_path,
			clientCaPath: file.tls.client_ca_path,
			minVersion: file.tls.min_version,
			crlPaths: file.tls.crl_path,
			crlRequired: file.tls.crl_required,
			endAtExpiry: file.tls.end_at_expiry,
			endAtCaRemoval: file.tls.end_at_ca_removal,
		},
		revokedPath: file.revoked_path,
		jwt: toJwt(file.jwt),
		...toIssuers(file.issuers),
		stateDir: file.state_dir,
		reloadsIdentity: file.jwt.reload || file.issuers.length > 0 || file.tenants.length > 0,
		tenants: file.tenants.map(toTenant),
		upstreams,
		routes: file.routes.map((route) => toRoute(file, route, upstreams)),
		limits: toLimits(file.limits),
		listener: {
			proxyProtocolFrom: file.listener.proxy_protocol_from,
			proxyProtocolTimeoutMs: milliseconds(file.listener.proxy_protocol_timeout_secs),
		},
		log: { access: file.log.access, requestId: file.log.request_id },
		metrics: { buckets: file.metrics.buckets, gateBuckets: file.metrics.gate_buckets },
		trace: file.trace && toTrace(file.trace),
		limiter: file.limiter && toLimiter(file.limiter),
		status: toStatus(file.status),
	};
}

function toStatus({ tenants, hosts, ...bounds }: ConfigFile['status']): Config['status'] {
	const share = {
		'401': bounds.problem_401_share,
		'429': bounds.problem_429_share,
		'5xx': bounds.problem_5xx_share,
		handshakes: bounds.problem_handshake_share,
	};
	return { tenants, hosts, shareBounds: { share, least: bounds.problem_least } };
}

function toTrace(trace: NonNullable<ConfigFile['trace']>): NonNullable<Config['trace']> {
	return {
		endpoint: trace.endpoint,
		ratio: trace.ratio,
		caPath: trace.ca_path,
		headersPath: trace.headers_path,
		serviceName: trace.service_name,
		tenants: trace.tenants,
		maxSpans: trace.max_queue_spans,
	};
}

function toLimiter(limiter: NonNullable<ConfigFile['limiter']>): LimiterConfig {
	return {
		store: limiter.store,
		sentinelName: limiter.sentinel_name,
		cluster: limiter.cluster,
		onStoreFailure: limiter.on_store_failure,
		replicas: limiter.replicas,
		username: limiter.username,
		passwordPath: limiter.password_path,
		sentinelUsername: limiter.sentinel_username,
		sentinelPasswordPath: limiter.sentinel_password_path,
		caPath: limiter.ca_path,
		certPath: limiter.cert_path,
		keyPath: limiter.key_path,
		serverName: limiter.server_name,
		secretPath: limiter.secret_path,
		prefix: limiter.prefix,
		timeoutMs: milliseconds(limiter.timeout_secs),
		revocations: limiter.revocations,
	};
}

/** Only `[[issuers]]` can do without it. */
function toJwt(jwt: ConfigFile['jwt']): Config['jwt'] {
	const { jwks_path, issuer, audience, certificate_bound, reload } = jwt;
	if (jwks_path === undefined) return undefined;
	const rateClaim = toRateClaim(jwt);
	return { publicKeyPath: jwks_path, issuer, audience, certificateBound: certificate_bound, rateClaim, reload };
}

function toTenant({ name, rps, burst, concurrency }: ConfigFile['tenants'][number]): TenantSeed {
	return { name, rate: rps === 0 ? null : toRate({ rps, burst }), concurrency };
}

function toRate({ rps, burst }: { rps?: number | undefined; burst?: number | undefined }): RateSeed | undefined {
	return rps === undefined || rps === 0 ? undefined : { rps, burst: burst ?? rps };
}

function toRoute(
	file: ConfigFile,
	route: ConfigFile['routes'][number],
	upstreams: readonly UpstreamGroupConfig[],
): RouteConfig {
	const { upstream } = route;
	return {
		prefix: route.prefix,
		caseInsensitive: route.case_insensitive,
		// `upstreamConflicts` has seen that there is one of that name.
		group:
			typeof upstream === 'string'
				? upstreams.find(({ name }) => name === upstream)!
				: toGroup(file, route, undefined, [upstream.address], {
						tls: upstream.tls ? toUpstreamTls({}, undefined) : undefined,
					}),
		cooldownMs: milliseconds(route.cooldown_secs ?? file.default_cooldown_secs),
		opening: {
			failures: route.failures ?? file.breaker.failures,
			tenants: typeof route.tenants === 'number' ? route.tenants : file.breaker.tenants,
		},
		access: toAccess(route),
		certificateHeaders: toCertificateHeaders(route),
		forwarding: toForwarding(file, route),
		requestLimits: toRequestLimits(route),
		rate: toRate(route),
	};
}

/** @param own the table where the keys of the upstream stand: its `[[upstreams]]`, or the route with its URL. */
function toGroup(
	file: ConfigFile,
	own: ConfigFile['routes'][number] | ConfigFile['upstreams'][number],
	name: string | undefined,
	addresses: readonly GroupAddress[],
	more: Partial<UpstreamGroupConfig> = {},
): UpstreamGroupConfig {
	return {
		name,
		addresses,
		health: (own.health ?? file.health) ? toHealth(file, own) : undefined,
		idleTimeoutMs: milliseconds(own.upstream_idle_timeout_secs ?? file.upstream_idle_timeout_secs),
		balancing: DEFAULT_BALANCING,
		...more,
	};
}

function toBalancing({ balance, slow_start_secs, retries }: ConfigFile['upstreams'][number]): BalancingSettings {
	return { balance, slowStartMs: slow_start_secs === 0 ? 0 : milliseconds(slow_start_secs), retries };
}

function toUpstreamLimits(table: ConfigFile['upstreams'][number]): UpstreamGroupConfig['limits'] {
	const { max_requests: maxRequests, max_connections: maxConnections, queue, queue_timeout_secs } = table;
	if (maxRequests === undefined && maxConnections === undefined) return undefined;
	return { maxRequests, maxConnections, queue, queueTimeoutMs: milliseconds(queue_timeout_secs) };
}

function toDns(
	name: UpstreamAddress,
	{ dns_server: server, dns_refresh_secs }: ConfigFile['upstreams'][number],
): DnsSource {
	// A dot at the end tells resolvers that the name is whole: servers know themselves without it.
	const hostField = `${name.host.replace(/\.$/, '')}:${name.port}`;
	return { ...name, hostField, server, refreshMs: milliseconds(dns_refresh_secs) };
}

/** @param table without defaults where the configuration is wrong elsewhere, or where a route has `https://`. */
export function toUpstreamTls(
	table: Partial<NonNullable<ConfigFile['upstreams'][number]['tls']>>,
	key: string | undefined,
	host?: string,
): UpstreamTlsConfig {
	return {
		key,
		caPath: table.ca_path,
		// Of addresses that DNS has given, certificates name the name that was asked for.
		serverName: table.server_name ?? host,
		certPath: table.cert_path,
		keyPath: table.key_path,
		minVersion: table.min_version,
		verify: table.insecure_skip_verify !== true,
	};
}

function toAccess({ allow, deny, tenants, scopes }: ConfigFile['routes'][number]): RouteConfig['access'] {
	const access = { allow, deny, tenants: Array.isArray(tenants) ? tenants : undefined, scopes };
	return Object.values(access).some((rule) => rule !== undefined) ? access : undefined;
}

function toCertificateHeaders({ client_cert, xfcc }: ConfigFile['routes'][number]): RouteConfig['certificateHeaders'] {
	return client_cert === 'none' && xfcc === undefined ? undefined : { clientCert: client_cert, xfcc };
}

function toForwarding(file: ConfigFile, route: ConfigFile['routes'][number]): RouteConfig['forwarding'] {
	const { host, strip_prefix: stripsPrefix } = route;
	const forwardedHost = route.x_forwarded_host ?? file.x_forwarded_host;
	const forwardedPort = route.x_forwarded_port ?? file.x_forwarded_port;
	const forwarded = route.forwarded ?? file.forwarded;
	const isPlain = host === 'upstream' && !stripsPrefix && !forwardedHost && forwardedPort === false && !forwarded;
	if (isPlain) return undefined;
	const named = host === 'upstream' || host === 'client' ? host : { name: host };
	return { host: named, stripsPrefix, forwardedHost, forwardedPort, forwarded };
}

function toRequestLimits(route: ConfigFile['routes'][number]): RouteConfig['requestLimits'] {
	const { max_body_bytes: maxBodyBytes, body_timeout_secs, upstream_timeout_secs } = route;
	const own = {
		maxBodyBytes,
		bodyTimeoutMs: body_timeout_secs && milliseconds(body_timeout_secs),
		upstreamTimeoutMs: upstream_timeout_secs && milliseconds(upstream_timeout_secs),
	};
	return Object.values(own).some((limit) => limit !== undefined) ? own : undefined;
}

function toHealth(
	file: ConfigFile,
	own: ConfigFile['routes'][number] | ConfigFile['upstreams'][number],
): HealthSettings {
	return {
		path: own.health_path ?? file.health_path,
		timeoutMs: milliseconds(own.health_timeout_secs ?? file.health_timeout_secs),
		unhealthyAfter: own.unhealthy_after ?? file.unhealthy_after,
		healthyAfter: own.healthy_after ?? file.healthy_after,
	};
}

function toLimits(limits: ConfigFile['limits']): Limits {
	return {
		maxRequestBodyBytes: limits.max_request_body_bytes,
		requestBodyTimeoutMs: milliseconds(limits.request_body_timeout_secs),
		upstreamTimeoutMs: milliseconds(limits.upstream_timeout_secs),
		tlsHandshakeTimeoutMs: milliseconds(limits.tls_handshake_timeout_secs),
		firstRequestTimeoutMs: milliseconds(limits.first_request_timeout_secs),
		h2MaxConcurrentStreams: limits.h2_max_concurrent_streams,
		shutdownDrainMs: milliseconds(limits.shutdown_drain_secs),
		shutdownDelayMs: limits.shutdown_delay_secs === 0 ? 0 : milliseconds(limits.shutdown_delay_secs),
		maxHeaderBytes: limits.max_header_bytes,
		maxBufferedBytes: limits.max_buffered_bytes,
		maxBufferedBytesPerTenant: limits.max_buffered_bytes_per_tenant ?? tenantShare(limits),
		minAnswerBytesPerSec: limits.min_answer_bytes_per_sec,
		maxConnections: limits.max_connections,
		maxConnectionAgeMs: limits.max_connection_age_secs === 0 ? 0 : milliseconds(limits.max_connection_age_secs),
		rateLimitHeaders: limits.rate_limit_headers,
	};
}

/**
 * Half of the memory for bodies: however many bodies one tenant has held back, the others have the other half. Where memory is
 * scarce, still as much as one request of the largest size may need, whose buffer grows into one of up to twice its size.
 */
function tenantShare(limits: ConfigFile['limits']): number {
	const { max_buffered_bytes, max_request_body_bytes } = limits;
	return Math.min(max_buffered_bytes, Math.max(Math.ceil(max_buffered_bytes / 2), 3 * max_request_body_bytes));
}

/** Whole milliseconds, at least one: to Node's timers zero means "no limit" in some places and "at once" in others. */
function milliseconds(seconds: number): number {
	return Math.max(1, Math.round(seconds * 1000));
}
