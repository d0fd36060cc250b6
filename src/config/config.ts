/**
 * The validated configuration: what the rest of the program sees of the TOML file. Every duration here is in milliseconds, every size in bytes; both are frozen.
 */

import type { Algorithm } from '../gates/algorithm.ts';
import type { BalancingSettings } from '../gates/balancing/settings.ts';
import type { OpeningRule } from '../gates/breaker.ts';
import type { ForwardingSeed } from '../gates/forwarding.ts';
import type { CertificateBound } from '../identity/bound-token.ts';
import type { CertificateHeadersSeed } from '../identity/certificate-headers.ts';
import type { IssuerRules } from '../identity/issuer.ts';
import type { RateClaim, RateSeed, TenantSeed } from '../identity/quotas.ts';
import type { RouteAccessSeed } from '../identity/route-access.ts';
import type { Limits, RequestLimitsSeed } from '../shared/limits.ts';
import type { LogSettings, TraceSettings, UpstreamLimits } from '../shared/messages.ts';

import type { StartSettings } from './start-settings.ts';

export type { Limits, OpeningRule };

/** Where an upstream lives. `authority` is `host:port` exactly as it goes into `Host` and into metric labels. */
export interface UpstreamAddress {
	readonly authority: string;
	/** Host name or IP literal as `net.connect` takes it (IPv6 without brackets). */
	readonly host: string;
	readonly port: number;
	/** `Host` of requests and probes, where that is another name for it; absent: `authority`. */
	readonly hostField?: string | undefined;
}

/** A name whose addresses are asked of DNS. Its `hostField` is that of all of them. */
export interface DnsSource extends UpstreamAddress {
	/** `address:port` of the server that is asked; `undefined`: as the machine has it. */
	readonly server: string | undefined;
	/** How long an answer holds, unless its TTL is shorter, ms. */
	readonly refreshMs: number;
}

/** One of the addresses of a group. */
export interface GroupAddress extends UpstreamAddress {
	/** How much of the group's requests it gets, compared with the others; `undefined`: 1. */
	readonly weight?: number | undefined;
}

/** How an upstream is spoken to over TLS. */
export interface UpstreamTlsConfig {
	/** Full key of its table: `upstreams[0].tls`; `undefined`: a route's URL, which has no keys for it. */
	readonly key: string | undefined;
	/** `undefined`: the CAs that Node trusts. */
	readonly caPath: string | undefined;
	/** What its certificate must name, and SNI asks for: a host name or an IP literal; `undefined`: the host of the address. */
	readonly serverName: string | undefined;
	/** Certificate and key that we show; both or neither. */
	readonly certPath: string | undefined;
	readonly keyPath: string | undefined;
	/** `undefined`: 1.2. */
	readonly minVersion: '1.2' | '1.3' | undefined;
	/** `false`: its certificate may be anybody's. */
	readonly verify: boolean;
}

/** One `[[upstreams]]` table, or the one address that the URL of a route stands for. */
export interface UpstreamGroupConfig {
	/** `undefined`: a route's URL. */
	readonly name: string | undefined;
	/** At least one; none where `dns` has them. */
	readonly addresses: readonly GroupAddress[];
	readonly dns?: DnsSource | undefined;
	/** `undefined`: none. */
	readonly limits?: UpstreamLimits | undefined;
	/** `undefined`: plain HTTP. */
	readonly tls?: UpstreamTlsConfig | undefined;
	/** How the health of each address is probed; `undefined`: not at all. */
	readonly health: HealthSettings | undefined;
	/** How long an idle connection to an address is kept, ms. */
	readonly idleTimeoutMs: number;
	/** For a connection to come about, ms; `undefined`: as long as the request has. */
	readonly connectTimeoutMs?: number | undefined;
	readonly balancing: BalancingSettings;
}

