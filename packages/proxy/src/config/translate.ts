import { MAX_RPS } from '@mtls-edge-proxy/gate/gates/tenant-limit.ts';
import type { RateClaim, RateSeed, TenantSeed } from '@mtls-edge-proxy/gate/identity/quotas.ts';
import { DEFAULT_BALANCING } from '../gates/balancing/settings.ts';
import type { WebSocketSeed } from '../shared/messages.ts';
import {
	type Config,
	type GroupAddress,
	type IssuerConfig,
	type IssuerFile,
	type KeySource,
	type Limits,
	type RouteConfig,
	TAKEN_OVER,
	type UpstreamConfig,
	type UpstreamTlsConfig,
} from './config.ts';
import type { Lines } from './error.ts';
import { type Named, named } from './names.ts';
import type { ConfigFile } from './schema.ts';
import { startSettings } from './start-settings.ts';
import type { TomlTable } from './toml.ts';

/** Turns the tables of a valid file into `Config`. `names.ts` converts names and units; this file does what depends on several keys. */

type File = Named<ConfigFile>;
type Issuer = File['issuers'][number];
type Route = File['routes'][number];
type Upstream = File['upstreams'][number];

export function toConfig(path: string, lines: Lines, parsed: ConfigFile): Config {
	const file = named(parsed);
	const { jwt, issuers, tenants, limits } = file;
	const upstreams = file.upstreams.map((table, i) => toUpstream(file, table, `upstreams[${i}]`));
	return {
		...named(pick(parsed, TAKEN_OVER)),
		path,
		lines: { ...lines },
		atStart: startSettings(parsed),
		jwt: toJwt(jwt),
		issuers: issuers.map(toIssuer),
		issuerFiles: parsed.issuers.flatMap((table, i) => issuerFiles(table, i, () => true)),
		reloadsIdentity: jwt.reload || issuers.length > 0 || tenants.length > 0,
		tenants: tenants.map(toTenant),
		upstreams,
		routes: file.routes.map((route) => toRoute(file, route, upstreams)),
		limits: { ...limits, maxBufferedBytesPerTenant: limits.maxBufferedBytesPerTenant ?? tenantShare(limits) },
		status: toStatus(file.status),
	};
}

function pick<Table, Key extends keyof Table>(table: Table, keys: readonly Key[]): Pick<Table, Key> {
	return Object.fromEntries(keys.map((key) => [key, table[key]])) as Pick<Table, Key>;
}

function toStatus({ tenants, hosts, ...bounds }: File['status']): Config['status'] {
	const share = {
		'401': bounds.problem401Share,
		'429': bounds.problem429Share,
		'5xx': bounds.problem5xxShare,
		grpc: bounds.problemGrpcShare,
		handshakes: bounds.problemHandshakeShare,
	};
	return { tenants, hosts, shareBounds: { share, least: bounds.problemLeast } };
}

/** Only `[[issuers]]` can do without it. */
function toJwt({ jwksPath, issuer, audience, certificateBound, reload, ...jwt }: File['jwt']): Config['jwt'] {
	if (jwksPath === undefined) return undefined;
	return { jwksPath, issuer, audience, certificateBound, rateClaim: toRateClaim(jwt), reload };
}

/** The rate claim of `[jwt]` or of one `[[issuers]]`. */
function toRateClaim({ rateClaim, maxRps }: Pick<File['jwt'], 'rateClaim' | 'maxRps'>): RateClaim | undefined {
	return rateClaim === undefined ? undefined : { name: rateClaim, maxRps: maxRps ?? MAX_RPS };
}

function toIssuer(table: Issuer, i: number): IssuerConfig {
	const { issuer, audience, leewayMs, tenantClaim, requiredClaims, algorithms, tenantPrefix, certificateBound } = table;
	const names = { issuer, audience, tenantClaim, requiredClaims, tenantPrefix };
	const rules = {
		...names,
		algorithms,
		certificateBound,
		leewaySeconds: leewayMs / 1000,
		rateClaim: toRateClaim(table),
	};
	return { issuer, rules, keys: toSource(table, `issuers[${i}]`) };
}

