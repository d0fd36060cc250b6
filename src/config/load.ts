import { type BalancingSettings, DEFAULT_BALANCING } from '../gates/balancing/settings.ts';
import type { RateSeed, TenantSeed } from '../identity/quotas.ts';
import { FileError, readRegularFile } from '../shared/regular-file.ts';
import type {
	Config,
	ConfigFiles,
	GroupAddress,
	HealthSettings,
	LimiterConfig,
	Limits,
	RouteConfig,
	UpstreamGroupConfig,
	UpstreamTlsConfig,
} from './config.ts';
import { crlConflicts } from './crl-conflicts.ts';
import { diagnose, duplicatePrefixes, linesByKey } from './diagnose.ts';
import { ConfigError, type ConfigProblem } from './error.ts';
import { issuerFiles, toIssuers, toRateClaim } from './issuer.ts';
import { issuerConflicts } from './issuer-conflicts.ts';
import { limiterConflicts } from './limiter-conflicts.ts';
import { quotaConflicts } from './quota-conflicts.ts';
import { type ConfigFile, configFile } from './schema.ts';
import { stripConflicts } from './strip-conflicts.ts';
import { parseToml, type TomlTable } from './toml.ts';
import { traceConflicts } from './trace-conflicts.ts';
import { upstreamConflicts } from './upstream-conflicts.ts';
import { upstreamTlsConflicts } from './upstream-tls-conflicts.ts';

/** What came of reading a configuration file. */
export interface ConfigReading {
	/** `undefined` where there are problems. */
	readonly config: Config | undefined;
	readonly problems: readonly ConfigProblem[];
	/** The files that it names, also where something else in it is wrong: so that they can be judged at once. */
	readonly files: ConfigFiles;
}

/**
 * Reads and checks the configuration file (specification 2.1). The files that it names are not looked at.
 *
 * @param path relative to the working directory of the process, like the paths inside the file.
 * @throws ConfigError when the file cannot be read or anything in it is wrong.
 */
export async function loadConfig(path: string): Promise<Config> {
	return parseConfig(await readText(path), path);
}

/** The same for those who want to know all that is wrong, here and in the files that it names. */
export async function readConfig(path: string): Promise<ConfigReading> {
	try {
		return diagnoseConfig(await readText(path), path);
	} catch (error) {
		if (!(error instanceof ConfigError)) throw error;
		return {
			config: undefined,
			problems: error.problems,
			files: { path, lines: {}, tls: {}, jwt: {}, issuerFiles: [] },
		};
	}
}

/**
 * Checks the text of a configuration file; pure.
 *
 * @param path for messages and `Config.path`.
 * @returns the configuration, deeply frozen.
 * @throws ConfigError naming every problem at once, each with its line.
 */
export function parseConfig(text: string, path: string): Config {
	const { config, problems } = diagnoseConfig(text, path);
	if (config === undefined) throw new ConfigError(path, problems);
	return config;
}

/** @throws ConfigError when the text is not TOML. */
function diagnoseConfig(text: string, path: string): ConfigReading {
	const document = parseToml(text, path);
	// Error messages are worded from what was found, which zod keeps to itself unless asked.
	const result = configFile.safeParse(document.root, { reportInput: true });
	const problems = [
		...diagnose(document, result.error?.issues ?? []),
		...duplicatePrefixes(document),
		...upstreamConflicts(document),
		...stripConflicts(document),
		...upstreamTlsConflicts(document),
		...crlConflicts(document),
		...issuerConflicts(document),
		...quotaConflicts(document),
		...traceConflicts(document),
		...limiterConflicts(document),
	];
	const lines = linesByKey(document);
	if (result.success && problems.length === 0) {
		const config = deepFreeze(toConfig(path, lines, result.data));
		return { config, problems, files: config };
	}
	return { config: undefined, problems, files: namedFiles(path, lines, document.root, problems) };
}

