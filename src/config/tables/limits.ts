import { flag, MAX_BYTES, seconds, secondsOrNone, table, wholeNumber, wholeNumberOr } from './kinds.ts';

/** `[limits]` (decisions "Limits beyond the specification"). */
export const limits = table('[limits]', {
	max_request_body_bytes: wholeNumberOr(8 * 1024 * 1024, 1, MAX_BYTES, 'of bytes'),
	request_body_timeout_secs: seconds(30),
	upstream_timeout_secs: seconds(30),
	tls_handshake_timeout_secs: seconds(10),
	first_request_timeout_secs: seconds(10),
	// RFC 9113 section 5.1.1: a connection has no more client-initiated streams than this.
	h2_max_concurrent_streams: wholeNumberOr(64, 1, 2 ** 30),
	shutdown_drain_secs: seconds(25),
	shutdown_delay_secs: secondsOrNone(),
	max_header_bytes: wholeNumberOr(16_384, 256, 1024 * 1024, 'of bytes'),
	max_buffered_bytes: wholeNumberOr(1024 ** 3, 1, MAX_BYTES, 'of bytes'),
	max_buffered_bytes_per_tenant: wholeNumber(1, MAX_BYTES, 'half of max_buffered_bytes', 'of bytes').optional(),
	min_answer_bytes_per_sec: wholeNumber(0, MAX_BYTES, 'what is usual in the body mode', 'of bytes').optional(),
	max_connection_age_secs: secondsOrNone(),
	max_connections: wholeNumber(1, 2 ** 30, 'what the file limit allows').optional(),
	rate_limit_headers: flag('false').default(false),
});
