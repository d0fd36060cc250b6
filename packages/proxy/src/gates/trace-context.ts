import { type Correlation, type Identified, isTraceparent, requestIdOf } from './correlation.ts';

/** Which requests become spans, and the trace fields that upstreams get (W3C Trace Context). */
export interface Tracing {
	/** The sampled fraction of the traces that begin here, 0 to 1. */
	readonly ratio: number;
	/** Whether requests also have an identifier of their own (`[log] request_id`). */
	readonly requestIds: boolean;
}

/**
 * Decides for each request whether it is sampled. The client's decision holds if there is one (parent-based). Otherwise the trace
 * begins here, and its identifier decides, so all samplers with the same ratio decide alike.
 *
 * If a request is sampled, the proxy's span is the parent of the upstream's. If not, there is no span to be the parent, so the
 * client's `traceparent` is forwarded unchanged.
 *
 * @param hex returns that many random hexadecimal digits.
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
			// Also for a later version: only the parts that we know are forwarded (section 4.3).
			const lines = `traceparent: 00-${traceId}-${span.spanId}-0${span.flags}\r\n${tracestate}${idLine}`;
			return { traceId, requestId: id, lines, span, isShown: true };
		}
		// One call for both identifiers is cheaper than two.
		const both = hex(48);
		const traceId = both.slice(0, 32);
		const spanId = both.slice(32);
		// A `tracestate` without a valid `traceparent` says nothing about this trace (section 3.3.1.4).
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
/** Sampled, and random trace identifier (Trace Context level 2). */
const KNOWN_FLAGS = 0x03;

/**
 * Whether a ratio samples a trace, by its identifier. It decides like OpenTelemetry's `TraceIdRatioBasedSampler`, which XORs the
 * four words of the identifier and compares the result with `ratio` times the largest word.
 */
export function ratioSampler(ratio: number): (traceId: string) => boolean {
	if (ratio >= 1) return () => true;
	if (ratio <= 0) return () => false;
	const bound = Math.floor(ratio * 0xffffffff);
	return (traceId) => {
		// Digit by digit from the highest: usually the first one decides, and this runs for every request.
		for (let i = 0; i < 8; i++) {
			const digit = digitAt(traceId, i) ^ digitAt(traceId, i + 8) ^ digitAt(traceId, i + 16) ^ digitAt(traceId, i + 24);
			const limit = (bound >>> (28 - 4 * i)) & 0xf;
			if (digit !== limit) return digit < limit;
		}
		return false;
	};
}

/** @param text lower-case hexadecimal digits. */
function digitAt(text: string, at: number): number {
	const code = text.charCodeAt(at);
	return code < 58 ? code - 48 : code - 87;
}
