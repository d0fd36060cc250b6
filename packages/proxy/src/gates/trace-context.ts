import { type Correlation, type Identified, isTraceparent, requestIdOf } from './correlation.ts';

/** Which requests become spans, and the trace fields that upstreams get (W3C Trace Context). */
export interface Tracing {
	/** The fraction of the traces beginning here that is sampled, 0 to 1. */
	readonly ratio: number;
	/** Whether requests have an identifier of their own as well (`[log] request_id`). */
	readonly requestIds: boolean;
}

/**
 * Decides about each request. The client's decision holds where there is one (parent-based); otherwise the trace begins here, and its
 * identifier decides, so that all samplers with the same ratio decide alike.
 *
 * The upstream of a request that is sampled is a child of our span. Of one that is not, there is no span that could be its parent: the
 * client's `traceparent` goes on as it came.
 *
 * @param hex makes as many random hexadecimal digits.
 */
export function createTracing({ ratio, requestIds }: Tracing, hex: (digits: number) => string) {
	const isSampled = ratioSampler(ratio);
	return ({ traceparent, tracestate, requestId }: Identified): Correlation => {
		const id = requestIds ? requestIdOf(requestId, hex) : undefined;
		const idLine = id === undefined ? '' : `x-request-id: ${id}\r\n`;
		if (isTraceparent(traceparent)) {
			const traceId = traceparent.slice(3, 35);
			const flags = Number.parseInt(traceparent.slice(53, 55), 16);
			if ((flags & SAMPLED) === 0) {
				const lines = `traceparent: ${traceparent}\r\n${tracestate}${idLine}`;
				return { traceId, requestId: id, lines, isShown: false };
			}
			const span = { traceId, spanId: hex(16), parentId: traceparent.slice(36, 52), flags: flags & KNOWN_FLAGS };
			// Of a later version than ours, too: only what we know of it is said (section 4.3).
			const lines = `traceparent: 00-${traceId}-${span.spanId}-0${span.flags}\r\n${tracestate}${idLine}`;
			return { traceId, requestId: id, lines, span, isShown: true };
		}
		// At once: each slice costs more than the digits.
		const both = hex(48);
		const traceId = both.slice(0, 32);
		const spanId = both.slice(32);
		// A `tracestate` says nothing of this trace (section 3.3.1.4).
		if (!isSampled(traceId)) {
			return { traceId, requestId: id, lines: `traceparent: 00-${traceId}-${spanId}-00\r\n${idLine}`, isShown: false };
		}
		const span = { traceId, spanId, parentId: undefined, flags: SAMPLED };
		return {
			traceId,
			requestId: id,
			lines: `traceparent: 00-${traceId}-${spanId}-01\r\n${idLine}`,
			span,
			isShown: true,
		};
	};
}

/** A request that could not be read at all. */
export const UNIDENTIFIED: Identified = { traceparent: undefined, tracestate: '', requestId: undefined };

const SAMPLED = 0x01;
/** Sampled, and that the trace's identifier is random (Trace Context level 2). */
const KNOWN_FLAGS = 0x03;

/**
 * Whether a trace is among those that a ratio chooses, by its identifier: the decision of OpenTelemetry's `TraceIdRatioBasedSampler`,
 * which adds the identifier's four words without carry and compares the sum with its share of all of them.
 */
export function ratioSampler(ratio: number): (traceId: string) => boolean {
	if (ratio >= 1) return () => true;
	if (ratio <= 0) return () => false;
	const bound = Math.floor(ratio * 0xffffffff);
	return (traceId) => {
		// Digit by digit from the highest one: mostly the first one decides, and every request waits for this.
		for (let i = 0; i < 8; i++) {
			const digit = digitAt(traceId, i) ^ digitAt(traceId, i + 8) ^ digitAt(traceId, i + 16) ^ digitAt(traceId, i + 24);
			const limit = (bound >>> (28 - 4 * i)) & 0xf;
			if (digit !== limit) return digit < limit;
		}
		return false;
	};
}

/** Of lower-case hexadecimal digits. */
function digitAt(text: string, at: number): number {
	const code = text.charCodeAt(at);
	return code < 58 ? code - 48 : code - 87;
}