/** One `[[routes]]` table. */
export interface RouteConfig {
	/** Path prefix, begins with `/`, matched on a path-segment boundary. */
	readonly prefix: string;
	/** Its upstream takes paths in any letter case for the same path. */
	readonly caseInsensitive?: boolean | undefined;
	/** Where its requests go. Routes that name the same one have the same object's content. */
	readonly group: UpstreamGroupConfig;
	/** Breaker cooldown in ms, at least 1000. */
	readonly cooldownMs: number;
	/** What opens the breaker. */
	readonly opening: OpeningRule;
	/** Who may use it; `undefined`: whoever has a token. */
	readonly access?: RouteAccessSeed | undefined;
	/** What the upstream is told of the client's certificate; `undefined`: nothing. */
	readonly certificateHeaders?: CertificateHeadersSeed | undefined;
	/** What becomes of a request on its way to the upstream; `undefined`: what becomes of all. */
	readonly forwarding?: ForwardingSeed | undefined;
	/** What it sets in place of `limits`; `undefined`: nothing. */
	readonly requestLimits?: RequestLimitsSeed | undefined;
	/** For each tenant, in addition to its own; `undefined`: none. */
	readonly rate: RateSeed | undefined;
}

export interface HealthSettings {
	/** Origin form, begins with `/`. */
	readonly path: string;
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
	/** Of the JWK Set; `undefined`: it stands in the issuer's metadata (RFC 8414, OpenID Connect Discovery). */
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

export interface Config {
	/** The file it was read from, for messages. */
	readonly path: string;
	/** Line of each key that the file has, by the key's full name: `tls.cert_path`, `routes[2].prefix`. */
	readonly lines: Readonly<Record<string, number>>;
	/** What the file says of the keys that are read at the start only. */
	readonly atStart: StartSettings;
	readonly healthIntervalMs: number;
	/** Requests per second for each tenant of which nothing else is said; 0 disables limiting. */
	readonly tenantRps: number;
	/** Whether the files that a reload reads are watched, and a change of theirs is one. */
	readonly reloadOnChange: boolean;
	readonly tls: {
		readonly certPath: string;
		readonly keyPath: string;
		readonly clientCaPath: string;
		/** Default 1.2. */
		readonly minVersion?: '1.2' | '1.3' | undefined;
		/** Files of CRLs; none: nobody asks whether a certificate is revoked, but for `revokedPath`. */
		readonly crlPaths: readonly string[];
		/** Whether clients are refused whose issuer has no fresh CRL. */
		readonly crlRequired: boolean;
		/** Whether a certificate that expires ends the connections that it has opened. */
		readonly endAtExpiry: boolean;
		/** Whether a CA that is gone from the bundle ends the connections of its clients. */
		readonly endAtCaRemoval: boolean;
	};
	/** Revoked certificates, tokens and tenants; reloaded with the files of `[tls]`. */
	readonly revokedPath: string | undefined;
	/** `undefined` where there are `issuers`. */
	readonly jwt:
		| {
				readonly publicKeyPath: string;
				readonly issuer: string | undefined;
				readonly audience: string | undefined;
				readonly certificateBound: CertificateBound;
				/** Where tokens say how much their tenant may ask for; `undefined`: nowhere. */
				readonly rateClaim: RateClaim | undefined;
				/** Whether a reload reads it, too; otherwise it is read at the start alone. */
				readonly reload: boolean;
		  }
		| undefined;
	readonly issuers: readonly IssuerConfig[];
	/** The files that `issuers` name. */
	readonly issuerFiles: readonly IssuerFile[];
	/** Folder for what is to outlive the process, such as the last keys that were fetched; read at the start alone. */
	readonly stateDir: string | undefined;
	/** `[[tenants]]`. */
	readonly tenants: readonly TenantSeed[];
	/** Whether a reload takes over whom we believe, and how much each tenant may ask for. What of it does not change then stays as it was. */
	readonly reloadsIdentity: boolean;
	/** `[[upstreams]]`. */
	readonly upstreams: readonly UpstreamGroupConfig[];
	readonly routes: readonly RouteConfig[];
	readonly limits: Limits;
	/** `[listener]`; read at the start alone. */
	readonly listener: {
		/** Addresses and ranges of the load balancers that begin each connection with a PROXY header; none: nobody does. */
		readonly proxyProtocolFrom: readonly string[];
		readonly proxyProtocolTimeoutMs: number;
	};
	readonly log: LogSettings;
	/** Upper bounds of the histograms' buckets, ascending, in seconds as they are shown; read at the start alone. */
	readonly metrics: { readonly buckets: readonly number[]; readonly gateBuckets: readonly number[] };
	/** `undefined`: nothing is traced. Read at the start alone, like the files that it names. */
	readonly trace: TraceConfig | undefined;
	/** `undefined`: this process limits by itself. Read at the start alone, like the files that it names. */
	readonly limiter: LimiterConfig | undefined;
	/** The status page; read at the start alone. */
	readonly status: {
		/** Whether it names tenants. */
		readonly tenants: boolean;
		/** Names that it may be asked for by. */
		readonly hosts: readonly string[];
		/** From which shares of the last minute on refusals and failures are a problem. */
		readonly shareBounds: {
			readonly share: Readonly<Record<'401' | '429' | '5xx' | 'handshakes', number>>;
			readonly least: number;
		};
	};
}

/** `[trace]`. */
export interface TraceConfig extends TraceSettings {
	/** With its path. */
	readonly endpoint: string;
	readonly caPath: string | undefined;
	readonly headersPath: string | undefined;
	readonly serviceName: string;
}

/** Where a server of the store is: the store itself, a Sentinel, or a node of a Cluster. */
export interface StoreAddress {
	/** Host name or IP literal as `net.connect` takes it (IPv6 without brackets). */
	readonly host: string;
	readonly port: number;
	readonly tls: boolean;
	/** Number of the database. */
	readonly database: number;
}

/** What holds while the store is away: `docs/explanation/shared-rate-limits.md`. */
export type OnStoreFailure = 'share' | 'local' | 'refuse';

/** `[limiter]`. */
export interface LimiterConfig {
	/** At least one; several only with `sentinelName` or `cluster`. All have the same `tls` and `database`. */
	readonly store: readonly StoreAddress[];
	readonly sentinelName: string | undefined;
	readonly cluster: boolean;
	readonly onStoreFailure: OnStoreFailure;
	/** As long as the store has not said how many there are. */
	readonly replicas: number;
	readonly username: string | undefined;
	readonly passwordPath: string | undefined;
	readonly sentinelUsername: string | undefined;
	readonly sentinelPasswordPath: string | undefined;
	readonly caPath: string | undefined;
	readonly certPath: string | undefined;
	readonly keyPath: string | undefined;
	/** That the store's certificate has to have. */
	readonly serverName: string | undefined;
	readonly secretPath: string | undefined;
	/** Of all keys in the store. */
	readonly prefix: string;
	/** For one answer of the store. */
	readonly timeoutMs: number;
	/** Whether what is revoked in the store holds here. */
	readonly revocations: boolean;
}

/** The files of `[limiter]`. */
export type LimiterFileKey = 'passwordPath' | 'sentinelPasswordPath' | 'caPath' | 'certPath' | 'keyPath' | 'secretPath';

/**
 * The files that a configuration names. A configuration has all of them; of one that is wrong elsewhere, those can be looked
 * at all the same that it names.
 */
export interface ConfigFiles {
	readonly path: string;
	readonly lines: Config['lines'];
	readonly tls: { readonly [Key in keyof Config['tls']]?: Config['tls'][Key] | undefined };
	readonly revokedPath?: string | undefined;
	readonly trace?: { readonly caPath?: string | undefined; readonly headersPath?: string | undefined } | undefined;
	readonly limiter?: { readonly [Key in LimiterFileKey]?: string | undefined } | undefined;
	/** `undefined` where the configuration is wrong. */
	readonly issuers?: Config['issuers'] | undefined;
	readonly jwt: { readonly publicKeyPath?: string | undefined } | undefined;
	readonly issuerFiles: readonly IssuerFile[];
	readonly upstreams?: readonly Pick<UpstreamGroupConfig, 'tls'>[];
}
