import type { OnStoreFailure } from '../../config/config.ts';
import type { GrpcStatusName } from '../../gates/grpc-status.ts';
import type { CircuitName } from '../../memory/transition-counts.ts';
import type { UpstreamChoice } from '../../memory/upstream-stats.ts';
import type { UpstreamProtocol } from '../../shared/messages.ts';
import type { Expiring } from '../facts/certificates.ts';
import type { ReloadedPart } from '../reload/journal.ts';
import type { ShareKind } from './shares.ts';

/**
 * The content of the status page and of `/status.json`, with that file's names (docs/reference/status.md). Durations are in seconds,
 * times are ISO 8601, and unknown values are `null`. While `schema` is 1, members may be added but never change their meaning.
 */
export interface Snapshot {
	readonly schema: 1;
	/** Time of the snapshot. */
	readonly at: string;
	/** Whether `problems` has neither an error nor a warning. */
	readonly well: boolean;
	/** The worst first. */
	readonly problems: readonly Problem[];
	readonly process: {
		/** Name of the machine or the container. */
		readonly host: string;
		readonly version: string;
		readonly body_mode: string;
		readonly node: string;
		readonly started_at: string;
		readonly uptime_seconds: number;
		/** Why `/readyz` answers 503; `null` if it does not. */
		readonly not_ready: string | null;
		readonly resident_bytes: number;
		readonly heap_used_bytes: number;
	};
	readonly traffic: Point & { readonly requests_total: number; readonly in_flight: number };
	/** What went wrong in the last minute. */
	readonly shares: readonly ShareStatus[];
	readonly upstreams: readonly UpstreamStatus[];
	/** `[[upstreams]]` with `dns`, also those without a known address. */
	readonly dns: readonly DnsStatus[];
	/** Refused requests and connections. Kinds without any are left out. */
	readonly refusals: readonly Count[];
	readonly handshakes: {
		readonly completed_total: number;
		readonly failed_total: number;
		/** Over the last minute. */
		readonly p50_seconds: number | null;
		readonly p99_seconds: number | null;
		readonly failures: readonly Count[];
	};
	readonly connections: {
		readonly handshaking: number;
		readonly http1: number;
		readonly h2: number;
		/** WebSockets that are open. */
		readonly websockets: number;
		readonly limit: number;
		readonly refused: readonly Count[];
		readonly ended: readonly Count[];
		/** What has ended WebSockets. */
		readonly websocket_ends: readonly Count[];
		readonly http2_errors: readonly Count[];
	};
	/** gRPC calls that upstreams have answered, by status; empty where there has been none. */
	readonly grpc: readonly GrpcStatus[];
	readonly certificates: readonly CertificateStatus[];
	readonly issuers: readonly IssuerStatus[];
	readonly workers: {
		readonly configured: number;
		readonly listening: number;
		readonly each: readonly WorkerStatus[];
	};
	readonly memory: readonly BudgetStatus[];
	readonly reloads: Outcomes & {
		readonly generation: number;
		/** The latest first. */
		readonly last: readonly ReloadStatus[];
		/** Changed settings that only a restart takes over, as the last reload found them: `tenant_rps (config.toml:3)`. */
		readonly needs_restart: readonly string[];
		/** When a reload found the first of them. */
		readonly needs_restart_since: string | null;
	};
	readonly log: {
		/** Lines that could not be written. */
		readonly lost_total: number;
		/** Until a write succeeds. */
		readonly failing_since: string | null;
		/** For example `ENOSPC` if the disk is full. */
		readonly cause: string | null;
	};
	/** `[limiter]`; `null` without it. */
	readonly shared_limits: SharedLimitsStatus | null;
	/** `[[tenants]]`; `null` without `[status] tenants = true`. */
	readonly tenants: readonly TenantStatus[] | null;
}

/** A snapshot before it is judged. */
export type Found = Omit<Snapshot, 'well' | 'problems'>;

export interface ShareStatus {
	readonly kind: ShareKind;
	/** In the last minute. */
	readonly count: number;
	/** Answers of any status, gRPC calls with a status, or handshakes that have ended. */
	readonly total: number;
	readonly last_ten_minutes: { readonly count: number; readonly total: number };
	/** From this share on it is a problem; 0: never. */
	readonly bound: number;
	/** Since when it is above its bound (`[status]`), at most ten minutes ago; `null`: it is below. */
	readonly over_since: string | null;
}

