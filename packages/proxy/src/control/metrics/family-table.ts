import { RATE_LIMIT_REASONS } from '@mtls-edge-proxy/gate/gates/quota.ts';
import { HANDSHAKE_REFUSALS } from '../../identity/handshake-refusals.ts';
import { QUEUE_RESULTS } from '../../memory/queue-stats.ts';
import { CLIENT_PROTOCOLS } from '../../memory/route-stats.ts';
import { CIRCUIT_NAMES, TRANSITIONS } from '../../memory/transition-counts.ts';
import { RETRY_REASONS } from '../../memory/upstream-stats.ts';
import {
	CONNECTION_ENDS,
	CONNECTION_REFUSALS,
	FORBIDDEN_REASONS,
	HTTP2_ERROR_REASONS,
	HTTP2_STREAM_ERROR_REASONS,
	TLS_GROUPS,
	TLS_VERSIONS,
	TUNNEL_ENDS,
} from '../../memory/worker-stats.ts';
import { EXPIRING_KINDS } from '../facts/certificates.ts';
import { RELOADED_PARTS } from '../reload/journal.ts';
import { STORE_FAILURES } from '../store/failure.ts';
import type { FamilyDescription, MetricType } from './exposition.ts';

/**
 * Every family of the page: the one source of its HELP and TYPE, and of the table in the documentation. The first ones are a
 * contract: their names, types and labels stay as they are.
 */

const UPSTREAM = 'host:port';
const GROUP = 'name of its [[upstreams]], if it is in one';
const ROUTE = 'prefix of the route; absent without a route, or before it is known';
const WORKER = 'index of the worker, from 0';
const OF_ENDPOINT = { upstream: UPSTREAM, group: GROUP } as const;
const OF_ROUTE = { route: ROUTE, protocol: CLIENT_PROTOCOLS } as const;
const OF_ISSUER = { issuer: 'as in the configuration' } as const;
const OF_DNS = { group: 'name of the [[upstreams]] with `dns`' } as const;
const OF_QUEUE = { group: 'name of the [[upstreams]] that has limits' } as const;
const BY_PROTOCOL = { protocol: CLIENT_PROTOCOLS } as const;
export const RESULTS = ['success', 'failure'] as const;
const REASONS_OF_TRANSITIONS = [...new Set(TRANSITIONS.map(({ reason }) => reason))];

const counter = kind('counter');
const gauge = kind('gauge');
const summary = kind('summary');
const histogram = kind('histogram');
const info = kind('info');