function toSource(table: Issuer, at: string): KeySource {
	if (table.publicKeyPath !== undefined) return { type: 'file', key: `${at}.public_key_path` };
	if (table.jwksPath !== undefined) return { type: 'file', key: `${at}.jwks_path` };
	return {
		type: 'network',
		key: `${at}.${table.jwksUrl === undefined ? 'discovery' : 'jwks_url'}`,
		url: table.jwksUrl,
		caKey: table.jwksCaPath === undefined ? undefined : `${at}.jwks_ca_path`,
		refreshMs: table.refreshMs ?? 300_000,
		maxStaleMs: table.maxStaleMs ?? 86_400_000,
	};
}

/**
 * The files that an `[[issuers]]` table names, even if the table has other faults.
 *
 * @param isRight whether nothing is wrong with the key, by its full name.
 */
export function issuerFiles(table: TomlTable, i: number, isRight: (key: string) => boolean): IssuerFile[] {
	const algorithms = table.algorithms ?? ['RS256'];
	if (!Array.isArray(algorithms) || !isRight(`issuers[${i}].algorithms`)) return [];
	const contents = { public_key_path: 'key', jwks_path: 'keys', jwks_ca_path: 'authorities' } as const;
	return Object.entries(contents).flatMap(([name, content]) => {
		const path = table[name];
		const key = `issuers[${i}].${name}`;
		return typeof path === 'string' && isRight(key) ? [{ key, path, content, algorithms }] : [];
	});
}

function toTenant({ name, rps, burst, concurrency }: File['tenants'][number]): TenantSeed {
	return { name, rate: rps === 0 ? null : toRate({ rps, burst }), concurrency };
}

function toRate({ rps, burst }: { rps?: number | undefined; burst?: number | undefined }): RateSeed | undefined {
	return rps === undefined || rps === 0 ? undefined : { rps, burst: burst ?? rps };
}

function toRoute(file: File, route: Route, upstreams: readonly UpstreamConfig[]): RouteConfig {
	const { upstream, allow, deny, scopes, clientCert, xfcc, tenants } = route;
	const { maxBodyBytes, bodyTimeoutMs, upstreamTimeoutMs, idleTimeoutMs } = route;
	const endsAtExpiry = route.endStreamsAtExpiry || undefined;
	return {
		prefix: route.prefix,
		caseInsensitive: route.caseInsensitive,
		trailers: route.trailers,
		upstream:
			typeof upstream === 'string'
				? // `conflictsBetweenTables` has checked that this name exists.
					upstreams.find(({ name }) => name === upstream)!
				: {
						...toGroup(file, route, undefined, [upstream.address]),
						balancing: DEFAULT_BALANCING,
						tls: upstream.tls ? toUpstreamTls({}, undefined) : undefined,
						protocol: upstream.protocol,
					},
		cooldownMs: route.cooldownMs ?? file.defaultCooldownMs,
		opening: {
			failures: route.failures ?? file.breaker.failures,
			tenants: typeof tenants === 'number' ? tenants : file.breaker.tenants,
			...(file.breaker.grpcStatuses.length > 0 && { grpcStatuses: file.breaker.grpcStatuses }),
		},
		access: unlessEmpty({ allow, deny, tenants: typeof tenants === 'object' ? tenants : undefined, scopes }),
		certificateHeaders: clientCert === 'none' && xfcc === undefined ? undefined : { clientCert, xfcc },
		forwarding: toForwarding(file, route),
		requestLimits: unlessEmpty({ maxBodyBytes, bodyTimeoutMs, upstreamTimeoutMs, idleTimeoutMs, endsAtExpiry }),
		webSocket: toWebSocket(route),
		rate: toRate(route),
	};
}

function toWebSocket(route: Route): WebSocketSeed | undefined {
	const { websocket, websocketEndAtExpiry, websocketMessagesPerSec, idleTimeoutMs } = route;
	if (!websocket) return undefined;
	return {
		endsAtExpiry: websocketEndAtExpiry,
		messagesPerSec: websocketMessagesPerSec,
		idleMs: idleTimeoutMs ?? WEB_SOCKET_IDLE_MS,
	};
}

