import { RATE_LIMIT_REASONS } from '@mtls-edge-proxy/gate/gates/quota.ts';
import { HANDSHAKE_REFUSALS } from '../../identity/handshake-refusals.ts';
import { QUEUE_RESULTS } from '../../memory/queue-stats.ts';
import { CLIENT_PROTOCOLS } from '../../memory/route-stats.ts';
import {
	CONNECTION_ENDS,
	CONNECTION_REFUSALS,
	FORBIDDEN_REASONS,
	HTTP2_ERROR_REASONS,
	HTTP2_STREAM_ERROR_REASONS,
	RETRY_REASONS,
	TLS_GROUPS,
	TLS_VERSIONS,
	TUNNEL_ENDS,
} from '../../memory/stats.ts';
import { CIRCUIT_NAMES, TRANSITIONS } from '../../memory/transition-counts.ts';
import { EXPIRING_KINDS } from '../facts/certificates.ts';
import { RELOADED_PARTS } from '../reload/journal.ts';
import { STORE_FAILURES } from '../store/failure.ts';
import type { FamilyDescription, MetricType } from './exposition.ts';

/**
 * Every family of the page: the one source of its HELP and TYPE, and of the table in the documentation. The first ones are a
 * contract: their names, types and labels stay as they are.
 */

const UPSTREAM = 'host:port';
const GROUP = 'name of its [[upstreams]], where it is in one';
const ROUTE = 'prefix of the route; absent while none is known, and for what has none';
const WORKER = 'index of the worker, from 0';
export const RESULTS = ['success', 'failure'] as const;
const REASONS_OF_TRANSITIONS = [...new Set(TRANSITIONS.map(({ reason }) => reason))];

const counter = kind('counter');
const gauge = kind('gauge');
const summary = kind('summary');
const histogram = kind('histogram');
const info = kind('info');