export const FAMILIES = {
	requests: counter(
		'proxy_requests_total',
		'Responses to clients, by status and, if an upstream was chosen, by upstream.',
		{
			status: 'HTTP status',
			upstream: `${UPSTREAM}, if one was chosen`,
			group: GROUP,
		},
	),
	requestDuration: summary(
		'proxy_request_duration_seconds',
		'Time from sending a request to the end of its response (streaming mode: to its head). Quantiles over the last minute.',
		OF_ENDPOINT,
	),
	authFailures: counter('proxy_auth_failures_total', 'Requests without a valid token.', {
		reason: ['missing', 'invalid'],
	}),
	rateLimited: counter('proxy_ratelimited_total', "Requests over their tenant's limit."),
	handshakeSummary: summary(
		'proxy_tls_handshake_seconds',
		'Successful TLS handshakes, from accept or the end of a PROXY header. Quantiles over the last minute.',
	),
	handshakeFailures: counter(
		'proxy_tls_handshake_failures_total',
		'Connections closed because their TLS handshake failed or took too long.',
	),
	circuitState: gauge('proxy_circuit_state', 'Circuit breaker: 0 closed, 1 open, 2 half-open.', OF_ENDPOINT),
	upstreamAlive: gauge('proxy_upstream_alive', 'Last health probe: 1 passed, 0 failed or no probe yet.', {
		upstream: `${UPSTREAM}; only with probes`,
		group: GROUP,
	}),
	upstreamLastProbe: gauge(
		'proxy_upstream_last_probe',
		'Last health probe: 1 passed, 0 failed. The labels name the result and the remedy.',
		{ ...OF_ENDPOINT, outcome: 'the result', remedy: 'the remedy; empty after a pass' },
	),
	upstreamDuration: histogram(
		'proxy_upstream_duration_seconds',
		'The round trips of proxy_request_duration_seconds, since startup, in the buckets that [metrics] buckets sets.',
		OF_ENDPOINT,
	),
	gateDuration: histogram(
		'proxy_gate_duration_seconds',
		'Time from the complete head of a request until it is sent, without the upload of a collected body. Buckets: [metrics] gate_buckets.',
	),
	requestsInFlight: gauge(
		'proxy_requests_in_flight',
		'Requests with a complete head whose response has not been sent completely.',
		OF_ROUTE,
	),
	requestBodyBytes: counter(
		'proxy_request_body_bytes_total',
		'Bytes of request bodies read from clients, without heads, framing and TLS. A collected body counts when its request ends.',
		OF_ROUTE,
	),
	responseBodyBytes: counter(
		'proxy_response_body_bytes_total',
		"Bytes of response bodies written to client connections, including the proxy's own responses, without heads, framing and TLS.",
		OF_ROUTE,
	),
	forbidden: counter(
		'proxy_forbidden_total',
		'Requests that may not use their route, because of the certificate, the tenant or the scopes.',
		{ reason: FORBIDDEN_REASONS },
	),
	rateLimitRefusals: counter(
		'proxy_ratelimit_refusals_total',
		'Requests over a limit, by limit. Their sum is proxy_ratelimited_total.',
		{ reason: RATE_LIMIT_REASONS },
	),
	rateLimitSlotsInUse: gauge(
		'proxy_ratelimit_slots_in_use',
		'Slots of the limiter in use, each by a tenant whose bucket is not full. The other slots are free.',
	),
	rateLimitSlots: gauge('proxy_ratelimit_slots', 'Slots of the limiter in total.'),
	storeUp: gauge(
		'proxy_limiter_store_up',
		'1: limits are shared through the store; 0: the store, or a part of it, is unavailable, and on_store_failure applies.',
	),
	storeCalls: counter('proxy_limiter_store_calls_total', 'Round trips to the store of the shared limits, by result.', {
		result: ['success', ...STORE_FAILURES],
	}),
	storeReplicas: gauge('proxy_limiter_replicas', 'Replicas that share the limits, as last seen, this one included.'),
	storeDelay: gauge(
		'proxy_limiter_settle_seconds',
		"Longest recent delay until this replica applied the store's reply to a request. The excess over a limit grows with it.",
	),
	storeRevocations: gauge(
		'proxy_limiter_store_revocations',
		'Revocations from the store that are in force, without those of revoked_path; only with [limiter] revocations.',
	),
	tokenCache: counter(
		'proxy_token_cache_lookups_total',
		'Lookups of tokens in the cache of verified tokens. After a miss the token was verified.',
		{ result: ['hit', 'miss'] },
	),
	handshakeDuration: histogram(
		'proxy_tls_handshake_duration_seconds',
		'The handshakes of proxy_tls_handshake_seconds, since the start; buckets by [metrics] buckets.',
	),
	handshakeRefusals: counter(
		'proxy_tls_handshake_refusals_total',
		'Failed handshakes, by reason. Their sum is proxy_tls_handshake_failures_total.',
		{ reason: HANDSHAKE_REFUSALS },
	),
	handshakesAgreed: counter(
		'proxy_tls_handshakes_total',
		'Handshakes that succeeded, by protocol version and key-exchange group.',
		{ version: TLS_VERSIONS, group: TLS_GROUPS },
	),
	certificateExpiry: gauge(
		'proxy_certificate_expiry_timestamp_seconds',
		'When the certificates in force expire (notAfter) and the next CRLs are due (nextUpdate), in seconds since the epoch.',
		{
			kind: EXPIRING_KINDS,
			subject: 'distinguished name; for a CRL, that of its CA',
			serial: 'hexadecimal; absent for a CRL',
		},
	),
	crlNextUpdate: gauge(
		'proxy_crl_next_update_seconds',
		'Seconds until the next CRL of a CA is due, negative if late. If several CAs have the same name, the earliest date counts.',
		{ issuer: 'distinguished name of the CA' },
	),
	circuitTransitions: counter(
		'proxy_circuit_transitions_total',
		'Transitions of the circuit breaker, by new state and reason.',
		{ ...OF_ENDPOINT, to: CIRCUIT_NAMES, reason: REASONS_OF_TRANSITIONS },
	),
	connections: gauge('proxy_connections', 'Client connections, by the protocol they speak or are still negotiating.', {
		protocol: ['handshake', ...CLIENT_PROTOCOLS],
	}),
	connectionsLimit: gauge('proxy_connections_limit', 'Client connections that may be open at the same time.'),
	connectionsRefused: counter(
		'proxy_connections_refused_total',
		'Client connections closed before their handshake, because of max_connections or a lack of file descriptors.',
		{ reason: CONNECTION_REFUSALS },
	),
	connectionsEnded: counter(
		'proxy_connections_ended_total',
		'Client connections ended because of their certificate (revoked, expired, its CA removed), or their age.',
		{ reason: CONNECTION_ENDS },
	),
	tunnelsOpen: gauge('proxy_tunnels_open', 'Open WebSockets. Each is also a request in flight.', BY_PROTOCOL),
	tunnelEnds: counter('proxy_tunnel_ends_total', 'Ended WebSockets, by the cause of the end.', {
		reason: TUNNEL_ENDS,
	}),
	readsDelayed: counter(
		'proxy_reads_delayed_total',
		'Times that the proxy delayed reading from a client, because its connection and its certificate had used up their share of a worker.',
		BY_PROTOCOL,
	),
	http2ConnectionErrors: counter(
		'proxy_http2_connection_errors_total',
		'HTTP/2 connections that the proxy ended because of a client error, by error.',
		{ reason: HTTP2_ERROR_REASONS },
	),
	http2StreamErrors: counter(
		'proxy_http2_stream_errors_total',
		'HTTP/2 streams that the proxy reset because of a client error, by error. Their connections stayed open.',
		{ reason: HTTP2_STREAM_ERROR_REASONS },
	),
	upstreamConnections: gauge(
		'proxy_upstream_connections',
		'Connections to upstreams, in use or waiting for the next request.',
		{ ...OF_ENDPOINT, state: ['active', 'idle'] },
	),
	grpcResponses: counter(
		'proxy_grpc_responses_total',
		'Responses of upstreams to gRPC calls, by grpc-status. Refusals of the proxy are not included.',
		{ ...OF_ENDPOINT, code: '`grpc-status`; an invalid value counts as 2' },
	),
	upstreamStreams: gauge(
		'proxy_upstream_streams',
		'Requests in flight at upstreams over HTTP/2. One connection carries several.',
		OF_ENDPOINT,
	),
	upstreamRetries: counter(
		'proxy_upstream_retries_total',
		'Retries, by the upstream that failed first. stale: idle connection closed; refused: stream refused; unanswered, broken: closed before or during the response.',
		{ ...OF_ENDPOINT, reason: RETRY_REASONS },
	),
	upstreamRetriesDenied: counter(
		'proxy_upstream_retries_denied_total',
		'Retries that the retry budget prevented: a fifth of the requests had been retries already.',
		{ upstream: UPSTREAM, group: 'name of its [[upstreams]]' },
	),
	bodyMemory: gauge('proxy_body_memory_bytes', 'Memory that the bodies of all tenants currently hold.'),
	bodyMemoryLimit: gauge('proxy_body_memory_limit_bytes', 'Memory that bodies may hold (limits.max_buffered_bytes).'),
	accessLogDropped: counter(
		'proxy_access_log_dropped_total',
		'Lines missing from the access log, because its reader did not keep up, or because a write failed, as on a full disk.',
	),
	spans: counter(
		'proxy_trace_spans_total',
		'Spans of sampled requests. dropped: too many spans were waiting for the collector. failed: the collector did not accept them.',
		{ result: ['exported', 'dropped', 'failed'] },
	),
	jwksFetches: counter('proxy_jwks_fetches_total', 'Fetches of key sets over the network. success: a usable set.', {
		...OF_ISSUER,
		result: RESULTS,
	}),
	jwksKeys: gauge('proxy_jwks_keys', 'Usable keys of the last good set; 0 before the first one.', OF_ISSUER),
	jwksAge: gauge('proxy_jwks_age_seconds', 'Time since the last good set was fetched.', OF_ISSUER),
	queueLength: gauge(
		'proxy_upstream_queue_length',
		'Requests that wait because all addresses of their upstream are at max_requests or max_connections.',
		OF_QUEUE,
	),
	queued: counter(
		'proxy_upstream_queued_total',
		'Requests whose upstream was at its limits. full, timeout: refused by the queue; unavailable: by the breakers; gone: the client had left.',
		{ ...OF_QUEUE, result: QUEUE_RESULTS },
	),
	dnsLookups: counter(
		'proxy_dns_lookups_total',
		'DNS lookups of the addresses of an upstream. success: the answer has all of them.',
		{ ...OF_DNS, result: RESULTS },
	),
	dnsAddresses: gauge('proxy_dns_addresses', 'Addresses of the last good answer; 0 before the first one.', OF_DNS),
	dnsAge: gauge('proxy_dns_age_seconds', 'Time since the last good answer.', OF_DNS),
	workers: gauge('proxy_workers', 'Worker threads that accept connections.'),
	loopUtilization: gauge(
		'proxy_worker_event_loop_utilization_ratio',
		"Share of the last quarter of a second in which the worker's event loop was busy; 1 while it is stuck.",
		{ worker: WORKER },
	),
	loopTime: counter(
		'proxy_worker_event_loop_seconds_total',
		"Time of the worker's event loop, busy (active) or waiting for events (idle). The rate of the active time is the utilization.",
		{ worker: WORKER, state: ['active', 'idle'] },
	),
	loopDelay: gauge(
		'proxy_worker_event_loop_delay_seconds',
		"Delay of timers of the worker's event loop in the last 10 to 20 s.",
		{ worker: WORKER, stat: ['p50', 'p99', 'max'] },
	),
	buildInfo: info('proxy_build_info', 'Always 1; the labels say what is running.', {
		version: 'of the proxy',
		body_mode: ['collected', 'streaming'],
		node: 'version of Node.js',
	}),
	configGeneration: gauge(
		'proxy_config_generation',
		'Number of the configuration in force: 1 at startup, one more with each reload that applied a change.',
	),
	needsRestart: gauge(
		'proxy_config_needs_restart',
		'Changed settings that the last reload found in the file, and that only a restart applies.',
	),
	reloads: counter(
		'proxy_reloads_total',
		'Reloads. success: all changes are in force. failure: a part of the old state stays.',
		{ result: RESULTS },
	),
	reloadTimestamp: gauge(
		'proxy_reload_timestamp_seconds',
		'When each part of the configuration was last applied, or last failed to apply; seconds since the epoch.',
		{ part: RELOADED_PARTS, result: RESULTS },
	),
	processCpu: counter('process_cpu_seconds_total', 'User and system CPU time, in seconds.'),
	processCpuUser: counter('process_cpu_user_seconds_total', 'User CPU time, in seconds.'),
	processCpuSystem: counter('process_cpu_system_seconds_total', 'System CPU time, in seconds.'),
	processResident: gauge('process_resident_memory_bytes', 'Resident memory, in bytes.'),
	processVirtual: gauge('process_virtual_memory_bytes', 'Virtual memory, in bytes.'),
	processStart: gauge('process_start_time_seconds', 'Start of the process, in seconds since the epoch.'),
	processOpenFds: gauge('process_open_fds', 'Open file descriptors.'),
	processMaxFds: gauge('process_max_fds', 'Soft limit of open file descriptors.'),
	nodeVersion: info('nodejs_version_info', 'Always 1; the version of Node.js.', {
		version: 'v26.1.0',
		major: '26',
		minor: '1',
		patch: '0',
	}),
	nodeLoopLag: gauge('nodejs_eventloop_lag_seconds', "Delay of the main thread's event loop at this scrape."),
	nodeHeapUsed: gauge('nodejs_heap_size_used_bytes', 'Heap of the main thread in use, in bytes.'),
	nodeHeapTotal: gauge('nodejs_heap_size_total_bytes', 'Heap of the main thread, in bytes.'),
	nodeExternal: gauge(
		'nodejs_external_memory_bytes',
		"Memory outside the heap that the main thread's objects hold, in bytes.",
	),
} satisfies Readonly<Record<string, FamilyDescription>>;

/** A name ends with its unit. */
function kind(type: MetricType) {
	return <const Labels extends FamilyDescription['labels'] = Record<never, never>>(
		name: string,
		help: string,
		labels: Labels = {} as Labels,
	) => {
		const [, unit] = /_(seconds|bytes|ratio)(?:_total)?$/.exec(name) ?? [];
		return { name, type, help, labels, ...(unit !== undefined && { unit: unit as FamilyDescription['unit'] }) };
	};
}