/** Longer than the pings that most servers and clients send. */
const WEB_SOCKET_IDLE_MS = 300_000;

function unlessEmpty<Table extends object>(table: Table): Table | undefined {
	return Object.values(table).some((value) => value !== undefined) ? table : undefined;
}

function toUpstream(file: File, table: Upstream, key: string): UpstreamConfig {
	const { connectTimeoutMs, balance, slowStartMs, retries, tls, dns, protocol } = table;
	const { maxRequests, maxConnections, queue, queueTimeoutMs } = table;
	return {
		...toGroup(file, table, table.name, table.addresses ?? []),
		connectTimeoutMs,
		balancing: { balance, slowStartMs, retries },
		tls: tls && toUpstreamTls(tls, `${key}.tls`, dns?.host),
		protocol,
		limits:
			maxRequests === undefined && maxConnections === undefined
				? undefined
				: { maxRequests, maxConnections, queue, queueTimeoutMs },
		dns: dns && {
			...dns,
			// A trailing dot marks a fully qualified name for resolvers; servers expect `Host` without it.
			hostField: `${dns.host.replace(/\.$/, '')}:${dns.port}`,
			server: table.dnsServer,
			refreshMs: table.dnsRefreshMs,
		},
	};
}

/** @param own the table with the keys of the upstream: its `[[upstreams]]`, or the route with its URL. */
function toGroup(file: File, own: Route | Upstream, name: string | undefined, addresses: readonly GroupAddress[]) {
	const health = {
		path: own.healthPath ?? file.healthPath,
		...(own.healthGrpc && { grpcService: own.healthGrpc === true ? '' : own.healthGrpc }),
		timeoutMs: own.healthTimeoutMs ?? file.healthTimeoutMs,
		unhealthyAfter: own.unhealthyAfter ?? file.unhealthyAfter,
		healthyAfter: own.healthyAfter ?? file.healthyAfter,
	};
	const idleTimeoutMs = own.upstreamIdleTimeoutMs ?? file.upstreamIdleTimeoutMs;
	return { name, addresses, health: (own.health ?? file.health) ? health : undefined, idleTimeoutMs };
}

/** @param table without defaults if the configuration has other faults or a route has `https://`. */
export function toUpstreamTls(
	table: Partial<NonNullable<Upstream['tls']>>,
	key: string | undefined,
	host?: string,
): UpstreamTlsConfig {
	const { caPath, certPath, keyPath, minVersion, insecureSkipVerify } = table;
	// Addresses from DNS have certificates for the host that was looked up.
	const serverName = table.serverName ?? host;
	return { key, caPath, serverName, certPath, keyPath, minVersion, verify: insecureSkipVerify !== true };
}

function toForwarding(file: File, route: Route): RouteConfig['forwarding'] {
	const { host, stripPrefix: stripsPrefix } = route;
	const forwardedHost = route.xForwardedHost ?? file.xForwardedHost;
	const forwardedPort = route.xForwardedPort ?? file.xForwardedPort;
	const forwarded = route.forwarded ?? file.forwarded;
	const isPlain = host === 'upstream' && !stripsPrefix && !forwardedHost && forwardedPort === false && !forwarded;
	if (isPlain) return undefined;
	const name = host === 'upstream' || host === 'client' ? host : { name: host };
	return { host: name, stripsPrefix, forwardedHost, forwardedPort, forwarded };
}

/**
 * Half of the memory for bodies: however many bodies one tenant holds back, the other half stays free for the others. If memory is
 * scarce, still enough for one request of the largest size, whose buffer may grow to twice that size.
 */
function tenantShare({
	maxBufferedBytes,
	maxRequestBodyBytes,
}: Pick<Limits, 'maxBufferedBytes' | 'maxRequestBodyBytes'>) {
	return Math.min(maxBufferedBytes, Math.max(Math.ceil(maxBufferedBytes / 2), 3 * maxRequestBodyBytes));
}
