import type { Http2ErrorReason } from '../../shared/stats.ts';

/**
 * Ends the connection with a GOAWAY of this code (RFC 9113 section 5.4.1). The reason is a label of
 * `proxy_http2_connection_errors_total`; the message is for the log, and never carries bytes of the peer's.
 */
export class ConnectionError extends Error {
	readonly code: number;
	readonly reason: Http2ErrorReason;

	constructor(code: number, reason: Http2ErrorReason, what: string) {
		super(what);
		this.code = code;
		this.reason = reason;
	}
}