export interface UpstreamStatus extends Point {
	/** `host:port`. */
	readonly upstream: string;
	/** Name of its `[[upstreams]]`, if it is in one. */
	readonly group: string | null;
	/** How the group spreads its requests. */
	readonly balance: string | null;
	/** Its share of the group's requests, relative to the others. */
	readonly weight: number | null;
	/** The protocol towards it. */
	readonly protocol: UpstreamProtocol;
	/** With `auto`: what it chose in the last handshake of each worker that has a connection to it. `null`: not `auto`. */
	readonly chosen: readonly UpstreamChoice[] | null;
	/** Whether connections to it use TLS, and whether its certificate is verified then. */
	readonly tls: 'none' | 'verified' | 'not verified';
	/** Prefixes of its routes. */
	readonly routes: readonly string[];
	readonly breaker: {
		readonly state: CircuitName;
		/** When it became so. */
		readonly since: string | null;
		/** Why: one of the reasons of `proxy_circuit_transitions_total`. */
		readonly reason: string | null;
		/** The same in words, where they are known. */
		readonly cause: string | null;
		/** How often it has opened. */
		readonly opened_total: number;
	};
	readonly health: Health;
	/** When it became so; `null` before the first verdict. */
	readonly health_since: string | null;
	/** `null` before the first, and where health is not probed. */
	readonly last_probe: {
		readonly at: string;
		readonly passed: boolean;
		/** `GET /health answered 404`. */
		readonly found: string;
		/** The remedy; `null` if the probe has passed. */
		readonly remedy: string | null;
	} | null;
	readonly requests_total: number;
	/** Of these, those answered with 500 or more. */
	readonly errors_total: number;
	readonly connections: { readonly active: number; readonly idle: number };
	/** Requests in flight, where a connection carries several at once: HTTP/2. */
	readonly streams: number | null;
	/** gRPC calls that it has answered, by status; empty where there has been none. */
	readonly grpc: readonly GrpcCount[];
}

/** gRPC calls that ended with one status. */
export interface GrpcCount {
	readonly code: number;
	/** Its name. */
	readonly status: GrpcStatusName;
	/** Since the start. */
	readonly total: number;
	readonly last_ten_minutes: number;
}

/** The same of all upstreams. */
export interface GrpcStatus extends GrpcCount {
	/** Up to three, those with the most of them recently. */
	readonly upstreams: readonly string[];
	readonly upstreams_total: number;
}

export interface DnsStatus {
	/** Name of the `[[upstreams]]`. */
	readonly group: string;
	/** The `host:port` to look up. */
	readonly name: string;
	/** Prefixes of its routes. */
	readonly routes: readonly string[];
	/** In the last good answer; with 0 its requests get 503. */
	readonly addresses: number;
	/** Since the last good answer; `null` before there has been one. */
	readonly age_seconds: number | null;
	/** The first failure since then; `null`: the last answer was good, or there was none yet. */
	readonly failing_since: string | null;
	/** In a row. */
	readonly failures: number;
	/** Of the last failure, in words. */
	readonly cause: string | null;
}

export type Health = 'healthy' | 'unhealthy' | 'not probed yet' | 'not probed';

export interface Count {
	readonly reason: string;
	/** Of the answer, where there was one. */
	readonly status?: number;
	/** Since the start. */
	readonly total: number;
	readonly last_ten_minutes: number;
}

export interface CertificateStatus {
	readonly kind: Expiring['kind'];
	/** Of a CRL, the CA's name. */
	readonly subject: string;
	/** Empty for a CRL. */
	readonly serial: string;
	/** For a CRL, the time of its next update. */
	readonly not_after: string;
	/** Rounded down; negative after the expiry. */
	readonly days_left: number;
}

export interface IssuerStatus {
	/** `null`: any `iss`. */
	readonly issuer: string | null;
	readonly source: 'file' | 'network';
	readonly algorithms: readonly string[];
	/** Names of the keys; `null` for one without. */
	readonly keys: readonly (string | null)[];
	/** Since they were fetched; `null` for those of a file. */
	readonly age_seconds: number | null;
	readonly fetches: Outcomes | null;
}