export const FAMILIES = {
	requests: counter('proxy_requests_total', 'Answers to clients, by status and by the upstream where one was chosen.', {
		status: 'HTTP status',
		upstream: `${UPSTREAM}, where one was chosen`,
		group: GROUP,
	}),
	requestDuration: summary(
		'proxy_request_duration_seconds',
		'Round trips to the upstream that came back with a response, whatever its status, from departure to its end (streaming mode: to its head); quantiles over the last minute.',
		{ upstream: UPSTREAM, group: GROUP },
	),
	authFailures: counter('proxy_auth_failures_total', 'Requests without a valid token.', {
		reason: ['missing', 'invalid'],
	}),
	rateLimited: counter('proxy_ratelimited_total', "Requests over their tenant's limit."),
	handshakeSummary: summary(
		'proxy_tls_handshake_seconds',
		'TLS handshakes that succeeded, from accept, or the end of a PROXY header, to end; quantiles over the last minute.',
	),
	handshakeFailures: counter(
		'proxy_tls_handshake_failures_total',
		'Connections closed because their TLS handshake failed or took too long.',
	),
	circuitState: gauge('proxy_circuit_state', 'Circuit breaker: 0 closed, 1 open, 2 half-open.', {
		upstream: UPSTREAM,
		group: GROUP,
	}),
	upstreamAlive: gauge('proxy_upstream_alive', 'Last health probe: 1 passed, 0 failed or not made yet.', {
		upstream: `${UPSTREAM}; only with probes`,
		group: GROUP,
	}),
	upstreamLastProbe: gauge(
		'proxy_upstream_last_probe',
		'Result of the last health probe, and the remedy, as labels: 1 passed, 0 failed.',
		{
			upstream: `${UPSTREAM}; only after a probe`,
			group: GROUP,
			outcome: 'the finding',
			remedy: 'the remedy; empty after a pass',
		},
	),
	upstreamDuration: histogram(
		'proxy_upstream_duration_seconds',
		'The round trips of proxy_request_duration_seconds, over all time; buckets by [metrics] buckets.',
		{ upstream: UPSTREAM, group: GROUP },
	),
	gateDuration: histogram(
		'proxy_gate_duration_seconds',
		"The proxy's own time from a request's complete head to its departure: all gates and the queue, without the client's time for a collected body. Buckets by [metrics] gate_buckets.",
	),
	requestsInFlight: gauge(
		'proxy_requests_in_flight',
		'Requests whose head is complete and whose answer is not out yet.',
		{ route: ROUTE, protocol: CLIENT_PROTOCOLS },
	),
	requestBodyBytes: counter(
		'proxy_request_body_bytes_total',
		"Bytes of requests' bodies read from clients, without heads, framing and TLS; those of a body that is collected count when its request ends.",
		{ route: ROUTE, protocol: CLIENT_PROTOCOLS },
	),
	responseBodyBytes: counter(
		'proxy_response_body_bytes_total',
		"Bytes of answers' bodies given to clients' connections, our own answers included, without heads, framing and TLS.",
		{ route: ROUTE, protocol: CLIENT_PROTOCOLS },
	),
	forbidden: counter(
		'proxy_forbidden_total',
		'Requests that may not use their route, because of the certificate, the tenant or the scopes.',
		{ reason: FORBIDDEN_REASONS },
	),
	rateLimitRefusals: counter(
		'proxy_ratelimit_refusals_total',
		'The requests over a limit, by limit; together they are proxy_ratelimited_total.',
		{ reason: RATE_LIMIT_REASONS },
	),
	rateLimitSlotsInUse: gauge(
		'proxy_ratelimit_slots_in_use',
		'Places of the limiter that belong to tenants whose buckets are not full again. The others are free.',
	),
	rateLimitSlots: gauge('proxy_ratelimit_slots', 'Places that the limiter has.'),
	storeUp: gauge(
		'proxy_limiter_store_up',
		'Whether limits are shared through the store: 1, or 0 while it, or a part of it, is away and [limiter] on_store_failure holds.',
	),
	storeCalls: counter('proxy_limiter_store_calls_total', 'Round trips to the store of the shared limits, by result.', {
		result: ['success', ...STORE_FAILURES],
	}),
	storeReplicas: gauge('proxy_limiter_replicas', 'Replicas that share the limits, as last seen, this one included.'),
	storeDelay: gauge(
		'proxy_limiter_settle_seconds',
		"The longest of the last seconds from a request until the store's answer to it was in force here; what replicas admit together beyond a limit grows with it.",
	),
	storeRevocations: gauge(
		'proxy_limiter_store_revocations',
		'Entries in force that are revoked in the store, without those of revoked_path; only with [limiter] revocations.',
	),
	tokenCache: counter(
		'proxy_token_cache_lookups_total',
		'Tokens that were looked up among the verified ones: a miss had to be verified.',
		{ result: ['hit', 'miss'] },
	),
	handshakeDuration: histogram(
		'proxy_tls_handshake_duration_seconds',
		'The handshakes of proxy_tls_handshake_seconds, over all time; buckets by [metrics] buckets.',
	),
	handshakeRefusals: counter(
		'proxy_tls_handshake_refusals_total',
		'The handshakes that failed, by the reason; together they are proxy_tls_handshake_failures_total.',
		{ reason: HANDSHAKE_REFUSALS },
	),
	handshakesAgreed: counter(
		'proxy_tls_handshakes_total',
		'Handshakes that succeeded, by protocol version and key-exchange group.',
		{ version: TLS_VERSIONS, group: TLS_GROUPS },
	),
	certificateExpiry: gauge(
		'proxy_certificate_expiry_timestamp_seconds',
		'Ends of the certificates (notAfter) and CRLs (nextUpdate) in force, in seconds since the epoch.',
		{
			kind: EXPIRING_KINDS,
			subject: 'distinguished name; of a CRL that of its CA',
			serial: 'hexadecimal; absent for a CRL',
		},
	),
	crlNextUpdate: gauge(
		'proxy_crl_next_update_seconds',
		'Seconds until the CRL of a CA has to be replaced; negative: it is late. Of several CAs of one name the CRL that is due first.',
		{ issuer: 'distinguished name of the CA' },
	),
	circuitTransitions: counter(
		'proxy_circuit_transitions_total',
		'Changes of the circuit breaker, by what it became and why.',
		{ upstream: UPSTREAM, group: GROUP, to: CIRCUIT_NAMES, reason: REASONS_OF_TRANSITIONS },
	),
	connections: gauge('proxy_connections', 'Client connections, by the protocol they speak or are still negotiating.', {
		protocol: ['handshake', ...CLIENT_PROTOCOLS],
	}),
	connectionsLimit: gauge('proxy_connections_limit', 'Client connections that may be open at the same time.'),
	connectionsRefused: counter(
		'proxy_connections_refused_total',
		'Client connections closed before their handshake, because of max_connections or missing file descriptors.',
		{ reason: CONNECTION_REFUSALS },
	),
	connectionsEnded: counter(
		'proxy_connections_ended_total',
		'Client connections ended for their certificate (revoked, expired, its CA removed), or for their age.',
		{ reason: CONNECTION_ENDS },
	),
	tunnelsOpen: gauge('proxy_tunnels_open', 'WebSockets that are open. Each of them is a request in flight as well.', {
		protocol: CLIENT_PROTOCOLS,
	}),
	tunnelEnds: counter('proxy_tunnel_ends_total', 'WebSockets that have ended, by what has ended them.', {
		reason: TUNNEL_ENDS,
	}),
	readsDelayed: counter(
		'proxy_reads_delayed_total',
		'Client connections that were read later, because they and their certificate had used up their share of a worker.',
		{ protocol: CLIENT_PROTOCOLS },
	),
	http2ConnectionErrors: counter(
		'proxy_http2_connection_errors_total',
		'HTTP/2 connections that were ended with an error, by what their clients had done.',
		{ reason: HTTP2_ERROR_REASONS },
	),
	http2StreamErrors: counter(
		'proxy_http2_stream_errors_total',
		'HTTP/2 streams that were reset for an error, by what their clients had done; their connections went on.',
		{ reason: HTTP2_STREAM_ERROR_REASONS },
	),
	upstreamConnections: gauge(
		'proxy_upstream_connections',
		'Connections to upstreams, in use or waiting for the next request.',
		{ upstream: UPSTREAM, group: GROUP, state: ['active', 'idle'] },
	),
	grpcResponses: counter(
		'proxy_grpc_responses_total',
		"Upstreams' responses to gRPC calls that have a grpc-status, by that status. Refusals of the proxy are not among them.",
		{ upstream: UPSTREAM, group: GROUP, code: '`grpc-status`; what is no status of gRPC counts as 2' },
	),
	upstreamStreams: gauge(
		'proxy_upstream_streams',
		'Requests in flight at upstreams over HTTP/2, whose connections carry several at once.',
		{ upstream: UPSTREAM, group: GROUP },
	),
	upstreamRetries: counter(
		'proxy_upstream_retries_total',
		'Retries, by the upstream that had not taken the request. It had closed an idle connection (stale), refused an HTTP/2 stream (refused), closed without an answer (unanswered), or in one (broken).',
		{ upstream: UPSTREAM, group: GROUP, reason: RETRY_REASONS },
	),
	upstreamRetriesDenied: counter(
		'proxy_upstream_retries_denied_total',
		'Retries that did not happen because a fifth of the requests had been retries already.',
		{ upstream: UPSTREAM, group: 'name of its [[upstreams]]' },
	),
	bodyMemory: gauge('proxy_body_memory_bytes', 'Memory that bodies hold at the moment, of all tenants.'),
	bodyMemoryLimit: gauge('proxy_body_memory_limit_bytes', 'Memory that bodies may hold (limits.max_buffered_bytes).'),
	accessLogDropped: counter(
		'proxy_access_log_dropped_total',
		'Lines of the access log that are missing: its reader did not keep up, or they could not be written whole, as on a full disk.',
	),
	spans: counter(
		'proxy_trace_spans_total',
		'Spans of sampled requests. dropped: too many waited for the collector. failed: the collector did not take them.',
		{ result: ['exported', 'dropped', 'failed'] },
	),
	jwksFetches: counter(
		'proxy_jwks_fetches_total',
		'Key sets asked for over the network: success gave one that can be used.',
		{ issuer: 'as in the configuration', result: RESULTS },
	),
	jwksKeys: gauge('proxy_jwks_keys', 'Usable keys of the last good set; 0 before the first one.', {
		issuer: 'as in the configuration',
	}),
	jwksAge: gauge('proxy_jwks_age_seconds', 'Time since the last good set was fetched.', {
		issuer: 'as in the configuration',
	}),
	queueLength: gauge(
		'proxy_upstream_queue_length',
		'Requests that wait because all addresses of their upstream are at max_requests or max_connections.',
		{ group: 'name of the [[upstreams]] that has limits' },
	),
	queued: counter(
		'proxy_upstream_queued_total',
		'Requests that found their upstream at its limits. full and timeout: refused by the queue. unavailable: no breaker admitted them any more. gone: the client had left.',
		{ group: 'name of the [[upstreams]] that has limits', result: QUEUE_RESULTS },
	),
	dnsLookups: counter(
		'proxy_dns_lookups_total',
		'Times that DNS was asked for the addresses of an upstream: success gave all of them.',
		{ group: 'name of the [[upstreams]] with `dns`', result: RESULTS },
	),
	dnsAddresses: gauge('proxy_dns_addresses', 'Addresses of the last good answer; 0 before the first one.', {
		group: 'name of the [[upstreams]] with `dns`',
	}),
	dnsAge: gauge('proxy_dns_age_seconds', 'Time since the last good answer.', {
		group: 'name of the [[upstreams]] with `dns`',
	}),
	workers: gauge('proxy_workers', 'Worker threads that accept connections.'),
	loopUtilization: gauge(
		'proxy_worker_event_loop_utilization_ratio',
		"Part of the last quarter of a second in which the worker's event loop did not wait for events; 1 also while it is stuck.",
		{ worker: WORKER },
	),
	loopTime: counter(
		'proxy_worker_event_loop_seconds_total',
		"Time of the worker's event loop, busy or waiting for events; the rate of the busy part is its utilization over any time.",
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
		'Number of the configuration in force: 1 at the start, one more with each reload that took anything over.',
	),
	needsRestart: gauge(
		'proxy_config_needs_restart',
		'Settings of the file, as the last reload has found them, that only a restart takes over.',
	),
	reloads: counter(
		'proxy_reloads_total',
		'Reloads asked for: success took everything over, failure kept something old.',
		{ result: RESULTS },
	),
	reloadTimestamp: gauge(
		'proxy_reload_timestamp_seconds',
		'When each part of the configuration was last taken over, at the start or by a reload, and when that last failed; seconds since the epoch.',
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

/** The unit is what the name ends with. */
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
