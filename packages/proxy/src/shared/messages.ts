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
 * All messages between the control plane (main thread) and the data plane (worker threads). Neither imports the other; they meet
 * here.
 */

/** The material of the TLS listener, validated by the control plane. */
export interface TlsMaterial extends PemMaterial {
	/** What clients' certificates must satisfy beyond a valid chain; absent: nothing. */
	readonly clients?: ClientRules | undefined;
}

/** What invalidates clients' certificates and ends their connections. */
interface ClientRules {
	/** With verified signatures. */
	readonly crls: readonly CrlSeed[];
	/** Clients whose issuer has no fresh CRL are refused. */
	readonly crlRequired: boolean;
	/** Revoked by the operator: certificates, tokens and tenants. */
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
	/** Name of its `[[upstreams]]`; `undefined`: a route's URL. */
	readonly group: string | undefined;
	/** The same in every worker. */
	readonly place: EndpointPlace;
	/** For `UpstreamLoad`: connections, idle ones included; the same memory in every worker. */
	readonly connections: Region;
	/** Identifies the breaker. Its memory cannot: each message wraps it in a new object. */
	readonly breakerId: number;
	/** For `BreakerCell`, all of it except the state; the same memory in every worker. */
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

/** The protocol for an endpoint. `h2`: by prior knowledge in the clear, by ALPN over TLS. `auto`: the endpoint chooses by ALPN. */
export const UPSTREAM_PROTOCOLS = ['http/1.1', 'h2', 'auto'] as const;
export type UpstreamProtocol = (typeof UPSTREAM_PROTOCOLS)[number];

/** The part of an endpoint's memory that balancing reads for all endpoints, so it is contiguous. */
export interface EndpointPlace {
	/** For `BreakerCell`. */
	readonly states: Region;
	/** For `UpstreamLoad`: requests in flight. */
	readonly loads: Region;
	/** Index in both. */
	readonly at: number;
}

/** TLS to the addresses of one upstream: PEM texts, validated by the control plane. */
export interface UpstreamTlsSeed {
	/** CAs; `undefined`: those that Node trusts. */
	readonly ca: string | undefined;
	/** The proxy's client certificate; both or neither. */
	readonly cert: string | undefined;
	readonly key: string | undefined;
	/** The name for SNI that the certificate must have: a host name or an IP literal; `undefined`: the host of each address. */
	readonly serverName: string | undefined;
	/** `undefined`: 1.2. */
	readonly minVersion: TlsVersion | undefined;
	/** `false`: any certificate is accepted. */
	readonly verify: boolean;
}

/** The addresses that share a route's requests. */
export interface UpstreamSeed {
	/** `undefined`: a route's URL. */
	readonly name: string | undefined;
	/** `undefined`: plain HTTP. */
	readonly tls?: UpstreamTlsSeed | undefined;
	/** Indexes into `upstreams`. */
	readonly endpoints: readonly number[];
	/** Of the endpoints, in the same order. */
	readonly weights: readonly number[];
	readonly balancing: BalancingSettings;
	/** `undefined`: no queue, and no request waits. */
	readonly limits?: UpstreamLimits | undefined;
	/** The same memory in every worker; present if there are `limits`. */
	readonly waiting?: PendingQueueSeed | undefined;
}

/** Limits of each endpoint, across threads. */
export interface UpstreamLimits {
	/** Requests in flight at each address; `undefined`: no limit. */
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
	/** For `UpstreamLoad`: pending requests. */
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
	/** Path prefix, begins with `/`, matched on a path-segment boundary. */
	readonly prefix: string;
	/** The upstream ignores letter case in paths. */
	readonly caseInsensitive?: boolean | undefined;
	/** Whether trailers of requests and responses are forwarded. */
	readonly trailers: boolean;
	/** Breaker cooldown in ms, at least 1000. */
	readonly cooldownMs: number;
	/** What opens the breaker. */
	readonly opening: OpeningRule;
	/** Rate of each tenant on this route, in addition to the tenant's own rate; `undefined`: none. */
	readonly rate?: RateSeed | undefined;
	/** Index into `upstreams`. */
	readonly upstream: number;
	/** Who may use it; `undefined`: any caller with a valid token. */
	readonly access?: RouteAccessSeed | undefined;
	/** Header fields about the client's certificate for the upstream; `undefined`: none. */
	readonly certificateHeaders?: CertificateHeadersSeed | undefined;
	/** Changes to a request for the upstream; `undefined`: only those that all requests get. */
	readonly forwarding?: ForwardingSeed | undefined;
	/** `undefined`: those of `[limits]`. */
	readonly requestLimits?: RequestLimitsSeed | undefined;
	/** `undefined`: it takes no WebSockets. */
	readonly webSocket?: WebSocketSeed | undefined;
	/** For `RouteStats`; the same memory in every worker. */
	readonly stats: Region;
}

/** Limits of the WebSockets of a route. */
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

/** Settings of the access log and of identifiers, apart from `RUST_LOG`. */
interface LogSettings {
	/** The access log: no requests, refused and failed ones, or all. */
	readonly access: 'off' | 'errors' | 'all';
	/** Requests without identifiers of trace and request get new ones. */
	readonly requestId: boolean;
}

/** The part of `[trace]` that workers need. */
interface TraceSettings {
	/** The sampled fraction of the traces that begin here, 0 to 1. */
	readonly ratio: number;
	/** Whether spans name tenants. */
	readonly tenants: boolean;
	/** Spans of all workers that may wait for the collector. */
	readonly maxQueueSpans: number;
}

/** Which peers begin their connections with a PROXY header, and how long it may take. */
interface ProxyProtocolSettings {
	/** Addresses and ranges in CIDR notation (`AddressRanges`). */
	readonly from: readonly string[];
	readonly timeoutMs: number;
}

/** The cumulative histograms, for `BucketCounts`. */
export interface HistogramsSeed {
	/** Round trips to endpoints; each endpoint has its own memory for them. */
	readonly upstream: BucketLayout;
	readonly handshake: BucketLayout;
	readonly gate: BucketLayout;
	/** The same memory in every worker. */
	readonly handshakes: Region;
	readonly gates: Region;
}

/** `workerData`: everything that a worker needs to serve. */
export interface WorkerSeed {
	/** 0-based; a replacement keeps the index. */
	readonly index: number;
	/** Number of workers. */
	readonly workers: number;
	/** Zero of the monotonic clock, `process.hrtime.bigint()` of the main thread. */
	readonly clockEpoch: bigint;
	readonly bind: { readonly host: string; readonly port: number };
	/** Several workers share the port (`SO_REUSEPORT`). */
	readonly reusePort: boolean;
	/** `undefined`: no peer sends PROXY headers. */
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
	/** Secret of the process: it makes the hash of tenants unpredictable for others. */
	readonly tenantSecret: Uint8Array;
	readonly bufferedBytes: BudgetMemory;
	/** Each tenant's part of `bufferedBytes`; `undefined`: one tenant may hold all of it. */
	readonly tenantShares: TenantSharesMemory | undefined;
	readonly connections: BudgetMemory;
	readonly stats: Region;
	readonly histograms: HistogramsSeed;
	/** `RUST_LOG`: workers filter log lines before they send them. */
	readonly logFilter: string;
	readonly log: LogSettings;
	/** `undefined`: nothing is traced. */
	readonly trace?: TraceSettings | undefined;
}

/**
 * To a worker. `prepare-*` asks whether it could switch. Nothing changes until `commit`, which cannot fail; `discard` drops the
 * prepared state. So either all workers switch or none does.
 */
export type ToWorker =
	| { readonly type: 'prepare-tls'; readonly id: number; readonly tls: TlsMaterial }
	| { readonly type: 'prepare-routing'; readonly id: number; readonly routing: RoutingSeed }
	| { readonly type: 'prepare-identity'; readonly id: number; readonly identity: IdentitySeed }
	| { readonly type: 'commit'; readonly id: number }
	| { readonly type: 'discard'; readonly id: number }
	/** Stop accepting, then send `closed`. */
	| { readonly type: 'stop-accepting' }
	/** Tell the clients, let requests in flight finish, then send `drained`. */
	| { readonly type: 'drain' }
	/** End the requests that are left: the drain has reached its limit. */
	| { readonly type: 'cut' }
	/** This many bytes of access lines have been written or dropped. */
	| { readonly type: 'access-lines-written'; readonly bytes: number }
	/** This many of its spans have been exported or given up. */
	| { readonly type: 'spans-done'; readonly count: number };

export type FromWorker =
	/** It accepts connections on `port`, the actual one. */
	| { readonly type: 'listening'; readonly port: number }
	/** It cannot listen; it will not try again. */
	| { readonly type: 'listen-failed'; readonly code: string; readonly message: string }
	| { readonly type: 'prepared'; readonly id: number }
	| { readonly type: 'refused'; readonly id: number; readonly message: string }
	| { readonly type: 'committed'; readonly id: number }
	| { readonly type: 'closed' }
	| { readonly type: 'drained' }
	/** A token of this issuer names an unknown key; rate-limited (`data/records/unknown-keys.ts`). */
	| { readonly type: 'unknown-key'; readonly issuer: string }
	| { readonly type: 'log'; readonly record: LogRecord }
	/** Complete lines in ASCII, and how many were dropped before them. The main thread answers `access-lines-written`. */
	| { readonly type: 'access-lines'; readonly lines: string; readonly dropped: number }
	/** Spans of finished requests. The main thread answers `spans-done`. */
	| { readonly type: 'spans'; readonly spans: readonly SpanRecord[] };