/** The paths that are right by themselves. */
function namedFiles(
	path: string,
	lines: Config['lines'],
	root: TomlTable,
	problems: readonly ConfigProblem[],
): ConfigFiles {
	const wrong = new Set(problems.map(({ key }) => key));
	const usable = (value: unknown, key: string) => (typeof value === 'string' && !wrong.has(key) ? value : undefined);
	const named = (table: 'tls' | 'jwt' | 'trace' | 'limiter', key: string): string | undefined =>
		usable((root[table] as TomlTable | undefined)?.[key], `${table}.${key}`);
	const crls = (root.tls as TomlTable | undefined)?.crl_path;
	return {
		path,
		lines,
		tls: {
			certPath: named('tls', 'cert_path'),
			keyPath: named('tls', 'key_path'),
			clientCaPath: named('tls', 'client_ca_path'),
			crlPaths: [crls].flat().flatMap((path, i) => usable(path, `tls.crl_path[${i}]`) ?? []),
		},
		jwt: { publicKeyPath: named('jwt', 'jwks_path') },
		trace: { caPath: named('trace', 'ca_path'), headersPath: named('trace', 'headers_path') },
		limiter: {
			passwordPath: named('limiter', 'password_path'),
			sentinelPasswordPath: named('limiter', 'sentinel_password_path'),
			caPath: named('limiter', 'ca_path'),
			certPath: named('limiter', 'cert_path'),
			keyPath: named('limiter', 'key_path'),
			secretPath: named('limiter', 'secret_path'),
		},
		revokedPath: usable(root.revoked_path, 'revoked_path'),
		issuerFiles: (Array.isArray(root.issuers) ? root.issuers : []).flatMap((issuer, i) =>
			issuerFiles(issuer ?? {}, i, (key) => ![...wrong].some((problem) => problem?.startsWith(key))),
		),
		upstreams: (Array.isArray(root.upstreams) ? root.upstreams : []).flatMap((upstream, i) => {
			const { tls } = (upstream ?? {}) as { tls?: Record<string, unknown> };
			if (typeof tls !== 'object' || tls === null) return [];
			const key = `upstreams[${i}].tls`;
			const one = (name: string) => usable(tls[name], `${key}.${name}`);
			const paths = { ca_path: one('ca_path'), cert_path: one('cert_path'), key_path: one('key_path') };
			return [{ tls: toUpstreamTls({ ...paths, insecure_skip_verify: tls.insecure_skip_verify === true }, key) }];
		}),
	};
}

/** What is larger is no configuration, and would take the parser seconds. */
const MAX_BYTES = 1024 * 1024;

async function readText(path: string): Promise<string> {
	try {
		return decode(await readRegularFile(path, { maxBytes: MAX_BYTES }), path);
	} catch (error) {
		if (!(error instanceof FileError)) throw error;
		const message = `cannot be read: ${error.message}; name another file with --config or PROXY_CONFIG`;
		throw new ConfigError(path, [{ message }], { cause: error });
	}
}

function decode(bytes: Buffer, path: string): string {
	try {
		return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
	} catch (error) {
		// What cannot be decoded becomes U+FFFD, which is encoded as other bytes than those that it stands for.
		const lenient = Buffer.from(bytes.toString('utf8'));
		const at = bytes.findIndex((byte, i) => byte !== lenient[i]);
		const line = bytes.subarray(0, at).toString('latin1').split('\n').length;
		const hex = bytes[at]!.toString(16).padStart(2, '0');
		const message = `is not UTF-8 text: byte ${at + 1} of the file is 0x${hex}; save it as UTF-8`;
		throw new ConfigError(path, [{ line, message }], { cause: error });
	}
}

function toConfig(path: string, lines: Config['lines'], file: ConfigFile): Config {
	const upstreams = file.upstreams.map((table, i) => ({
		...toGroup(file, table, table.name, table.addresses ?? [], {
			connectTimeoutMs: milliseconds(table.connect_timeout_secs),
			balancing: toBalancing(table),
			tls: table.tls && toUpstreamTls(table.tls, `upstreams[${i}].tls`, table.dns?.host),
		}),
		limits: toUpstreamLimits(table),
		dns: table.dns && { ...table.dns, server: table.dns_server, refreshMs: milliseconds(table.dns_refresh_secs) },
	}));
	return {
		path,
		lines,
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
		status: file.status,
	};
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

/** @param table without defaults where the configuration is wrong elsewhere, or where a route has `https://`. */
function toUpstreamTls(
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

function deepFreeze<T>(value: T): T {
	if (typeof value !== 'object' || value === null) return value;
	for (const part of Object.values(value)) deepFreeze(part);
	return Object.freeze(value);
}
