import type { RateSeed } from '@mtls-edge-proxy/gate/identity/quotas.ts';
import type { RevocationList } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import type { IdentitySeed } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { ConcurrencyMemory } from '@mtls-edge-proxy/gate/memory/concurrency.ts';
import type { LimiterMemory } from '@mtls-edge-proxy/gate/memory/limiter.ts';
import type { LogRecord } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { PemMaterial, TlsVersion } from '@mtls-edge-proxy/gate/shared/pem-material.ts';
import type { BalancingSettings } from '../gates/balancing/settings.ts';
import type { OpeningRule } from '../gates/breaker.ts';
import type { ForwardingSeed } from '../gates/forwarding.ts';
import type { CertificateHeadersSeed } from '../identity/certificate-headers.ts';
import type { CrlSeed } from '../identity/client-chain.ts';
import type { RouteAccessSeed } from '../identity/route-access.ts';
import type { BucketLayout } from '../memory/bucket-counts.ts';
import type { BudgetMemory } from '../memory/budget.ts';
import type { FleetMemory } from '../memory/fleet/fleet-limiter.ts';
import type { Region } from '../memory/region.ts';
import type { TenantSharesMemory } from '../memory/tenant-shares.ts';
import type { Limits, RequestLimitsSeed } from './limits.ts';
import type { SpanRecord } from './span-record.ts';

/**
 * Everything that the control plane (main thread) and the data plane (worker threads) say to each other. Neither
 * imports the other; they meet here.
 */

/** The material of the TLS listener, validated by the control plane. */
export interface TlsMaterial extends PemMaterial {
	/** What is asked of clients' certificates beyond a valid chain; absent: nothing. */
	readonly clients?: ClientRules | undefined;
}

/** What ends clients' certificates, and their connections, before their time or at it. */
export interface ClientRules {
	/** Verified ones. */
	readonly crls: readonly CrlSeed[];
	/** Clients whose issuer has no fresh CRL are refused. */
	readonly crlRequired: boolean;
	/** By hand; its tokens and tenants go with it. */
	readonly revoked: RevocationList;
	readonly endAtExpiry: boolean;
	readonly endAtCaRemoval: boolean;
}

/** One address of an upstream, as a worker sees it. */
export interface EndpointSeed {
	/** `host:port`, the metric label. */
	readonly authority: string;
	readonly host: string;
	readonly port: number;
	/** The `Host` header, if it is not `authority`. */
	readonly hostField?: string | undefined;
	/** Of its `[[upstreams]]`; `undefined`: a route's URL. */
	readonly group: string | undefined;
	/** The same in every worker. */
	readonly place: EndpointPlace;
	/** For `UpstreamLoad`: connections, idle ones included; the same memory in every worker. */
	readonly connections: Region;
	/** Tells breakers apart. The memory cannot: each message wraps it in a new object. */
	readonly breakerId: number;
	/** For `BreakerCell`, all but its state; the same memory in every worker. */
	readonly breaker: Region;
	/** For `UpstreamStats`; this worker's own. */
	readonly stats: Region;
	/** For `BucketCounts`; the same memory in every worker. */
	readonly durations: Region;
	/** `undefined`: HTTP/1.1. */
	readonly protocol?: UpstreamProtocol | undefined;
	/** How long an idle connection is kept, ms. */
	readonly idleTimeoutMs: number;
	/** Time limit of connecting, ms; `undefined`: that of the request. */
	readonly connectTimeoutMs?: number | undefined;
}

/** What is spoken to an endpoint; `h2` by prior knowledge in the clear, by ALPN over TLS; `auto`: what it chooses by ALPN. */
export const UPSTREAM_PROTOCOLS = ['http/1.1', 'h2', 'auto'] as const;
export type UpstreamProtocol = (typeof UPSTREAM_PROTOCOLS)[number];

/** What is looked at of many endpoints, for one that gets the request, lies side by side. */
export interface EndpointPlace {
	/** For `BreakerCell`. */
	readonly states: Region;
	/** For `UpstreamLoad`: requests under way. */
	readonly loads: Region;
	/** Index in both. */
	readonly at: number;
}

