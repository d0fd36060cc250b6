/**
 * The validated configuration: what the rest of the program sees of the TOML file, frozen. Every duration here is in milliseconds, every size in
 * bytes. Most keys are those of the schema, by the names that `names.ts` gives them; `tables/` says what they mean.
 */

import type { Algorithm } from '@mtls-edge-proxy/gate/gates/algorithm.ts';
import type { IssuerRules } from '@mtls-edge-proxy/gate/identity/issuer.ts';
import type { RateClaim, RateSeed, TenantSeed } from '@mtls-edge-proxy/gate/identity/quotas.ts';
import type { BalancingSettings } from '../gates/balancing/settings.ts';
import type { OpeningRule } from '../gates/breaker.ts';
import type { ForwardingSeed } from '../gates/forwarding.ts';
import type { CertificateHeadersSeed } from '../identity/certificate-headers.ts';
import type { RouteAccessSeed } from '../identity/route-access.ts';
import type { Limits, RequestLimitsSeed } from '../shared/limits.ts';
import type { UpstreamLimits, UpstreamProtocol, WebSocketSeed } from '../shared/messages.ts';
import type { Lines } from './error.ts';
import type { Named } from './names.ts';
import type { ConfigFile } from './schema.ts';
import type { StartSettings } from './start-settings.ts';
import type { StoreAddress } from './tables/limiter.ts';
import type { GroupAddress, UpstreamAddress } from './upstream.ts';

export type { GroupAddress, Limits, OpeningRule, StoreAddress, UpstreamAddress };

/** A name whose addresses are asked of DNS. Its `hostField` is that of all of them. */
export interface DnsSource extends UpstreamAddress {
	/** `address:port` of the server that is asked; `undefined`: as the machine has it. */
	readonly server: string | undefined;
	/** How long an answer holds, unless its TTL is shorter, ms. */
	readonly refreshMs: number;
}

/** How an upstream is spoken to over TLS. */
export interface UpstreamTlsConfig
	extends Omit<Named<NonNullable<ConfigFile['upstreams'][number]['tls']>>, 'insecureSkipVerify'> {
	/** Full key of its table: `upstreams[0].tls`; `undefined`: a route's URL, which has no keys for it. */
	readonly key: string | undefined;
	/** `false`: its certificate may be anybody's. */
	readonly verify: boolean;
}

/** One `[[upstreams]]` table, or the one address of a route's URL. */
export interface UpstreamConfig {
	/** `undefined`: a route's URL. */
	readonly name: string | undefined;
	/** At least one; none where `dns` has them. */
	readonly addresses: readonly GroupAddress[];
	readonly dns?: DnsSource | undefined;
	/** `undefined`: none. */
	readonly limits?: UpstreamLimits | undefined;
	/** `undefined`: plain HTTP. */
	readonly tls?: UpstreamTlsConfig | undefined;
	/** `undefined`: HTTP/1.1. */
	readonly protocol?: UpstreamProtocol | undefined;
	/** How the health of each address is probed; `undefined`: not at all. */
	readonly health: HealthSettings | undefined;
	/** How long an idle connection to an address is kept, ms. */
	readonly idleTimeoutMs: number;
	/** Time limit of a connection attempt, ms; `undefined`: as long as the request has. */
	readonly connectTimeoutMs?: number | undefined;
	readonly balancing: BalancingSettings;
}

/** One `[[routes]]` table. */
export interface RouteConfig {
	/** Path prefix, begins with `/`, matched on a path-segment boundary. */
	readonly prefix: string;
	/** Its upstream takes paths in any letter case for the same path. */
	readonly caseInsensitive?: boolean | undefined;
	/** Trailers of its requests and responses pass. */
	readonly trailers: boolean;
	/** Where its requests go. Routes that name the same one have the same object's content. */
	readonly upstream: UpstreamConfig;
	/** Breaker cooldown in ms, at least 1000. */
	readonly cooldownMs: number;
	/** What opens the breaker. */
	readonly opening: OpeningRule;
	/** Who may use it; `undefined`: any caller with a token. */
	readonly access?: RouteAccessSeed | undefined;
	/** Fields about the client's certificate for the upstream; `undefined`: none. */
	readonly certificateHeaders?: CertificateHeadersSeed | undefined;
	/** What becomes of a request on its way to the upstream; `undefined`: what becomes of all. */
	readonly forwarding?: ForwardingSeed | undefined;
	/** What it sets in place of `limits`; `undefined`: nothing. */
	readonly requestLimits?: RequestLimitsSeed | undefined;
	/** `undefined`: it takes no WebSockets. */
	readonly webSocket?: WebSocketSeed | undefined;
	/** For each tenant, in addition to its own; `undefined`: none. */
	readonly rate: RateSeed | undefined;
}

