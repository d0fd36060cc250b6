import {
	flagOr,
	MAX_BYTES,
	optional,
	seconds,
	secondsOr,
	secondsOrNone,
	secondsOrZero,
	table,
	wholeNumber,
	wholeNumberOr,
} from './kinds.ts';

/** `[limits]`. */
export const limits = table('[limits]', {
	max_request_body_bytes: wholeNumberOr(8 * 1024 * 1024, 1, MAX_BYTES, 'of bytes').describe(
		'largest request body. Larger ones get 413',
	),
	request_body_timeout_secs: seconds(30).describe('time for the client to send its body (collected mode)'),
	upstream_timeout_secs: seconds(30).describe(
		'time for the round trip; also the time a client has to read each 64 KiB of a long response',
	),
	tls_handshake_timeout_secs: seconds(10).describe(
		'time for the TLS handshake, from accept, or from the end of a PROXY header',
	),
	first_request_timeout_secs: seconds(10).describe(
		'time from the end of the handshake to the first complete request head',
	),
	// RFC 9113 section 5.1.1: the maximum is the number of identifiers that a client can use on one connection.
	h2_max_concurrent_streams: wholeNumberOr(64, 1, 2 ** 30).describe('concurrent HTTP/2 streams on one connection'),
	shutdown_drain_secs: seconds(25).describe('time for requests in flight to finish during shutdown'),
	shutdown_delay_secs: secondsOrNone().describe(
		'time between SIGTERM and the drain. During this time `/readyz` returns 503, and the proxy keeps serving requests',
	),
	max_header_bytes: wholeNumberOr(16_384, 256, 1024 * 1024, 'of bytes').describe('largest request head'),
	max_buffered_bytes: wholeNumberOr(1024 ** 3, 1, MAX_BYTES, 'of bytes').describe(
		'memory for all bodies together. Requests that need more get 503. In streaming mode it bounds uploads and responses that are waiting to be sent',
	),
	max_buffered_bytes_per_tenant: optional(
		wholeNumber(1, MAX_BYTES, 'half of max_buffered_bytes', 'of bytes'),
		'memory for the request and response bodies of one tenant, across all threads. A tenant that needs more gets 503. While a body grows, it may count as up to three times its size',
		'half of `max_buffered_bytes`, at least three times `max_request_body_bytes`',
	),
	min_answer_bytes_per_sec: optional(
		wholeNumber(0, MAX_BYTES, 'the default of the body mode', 'of bytes'),
		'minimum rate at which a client must read a long response, averaged over `upstream_timeout_secs` of this table. The proxy breaks off responses to slower clients. The minimum applies to each HTTP/2 stream; 0: no limit',
		'4096 collected, 0 streaming',
	),
	max_connection_age_secs: secondsOrNone().describe(
		'age (±10 %) at which the proxy ends a client connection, once its requests in flight are complete; 0: never',
	),
	max_connections: optional(
		wholeNumber(1, 2 ** 30, 'what the open-file limit allows'),
		'maximum number of concurrent client connections. The proxy closes any further connections',
		'from the open-file limit',
	),
	rate_limit_headers: flagOr(false).describe(
		'add `RateLimit-Policy` and `RateLimit` to all responses, not only to 429',
	),
}).meta({ description: 'bounds on time and memory', read: 'at startup' });

/** Overrides of `[limits]` for the requests of one route. */
export const routeLimitKeys = {
	max_body_bytes: optional(
		wholeNumber(1, MAX_BYTES, 'limits.max_request_body_bytes', 'of bytes'),
		'largest request body of this route. Larger ones get 413',
		'`limits.max_request_body_bytes`',
	),
	body_timeout_secs: optional(
		secondsOr('limits.request_body_timeout_secs'),
		'time for the client to send its body (collected mode)',
		'`limits.request_body_timeout_secs`',
	),
	upstream_timeout_secs: optional(
		secondsOrZero('limits.upstream_timeout_secs'),
		'time for the round trip on this route; 0: no limit. Collected mode: for the whole response. Streaming mode: for the response head, then for each pause in the response; if `idle_timeout_secs` is set, for the whole response. `[limits]` sets how long the client may take to read',
		'`limits.upstream_timeout_secs`',
	),
	idle_timeout_secs: optional(
		secondsOr('300 for WebSockets and upstream_timeout_secs for streams'),
		'how long a WebSocket of this route may be silent. Streaming mode: also how long a response may be silent after its head',
		'300 for WebSockets, `upstream_timeout_secs` for responses',
	),
	end_streams_at_expiry: flagOr(false).describe(
		'streaming mode: end a response that is still streaming when its token expires, leeway included',
	),
};
