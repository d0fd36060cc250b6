import { jsonString } from '../shared/json-string.ts';
import type { RequestRecord } from './request-record.ts';

/**
 * One request as a line of JSON in ASCII, with its line break. Put together by hand: `JSON.stringify` of an object costs
 * several times as much, and most of the members need no escaping or have been escaped once for their connection.
 *
 * @param wallMs of the request's end, since 1970.
 */
export function accessLine(record: RequestRecord, wallMs: number): string {
	const { status, refusal, tenant, route, ending, attempts, correlation } = record;
	let line = `{"timestamp":"${timestamp(wallMs)}","level":"info","target":"proxy::access","message":"request","method":"${
		record.method
	}","path":${jsonString(record.path)}`;
	if (status !== 0) line += `,"status":${status}`;
	if (ending !== 'complete') line += `,"ending":"${ending}"`;
	if (refusal !== undefined) line += `,"reason":${jsonString(refusal.reason ?? refusal.body)}`;
	if (tenant !== undefined) line += `,"tenant":${jsonString(tenant)}`;
	if (route !== undefined) {
		line += `,"route":${jsonString(route.prefix)},"upstream":${jsonString(route.upstream.authority)}`;
	}
	line += `${record.connectionMembers},"bytes_in":${record.bytesIn},"bytes_out":${record.bytesOut},"duration_ms":${thousandths(
		record.duration,
	)}`;
	const { bodyDuration } = record;
	if (!Number.isNaN(bodyDuration)) line += `,"body_ms":${thousandths(bodyDuration)}`;
	if (attempts !== 0) line += `,"upstream_ms":${thousandths(record.upstreamDuration)},"attempt":${attempts}`;
	if (correlation !== undefined) {
		line += `,"trace_id":"${correlation.traceId}","request_id":${jsonString(correlation.requestId)}`;
	}
	return `${line}}\n`;
}

/** To the microsecond. */
function thousandths(ms: number): number {
	return Math.round(ms * 1000) / 1000;
}

let lastMs = Number.NaN;
let lastTimestamp = '';

/** RFC 3339. Requests that end in the same millisecond share it. */
function timestamp(wallMs: number): string {
	if (wallMs !== lastMs) {
		lastMs = wallMs;
		lastTimestamp = new Date(wallMs).toISOString();
	}
	return lastTimestamp;
}