interface Outcomes {
	readonly success_total: number;
	readonly failure_total: number;
}

export interface WorkerStatus {
	readonly worker: number;
	readonly connections: number;
	readonly in_flight: number;
	/** Share of the time in which its event loop was busy, from 0 to 1. */
	readonly utilization: number | null;
	/** By how much timers came too late. */
	readonly delay_p99_seconds: number | null;
}

export interface BudgetStatus {
	readonly name: 'request and answer bodies' | 'client connections';
	readonly unit: 'bytes' | 'connections';
	readonly used: number;
	readonly limit: number;
	/** The key of the configuration that sets it. */
	readonly key: string;
}

export interface ReloadStatus {
	readonly at: string;
	/** A part that is reloaded independently of the others. */
	readonly part: ReloadedPart;
	/** A signal, or `files changed`. */
	readonly asked: string;
	readonly outcome: 'success' | 'failure';
	/** Why it failed; `null` if it succeeded. */
	readonly cause: string | null;
	/** Number of the configuration in force afterwards. */
	readonly generation: number;
}

interface TenantStatus {
	readonly tenant: string;
	/** `null`: the limit for all tenants. */
	readonly requests_per_second: number | 'unlimited' | null;
	readonly burst: number | null;
	readonly concurrency: number | null;
	/** Counted only with a `concurrency`. */
	readonly in_flight: number | null;
}

export interface SharedLimitsStatus {
	readonly store: 'up' | 'unavailable';
	/** How long it has been in this state. */
	readonly for_seconds: number;
	readonly since: string;
	/** Why it is unavailable: one of the results of `proxy_limiter_store_calls_total`. */
	readonly reason: string | null;
	/** The same in words. */
	readonly cause: string | null;
	readonly on_store_failure: OnStoreFailure;
	/** As last seen, this one included. */
	readonly replicas: number;
	/** The longest of the last seconds from a request until the store's answer to it was in force here. */
	readonly settle_seconds: number;
	readonly calls: Outcomes;
	/** Current revocations from the store; `null`: revocations are not read from it. */
	readonly revocations: number | null;
}

/** The status for one reader: one page of the upstreams, each with its last ten minutes. */
export interface StatusPage extends Omit<Snapshot, 'upstreams'> {
	readonly upstreams: Page<UpstreamStatus & { readonly history: Chart | null }> & {
		/** Those of `total` whose breaker is closed and whose health check does not fail. */
		readonly healthy: number;
	};
	readonly history: Chart & { readonly seconds_between: number };
}

/** A problem in one sentence. */
export interface Problem {
	readonly severity: 'error' | 'warning';
	/** What, and how much of it. */
	readonly text: string;
	/** Since when, if known. */
	readonly since: string | null;
	/** What to look at, or to do. */
	readonly look: string;
	/** The part of the page's address that shows the affected items. */
	readonly link: string;
	/** The part of the page with the details. */
	readonly panel: Panel;
}

export type Panel =
	| 'upstreams'
	| 'dns'
	| 'refusals'
	| 'handshakes'
	| 'connections'
	| 'grpc'
	| 'certificates'
	| 'issuers'
	| 'workers'
	| 'memory'
	| 'reloads'
	| 'limits'
	| 'tenants';

/** The last point of a chart, and a share of all its points. */
export interface Point {
	/** Over the last ten seconds that are complete, as are the quantiles: of successful round trips to upstreams. */
	readonly requests_per_second: number | null;
	readonly p50_seconds: number | null;
	readonly p99_seconds: number | null;
	/** 5xx among the answers of the last ten minutes, from 0 to 1; `null` where there was none. */
	readonly error_share: number | null;
}

/** The last ten minutes, oldest first, one point every ten seconds; `null` where nothing is known. */
export interface Chart {
	readonly requests_per_second: readonly (number | null)[];
	/** Answers of 500 and above. */
	readonly errors_per_second: readonly (number | null)[];
	readonly p50_seconds: readonly (number | null)[];
	readonly p99_seconds: readonly (number | null)[];
}

/** A page of a longer list. */
export interface Page<Item> {
	readonly total: number;
	/** Items that match the filter. */
	readonly matching: number;
	/** From 1. */
	readonly page: number;
	readonly pages: number;
	readonly items: readonly Item[];
}
