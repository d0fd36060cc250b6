import {
	explained,
	flagOr,
	MAX_BYTES,
	optional,
	seconds,
	secondsOr,
	secondsOrNone,
	table,
	wholeNumber,
	wholeNumberOr,
} from './kinds.ts';

/** `[limits]`. */
export const limits = table('[limits]', {
	max_request_body_bytes: wholeNumberOr(8 * 1024 * 1024, 1, MAX_BYTES, 'of bytes').describe('larger bodies get 413'),
	request_body_timeout_secs: seconds(30).describe('for the client to send its body (collected mode)'),
	upstream_timeout_secs: seconds(30).describe(
		'for the round trip; also how long a client has for each 64 KiB of a long answer',
	),
	tls_handshake_timeout_secs: seconds(10).describe(
		'for the TLS handshake, from accept; of a connection with a PROXY header, from its end',
	),
	first_request_timeout_secs: seconds(10).describe('from the end of the handshake to the first complete request head'),
	// RFC 9113 section 5.1.1: a connection has no more client-initiated streams than this.
	h2_max_concurrent_streams: wholeNumberOr(64, 1, 2 ** 30).describe('HTTP/2 streams of one connection at once'),
	shutdown_drain_secs: seconds(25).describe('for requests in flight at SIGTERM'),
	shutdown_delay_secs: secondsOrNone().describe(
		'between SIGTERM and the drain; `/readyz` says 503, everything is served as before',
	),
	max_header_bytes: wholeNumberOr(16_384, 256, 1024 * 1024, 'of bytes').describe('of a request head'),
	max_buffered_bytes: wholeNumberOr(1024 ** 3, 1, MAX_BYTES, 'of bytes').describe(
		'all bodies held in memory at once; beyond it 503. In streaming mode: uploads over HTTP/2 that wait',
	),
	max_buffered_bytes_per_tenant: optional(
		wholeNumber(1, MAX_BYTES, 'half of max_buffered_bytes', 'of bytes'),
		"of them, the bodies of one tenant's requests and answers, over all threads; beyond it that tenant gets 503. While a body grows it may count up to three times",
		'half of `max_buffered_bytes`, at least three times `max_request_body_bytes`',
	),
	min_answer_bytes_per_sec: optional(
		wholeNumber(0, MAX_BYTES, 'what is usual in the body mode', 'of bytes'),
		'what a client must take of a long answer, on the average of each `upstream_timeout_secs` of this table in which it is waited for; slower ones are cut off. Counted for each HTTP/2 stream; 0: no such limit',
		'4096 collected, 0 streaming',
	),
	max_connection_age_secs: secondsOrNone().describe(
		'a client connection of this age, give or take a tenth, is told to go once what is under way is answered; 0: none is',
	),
	max_connections: optional(
		wholeNumber(1, 2 ** 30, 'what the file limit allows'),
		'client connections; beyond it new ones are closed',
		'from the limit of open files',
	),
	rate_limit_headers: flagOr(false).describe('all answers carry `RateLimit-Policy` and `RateLimit`, not only 429'),
}).meta(explained('bounds of time and memory; seconds may be fractional', { read: 'at start' }));

/** What a route sets in place of `[limits]`, for its own requests. */
export const routeLimitKeys = {
	max_body_bytes: optional(
		wholeNumber(1, MAX_BYTES, 'limits.max_request_body_bytes', 'of bytes'),
		'larger bodies get 413, by this route',
		'`limits.max_request_body_bytes`',
	),
	body_timeout_secs: optional(
		secondsOr('limits.request_body_timeout_secs'),
		'for the client to send its body (collected mode)',
		'`limits.request_body_timeout_secs`',
	),
	upstream_timeout_secs: optional(
		secondsOr('limits.upstream_timeout_secs'),
		'for the round trip by this route. Collected mode: until the whole response is there. Streaming mode: until its head is there, then for each silence of the upstream. How long a client has to take its response is set in `[limits]`',
		'`limits.upstream_timeout_secs`',
	),
};
