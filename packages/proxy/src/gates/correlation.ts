import type { RequestHead } from './headers.ts';

/** The identifiers by which a request can be found, here and at its upstream. */
export interface Correlation {
	/** 32 hexadecimal digits. */
	readonly traceId: string;
	/** 1 to 128 characters of visible ASCII; `undefined` if requests are traced and have no identifiers of their own. */
	readonly requestId: string | undefined;
	/** `traceparent`, `tracestate` and `x-request-id` lines for the upstream, each ended by CRLF. */
	readonly lines: string;
	/** The span of this request; `undefined`: none. */
	readonly span?: SpanContext | undefined;
	/** Whether the trace can be found by its identifier: only then is it useful as an exemplar. */
	readonly isShown: boolean;
}

/** The place of a span in its trace. */
export interface SpanContext {
	readonly traceId: string;
	/** 16 hexadecimal digits, like `parentId`. */
	readonly spanId: string;
	/** The client's span; `undefined`: the trace begins here. */
	readonly parentId: string | undefined;
	/** Trace flags (W3C Trace Context section 3.2.2.5), `sampled` included. */
	readonly flags: number;
}

/** The fields of a head that identify a request. */
export type Identified = Pick<RequestHead, 'traceparent' | 'tracestate' | 'requestId'>;

/**
 * Takes the client's identifiers if they are well-formed, and generates the missing ones. The trace is the client's: the proxy is
 * not a span in it, so a valid `traceparent` goes on as it is (W3C Trace Context section 4.3, "forward").
 *
 * @param head whose identifiers were read apart from its lines.
 * @param hex returns that many random hexadecimal digits.
 */
export function correlate(
	{ traceparent, tracestate, requestId }: Identified,
	hex: (digits: number) => string,
): Correlation {
	const id = requestIdOf(requestId, hex);
	if (isTraceparent(traceparent)) {
		const lines = `traceparent: ${traceparent}\r\n${tracestate}x-request-id: ${id}\r\n`;
		return { traceId: traceparent.slice(3, 35), requestId: id, lines, isShown: true };
	}
	const traceId = hex(32);
	// Not sampled: sampling is not our decision. A `tracestate` says nothing about this trace (section 3.3.1.4).
	const lines = `traceparent: 00-${traceId}-${hex(16)}-00\r\nx-request-id: ${id}\r\n`;
	return { traceId, requestId: id, lines, isShown: true };
}

/** The client's identifier if it is well-formed, otherwise a new one. */
export function requestIdOf(sent: string | null | undefined, hex: (digits: number) => string): string {
	return typeof sent === 'string' && REQUEST_ID.test(sent) ? sent : hex(32);
}

const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** W3C Trace Context section 3.2: version ff and identifiers of zeros are invalid; later versions may append fields. */
export function isTraceparent(value: string | null | undefined): value is string {
	if (typeof value !== 'string' || value.length > MAX_TRACEPARENT || !TRACEPARENT.test(value)) return false;
	return value.length === 55 || (value[55] === '-' && !value.startsWith('00'));
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[\x21-\x7e]*)?$/;
const MAX_TRACEPARENT = 256;