/** TLS to the addresses of one upstream: PEM texts, validated by the control plane. */
export interface UpstreamTlsSeed {
	/** CAs; `undefined`: those that Node trusts. */
	readonly ca: string | undefined;
	/** What we show; both or neither. */
	readonly cert: string | undefined;
	readonly key: string | undefined;
	/** What the certificate must name, and SNI asks for: a host name or an IP literal; `undefined`: the host of each address. */
	readonly serverName: string | undefined;
	/** `undefined`: 1.2. */
	readonly minVersion: TlsVersion | undefined;
	/** `false`: its certificate may be anybody's. */
	readonly verify: boolean;
}

/** The addresses among which a route's requests are spread. */
export interface UpstreamSeed {
	/** `undefined`: a route's URL. */
	readonly name: string | undefined;
	/** `undefined`: plain HTTP. */
	readonly tls?: UpstreamTlsSeed | undefined;
	/** Indexes into `upstreams`. */
	readonly endpoints: readonly number[];
	/** Of each of them, in the same order. */
	readonly weights: readonly number[];
	readonly balancing: BalancingSettings;
	/** `undefined`: no queue, and no request waits. */
	readonly limits?: UpstreamLimits | undefined;
	/** The same memory in every worker; present if there are `limits`. */
	readonly waiting?: PendingQueueSeed | undefined;
}

/** What an endpoint may have at once, across threads. */
export interface UpstreamLimits {
	/** Requests under way at each address; `undefined`: no limit. */
	readonly maxRequests: number | undefined;
	/** Connections to each address, idle ones included; `undefined`: no limit. */
	readonly maxConnections: number | undefined;
	/** Requests that may wait for any of its addresses. */
	readonly queue: number;
	/** How long each of them may wait, ms. */
	readonly queueTimeoutMs: number;
}

/** For `PendingQueue`. */
export interface PendingQueueSeed {
	/** For `UpstreamLoad`: who waits. */
	readonly count: Region;
	/** For `QueueClaims`. */
	readonly claims: Region;
	/** For `WakeUp`. */
	readonly freed: Region;
	readonly wanted: Region;
	/** For `QueueStats`. */
	readonly stats: Region;
}

export interface RouteSeed {
	readonly prefix: string;
	/** Its endpoint takes paths in any letter case for the same path. */
	readonly caseInsensitive?: boolean | undefined;
	/** Trailers of its requests and responses pass. */
	readonly trailers: boolean;
	readonly cooldownMs: number;
	readonly opening: OpeningRule;
	/** For each tenant, in addition to its own; `undefined`: none. */
	readonly rate?: RateSeed | undefined;
	/** Index into `upstreams`. */
	readonly upstream: number;
	/** Its callers; `undefined`: any caller with a valid token. */
	readonly access?: RouteAccessSeed | undefined;
	/** Fields about the client's certificate for the endpoint; `undefined`: none. */
	readonly certificateHeaders?: CertificateHeadersSeed | undefined;
	/** Changes to a request on its way there; `undefined`: only those that all requests get. */
	readonly forwarding?: ForwardingSeed | undefined;
	/** `undefined`: those of all. */
	readonly requestLimits?: RequestLimitsSeed | undefined;
	/** `undefined`: it takes no WebSockets. */
	readonly webSocket?: WebSocketSeed | undefined;
	/** For `RouteStats`; the same memory in every worker. */
	readonly stats: Region;
}

/** What bounds the WebSockets of a route. */
export interface WebSocketSeed {
	/** They end when their token expires. */
	readonly endsAtExpiry: boolean;
	/** Limit of a client's messages; `undefined`: none. */
	readonly messagesPerSec: number | undefined;
	/** How long a tunnel may be idle, ms. */
	readonly idleMs: number;
}

export interface RoutingSeed {
	readonly endpoints: readonly EndpointSeed[];
	readonly upstreams: readonly UpstreamSeed[];
	readonly routes: readonly RouteSeed[];
}

/** What is said about requests, apart from `RUST_LOG`. */
export interface LogSettings {
	/** The access log: nothing, what was refused or went wrong, or each request. */
	readonly access: 'off' | 'errors' | 'all';
	/** Requests get a trace's and a request's identifier if they bring none. */
	readonly requestId: boolean;
}

/** What workers need to know of `[trace]`. */
export interface TraceSettings {
	/** The fraction of the traces beginning here that is sampled, 0 to 1. */
	readonly ratio: number;
	/** Whether spans name tenants. */
	readonly tenants: boolean;
	/** Spans that may wait for the collector, of all workers. */
	readonly maxQueueSpans: number;
}

