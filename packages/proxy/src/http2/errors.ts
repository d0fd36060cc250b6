import type { Http2ErrorReason, Http2StreamErrorReason } from '../memory/worker-stats.ts';
import { CODE } from './frame-format.ts';

/**
 * Ends the connection with a GOAWAY of this code (RFC 9113 section 5.4.1). The reason is a label of
 * `proxy_http2_connection_errors_total`. The message is for the log, and never contains bytes from the peer.
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

export function protocolError(what: string): ConnectionError {
	return new ConnectionError(CODE.PROTOCOL_ERROR, 'protocol', what);
}

/** A frame of a wrong length. */
export function sizeError(what: string): ConnectionError {
	return new ConnectionError(CODE.FRAME_SIZE_ERROR, 'frame-size', what);
}

/** A window that was exceeded, or grew too large. */
export function flowError(what: string): ConnectionError {
	return new ConnectionError(CODE.FLOW_CONTROL_ERROR, 'flow-control', what);
}

/** The counted reason for the code of a stream error (section 5.4.2). */
export function streamErrorReason(code: number): Http2StreamErrorReason {
	return STREAM_ERRORS.get(code) ?? 'protocol';
}

const STREAM_ERRORS = new Map<number, Http2StreamErrorReason>([
	[CODE.FLOW_CONTROL_ERROR, 'flow-control'],
	[CODE.STREAM_CLOSED, 'stream-closed'],
	[CODE.FRAME_SIZE_ERROR, 'frame-size'],
	[CODE.ENHANCE_YOUR_CALM, 'too-many-fields'],
]);
