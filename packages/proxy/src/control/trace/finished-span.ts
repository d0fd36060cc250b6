import type { Attributes, HrTime, SpanContext } from '@opentelemetry/api';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import { refuseMethod } from '../../gates/method.ts';
import type { SpanEvent, SpanRecord } from '../../shared/span-record.ts';

/** What all spans of the process have in common. */
export interface SpanOrigin {
	readonly resource: ReadableSpan['resource'];
	readonly scope: ReadableSpan['instrumentationScope'];
	/** `server.address` and `server.port` of the listener, as far as known. */
	readonly server: Attributes;
}

// Enumerations of `@opentelemetry/api`, which is not loaded for two numbers.
const SERVER = 1;
const UNSET = 0;
const ERROR = 2;

/**
 * Converts a record to a span for OpenTelemetry's exporters: attributes and status follow the semantic conventions for HTTP
 * servers; attributes outside them begin with `proxy.`.
 */
export function finishedSpan(record: SpanRecord, { resource, scope, server }: SpanOrigin): ReadableSpan {
	const context: SpanContext = { traceId: record.traceId, spanId: record.spanId, traceFlags: record.flags };
	const method = refuseMethod(record.method) === undefined ? record.method : '_OTHER';
	const span = {
		name: [method === '_OTHER' ? 'HTTP' : method, record.route].filter(Boolean).join(' '),
		kind: SERVER,
		spanContext: () => context,
		startTime: hrTime(record.startMs),
		endTime: hrTime(record.startMs + record.durationMs),
		duration: hrTime(record.durationMs),
		status: isError(record) ? { code: ERROR, ...(record.reason && { message: record.reason }) } : { code: UNSET },
		attributes: { ...attributesOf(record, method), ...server },
		links: [],
		events: record.events.map((event) => eventOf(event, record.startMs)),
		ended: true,
		resource,
		instrumentationScope: scope,
		droppedAttributesCount: 0,
		droppedEventsCount: 0,
		droppedLinksCount: 0,
	};
	if (record.parentId === undefined) return span;
	const parent = { traceId: record.traceId, spanId: record.parentId, traceFlags: record.flags, isRemote: true };
	return { ...span, parentSpanContext: parent };
}

/** Whether a server's span is an error: a client's mistake is not. */
function isError({ status, ending }: SpanRecord): boolean {
	return status >= 500 || ending === 'broken off';
}

function attributesOf(record: SpanRecord, method: string): Attributes {
	const { status, grpcStatus, ending, refused, route, upstream, tenant } = record;
	return {
		'http.request.method': method,
		...(method === '_OTHER' && record.method !== '' && { 'http.request.method_original': record.method.slice(0, 64) }),
		'url.scheme': 'https',
		...(record.path !== '' && { 'url.path': record.path }),
		...(status !== 0 && { 'http.response.status_code': status }),
		...(grpcStatus !== undefined && { 'rpc.system': 'grpc', 'rpc.grpc.status_code': grpcStatus }),
		...(route !== undefined && { 'http.route': route }),
		'network.protocol.name': 'http',
		'network.protocol.version': record.protocol === 'h2' ? '2' : '1.1',
		'client.address': record.client,
		'http.request.body.size': record.bytesIn,
		'http.response.body.size': record.bytesOut,
		...(isError(record) && { 'error.type': refused ?? String(status) }),
		...(upstream !== undefined && { 'proxy.upstream': upstream, 'proxy.upstream.attempts': record.attempts }),
		...(refused !== undefined && { 'proxy.refused': refused, 'proxy.reason': record.reason }),
		...(ending !== 'complete' && { 'proxy.ending': ending }),
		...(tenant !== undefined && { 'proxy.tenant': tenant }),
	};
}

function eventOf({ gate, afterMs, refused, reason }: SpanEvent, startMs: number): ReadableSpan['events'][number] {
	return {
		name: gate,
		time: hrTime(startMs + afterMs),
		attributes: refused === undefined ? {} : { 'proxy.refused': refused, 'proxy.reason': reason },
		droppedAttributesCount: 0,
	};
}

/** Seconds and nanoseconds. @param ms precise to the microsecond: a double cannot hold the time since 1970 more precisely. */
export function hrTime(ms: number): HrTime {
	const micros = Math.round(ms * 1000);
	const seconds = Math.floor(micros / 1e6);
	return [seconds, (micros - seconds * 1e6) * 1000];
}
