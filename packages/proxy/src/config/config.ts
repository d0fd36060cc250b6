/**
 * The validated configuration, frozen: the TOML file as the rest of the program sees it. Durations are in milliseconds, sizes in bytes.
 * Most keys are those of the schema, renamed by `names.ts`; `tables/` documents them.
 */

import type { Algorithm } from '@mtls-edge-proxy/gate/gates/algorithm.ts';
import type { IssuerRules } from '@mtls-edge-proxy/gate/identity/issuer.ts';
import type { RateClaim, TenantSeed } from '@mtls-edge-proxy/gate/identity/quotas.ts';
import type { OpeningRule } from '../gates/breaker.ts';
import type { Limits } from '../shared/limits.ts';
import type { EndpointSeed, RouteSeed, UpstreamSeed } from '../shared/messages.ts';
import type { Lines } from './error.ts';
import type { Named } from './names.ts';
import type { ConfigFile } from './schema.ts';
import type { StartSettings } from './start-settings.ts';
import type { StoreAddress } from './tables/limiter.ts';
import type { GroupAddress, UpstreamAddress } from './upstream.ts';

export type { GroupAddress, Limits, OpeningRule, StoreAddress, UpstreamAddress };

/** A name that DNS resolves to addresses. All of them share its `hostField`. */
export interface DnsSource extends UpstreamAddress {
	/** `address:port` of the DNS server; `undefined`: the system resolver. */
	readonly server: string | undefined;
	/** How long an answer holds, unless its TTL is shorter, ms. */
	readonly refreshMs: number;
}

/** TLS settings of the connections to an upstream. */
export interface UpstreamTlsConfig
	extends Omit<Named<NonNullable<ConfigFile['upstreams'][number]['tls']>>, 'insecureSkipVerify'> {
	/** Full key of its table: `upstreams[0].tls`; `undefined`: a route's URL, which has no keys for it. */
	readonly key: string | undefined;
	/** `false`: any certificate is accepted. */
	readonly verify: boolean;
}

/** One `[[upstreams]]` table, or the one address of a route's URL. */
export interface UpstreamConfig
	extends Pick<UpstreamSeed, 'name' | 'limits' | 'balancing'>,
		Pick<EndpointSeed, 'protocol' | 'idleTimeoutMs' | 'connectTimeoutMs'> {
	/** At least one, or none with `dns`. */
	readonly addresses: readonly GroupAddress[];
	readonly dns?: DnsSource | undefined;
	/** `undefined`: plain HTTP. */
	readonly tls?: UpstreamTlsConfig | undefined;
	/** Health probes of each address; `undefined`: none. */
	readonly health: HealthSettings | undefined;
}

/** One `[[routes]]` table. */
export interface RouteConfig extends Omit<RouteSeed, 'upstream' | 'stats'> {
	/** Where requests go. Routes to the same upstream have equal objects here. */
	readonly upstream: UpstreamConfig;
}

export interface HealthSettings {
	/** Origin form, begins with `/`. */
	readonly path: string;
	/** Service name for probes by grpc.health.v1, which replace the path; empty: the whole server. */
	readonly grpcService?: string | undefined;
	/** Time limit from the DNS lookup to the head of the response. */
	readonly timeoutMs: number;
	/** Consecutive verdicts that make an upstream unhealthy, or healthy again; at least 1. */
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

interface FileSource {
	readonly type: 'file';
	/** Full key of the file (`IssuerFile.key`). */
	readonly key: string;
}

interface NetworkSource {
	readonly type: 'network';
	/** Full key that configures this source, for messages. */
	readonly key: string;
	/** URL of the JWK Set; `undefined`: read from the issuer's metadata (RFC 8414, OpenID Connect Discovery). */
	readonly url: string | undefined;
	/** Full key of the CA bundle that replaces the system's. */
	readonly caKey: string | undefined;
	readonly refreshMs: number;
	/** Maximum age of the keys while the issuer gives no new ones. */
	readonly maxStaleMs: number;
}

/** A file that an `[[issuers]]` names. */
export interface IssuerFile {
	/** Full key: `issuers[0].jwks_path`. */
	readonly key: string;
	readonly path: string;
	readonly content: 'key' | 'keys' | 'authorities';
	/** The issuer's algorithms. */
	readonly algorithms: readonly Algorithm[];
}

/** Keys that are copied from the file; only names and units change. */
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
	/** Path of the configuration file, for messages. */
	readonly path: string;
	readonly lines: Lines;
	/** Values of the keys that are read only at the start. */
	readonly atStart: StartSettings;
	/** `undefined` if there are `issuers`. */
	readonly jwt: JwtConfig | undefined;
	readonly issuers: readonly IssuerConfig[];
	/** The files that `issuers` name. */
	readonly issuerFiles: readonly IssuerFile[];
	readonly tenants: readonly TenantSeed[];
	/** Whether a reload applies changes of identity and tenant limits. Unchanged parts keep their state. */
	readonly reloadsIdentity: boolean;
	readonly upstreams: readonly UpstreamConfig[];
	readonly routes: readonly RouteConfig[];
	readonly limits: Limits;
	/** The status page. */
	readonly status: Pick<Named<ConfigFile['status']>, 'tenants' | 'hosts'> & {
		/** Shares of the last minute from which refusals and failures count as a problem. */
		readonly shareBounds: {
			/** From this share on, 0 to 1; 0: never. */
			readonly share: Readonly<Record<'401' | '429' | '5xx' | 'grpc' | 'handshakes', number>>;
			/** With fewer responses, calls or handshakes in a minute, nothing is reported. */
			readonly least: number;
		};
	};
}

/** `[jwt]`. */
interface JwtConfig extends Pick<Named<ConfigFile['jwt']>, 'issuer' | 'audience' | 'certificateBound' | 'reload'> {
	readonly jwksPath: string;
	/** The claim with the tenant's rate limit; `undefined`: none. */
	readonly rateClaim: RateClaim | undefined;
}

export type TraceConfig = NonNullable<Config['trace']>;
export type LimiterConfig = NonNullable<Config['limiter']>;
/** Behaviour while the store is unreachable: `docs/explanation/shared-rate-limits.md`. */
export type OnStoreFailure = LimiterConfig['onStoreFailure'];

type Part<Table> = { readonly [Key in keyof Table]?: Table[Key] | undefined };

/**
 * The files that a configuration names. An invalid configuration may lack some; those that it does name can still be checked.
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