export interface HealthSettings {
	/** Origin form, begins with `/`. */
	readonly path: string;
	/** The service that is asked about by grpc.health.v1, in place of the path; empty: the whole server. */
	readonly grpcService?: string | undefined;
	/** For the answer's head, from the look-up of the name on. */
	readonly timeoutMs: number;
	/** So many verdicts in a row make an upstream unhealthy, and healthy again; at least 1. */
	readonly unhealthyAfter: number;
	readonly healthyAfter: number;
}

/** One `[[issuers]]` table. */
export interface IssuerConfig {
	readonly issuer: string;
	readonly rules: IssuerRules;
	readonly keys: KeySource;
}

export type KeySource = FileSource | NetworkSource;

export interface FileSource {
	readonly type: 'file';
	/** Full key of the file (`IssuerFile.key`). */
	readonly key: string;
}

export interface NetworkSource {
	readonly type: 'network';
	/** Full key that asks for it, for messages. */
	readonly key: string;
	/** Of the JWK Set; `undefined`: the issuer's metadata has it (RFC 8414, OpenID Connect Discovery). */
	readonly url: string | undefined;
	/** Full key of the CA bundle that takes the place of the system's. */
	readonly caKey: string | undefined;
	readonly refreshMs: number;
	/** How old keys may become while the issuer gives none. */
	readonly maxStaleMs: number;
}

/** A file that an `[[issuers]]` names. */
export interface IssuerFile {
	/** Full key: `issuers[0].jwks_path`. */
	readonly key: string;
	readonly path: string;
	readonly content: 'key' | 'keys' | 'authorities';
	/** Those of the issuer. */
	readonly algorithms: readonly Algorithm[];
}

/** The keys of the file that are taken over as they are, but for their names and units. */
export const TAKEN_OVER = [
	'health_interval_secs',
	'tenant_rps',
	'reload_on_change',
	'revoked_path',
	'state_dir',
	'tls',
	'listener',
	'log',
	'metrics',
	'trace',
	'limiter',
] as const satisfies (keyof ConfigFile)[];

type TakenOver = Named<Pick<ConfigFile, (typeof TAKEN_OVER)[number]>>;

export interface Config extends TakenOver {
	/** The file it was read from, for messages. */
	readonly path: string;
	readonly lines: Lines;
	/** What the file says of the keys that are read at the start only. */
	readonly atStart: StartSettings;
	/** `undefined` where there are `issuers`. */
	readonly jwt: JwtConfig | undefined;
	readonly issuers: readonly IssuerConfig[];
	/** The files that `issuers` name. */
	readonly issuerFiles: readonly IssuerFile[];
	readonly tenants: readonly TenantSeed[];
	/** Whether a reload takes over whom we believe, and how much each tenant may ask for. What of it does not change then stays as it was. */
	readonly reloadsIdentity: boolean;
	readonly upstreams: readonly UpstreamConfig[];
	readonly routes: readonly RouteConfig[];
	readonly limits: Limits;
	/** The status page. */
	readonly status: {
		/** Whether it names tenants. */
		readonly tenants: boolean;
		/** Names that it may be asked for by. */
		readonly hosts: readonly string[];
		/** From which shares of the last minute on refusals and failures are a problem. */
		readonly shareBounds: {
			readonly share: Readonly<Record<'401' | '429' | '5xx' | 'grpc' | 'handshakes', number>>;
			readonly least: number;
		};
	};
}

/** `[jwt]`. */
export interface JwtConfig
	extends Pick<Named<ConfigFile['jwt']>, 'issuer' | 'audience' | 'certificateBound' | 'reload'> {
	readonly jwksPath: string;
	/** Where tokens say how much their tenant may ask for; `undefined`: nowhere. */
	readonly rateClaim: RateClaim | undefined;
}

export type TraceConfig = NonNullable<Config['trace']>;
export type LimiterConfig = NonNullable<Config['limiter']>;
/** What holds while the store is away: `docs/explanation/shared-rate-limits.md`. */
export type OnStoreFailure = LimiterConfig['onStoreFailure'];

type Part<Table> = { readonly [Key in keyof Table]?: Table[Key] | undefined };

/**
 * The files that a configuration names. A configuration has all of them; of one that is wrong elsewhere, those can be looked
 * at all the same that it names.
 */
export interface ConfigFiles extends Part<Pick<Config, 'revokedPath' | 'issuers'>> {
	readonly path: string;
	readonly lines: Lines;
	readonly tls: Part<Config['tls']>;
	readonly trace?: Part<TraceConfig> | undefined;
	readonly limiter?: Part<LimiterConfig> | undefined;
	readonly jwt: Part<JwtConfig> | undefined;
	readonly issuerFiles: readonly IssuerFile[];
	readonly upstreams?: readonly Pick<UpstreamConfig, 'tls'>[];
}
