import type { RequestHead } from './headers.ts';

/** What a request can be found by, here and at its upstream. */
export interface Correlation {
	/** 32 hexadecimal digits. */
	readonly traceId: string;
	/** 1 to 128 characters of visible ASCII. */
	readonly requestId: string;
	/** `traceparent`, `tracestate` and `x-request-id` lines for the upstream, each ended by CRLF. */
	readonly lines: string;
}

/**
 * Takes over what the client has sent, if it is well-formed, and makes what is missing. The trace is the client's: the proxy
 * is no span of it, so a valid `traceparent` goes on as it is (W3C Trace Context section 4.3, "forward").
 *
 * @param head read with `traced`.
 * @param hex makes as many random hexadecimal digits.
 */
export function correlate(
	{ traceparent, tracestate, requestId }: Pick<RequestHead, 'traceparent' | 'tracestate' | 'requestId'>,
	hex: (digits: number) => string,
): Correlation {
	const id = typeof requestId === 'string' && REQUEST_ID.test(requestId) ? requestId : hex(32);
	if (typeof traceparent === 'string' && isTraceparent(traceparent)) {
		const lines = `traceparent: ${traceparent}\r\n${tracestate}x-request-id: ${id}\r\n`;
		return { traceId: traceparent.slice(3, 35), requestId: id, lines };
	}
	const traceId = hex(32);
	// Not sampled: whether to is not ours to decide. A `tracestate` says nothing of this trace (section 3.3.1.4).
	const lines = `traceparent: 00-${traceId}-${hex(16)}-00\r\nx-request-id: ${id}\r\n`;
	return { traceId, requestId: id, lines };
}

const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** W3C Trace Context section 3.2: version ff and identifiers of zeros are invalid; later versions may append fields. */
function isTraceparent(value: string): boolean {
	if (value.length > MAX_TRACEPARENT || !TRACEPARENT.test(value)) return false;
	return value.length === 55 || (value[55] === '-' && !value.startsWith('00'));
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[\x21-\x7e]*)?$/;
const MAX_TRACEPARENT = 256;