/** Whose connections begin with a PROXY header, and how long it may take. */
export interface ProxyProtocolSettings {
	/** Addresses and ranges in CIDR notation (`AddressRanges`). */
	readonly from: readonly string[];
	readonly timeoutMs: number;
}

/** The histograms that never forget, for `BucketCounts`. */
export interface HistogramsSeed {
	/** Of round trips to endpoints; their memory is each endpoint's. */
	readonly upstream: BucketLayout;
	readonly handshake: BucketLayout;
	readonly gate: BucketLayout;
	/** The same memory in every worker. */
	readonly handshakes: Region;
	readonly gates: Region;
}

/** `workerData`: all that a worker needs to serve. */
export interface WorkerSeed {
	/** 0-based, stable over replacement. */
	readonly index: number;
	/** Workers in all. */
	readonly workers: number;
	/** Zero of the monotonic clock, `process.hrtime.bigint()` of the main thread. */
	readonly clockEpoch: bigint;
	readonly bind: { readonly host: string; readonly port: number };
	/** Several workers share the port (`SO_REUSEPORT`). */
	readonly reusePort: boolean;
	/** `undefined`: no peer sends it. */
	readonly proxyProtocol?: ProxyProtocolSettings | undefined;
	readonly limits: Limits;
	/** For tenants without a rate of their own; 0: no limit. */
	readonly tenantRps: number;
	readonly identity: IdentitySeed;
	readonly tls: TlsMaterial;
	readonly routing: RoutingSeed;
	readonly limiter: LimiterMemory;
	/** Present if limits are shared with other replicas. */
	readonly fleet?: FleetMemory | undefined;
	readonly concurrency: ConcurrencyMemory;
	/** Secret of the process: tenants are keyed by a hash that is unpredictable outside. */
	readonly tenantSecret: Uint8Array;
	readonly bufferedBytes: BudgetMemory;
	/** What each tenant holds of `bufferedBytes`; `undefined` when one may hold all. */
	readonly tenantShares: TenantSharesMemory | undefined;
	readonly connections: BudgetMemory;
	readonly stats: Region;
	readonly histograms: HistogramsSeed;
	/** `RUST_LOG`; workers filter before they send. */
	readonly logFilter: string;
	readonly log: LogSettings;
	/** `undefined`: nothing is traced. */
	readonly trace?: TraceSettings | undefined;
}

/**
 * To a worker. `prepare-*` asks whether it could switch; nothing changes until `commit`, which cannot fail; `discard`
 * forgets what was prepared. So all workers switch or none does.
 */
export type ToWorker =
	| { readonly type: 'prepare-tls'; readonly id: number; readonly tls: TlsMaterial }
	| { readonly type: 'prepare-routing'; readonly id: number; readonly routing: RoutingSeed }
	| { readonly type: 'prepare-identity'; readonly id: number; readonly identity: IdentitySeed }
	| { readonly type: 'commit'; readonly id: number }
	| { readonly type: 'discard'; readonly id: number }
	/** Stop accepting, then say `closed`. */
	| { readonly type: 'stop-accepting' }
	/** Tell the clients, let what is in flight finish, then say `drained`. */
	| { readonly type: 'drain' }
	/** So many bytes of access lines have been written, or will never be. */
	| { readonly type: 'access-lines-written'; readonly bytes: number }
	/** So many of its spans have been exported, or given up. */
	| { readonly type: 'spans-done'; readonly count: number };

export type FromWorker =
	/** It accepts connections; `port` is the real one. */
	| { readonly type: 'listening'; readonly port: number }
	/** It cannot listen; it will not try again. */
	| { readonly type: 'listen-failed'; readonly code: string; readonly message: string }
	| { readonly type: 'prepared'; readonly id: number }
	| { readonly type: 'refused'; readonly id: number; readonly message: string }
	| { readonly type: 'committed'; readonly id: number }
	| { readonly type: 'closed' }
	| { readonly type: 'drained' }
	/** A token of this issuer names a key that is not among those known; sent seldom (`data/records/unknown-keys.ts`). */
	| { readonly type: 'unknown-key'; readonly issuer: string }
	| { readonly type: 'log'; readonly record: LogRecord }
	/** Lines in ASCII, ready to write, and how many were dropped before them. `access-lines-written` follows. */
	| { readonly type: 'access-lines'; readonly lines: string; readonly dropped: number }
	/** Requests that were sampled and are over. `spans-done` follows. */
	| { readonly type: 'spans'; readonly spans: readonly SpanRecord[] };
