import { jsonString } from './json-string.ts';
import type { RequestRecord } from './request-record.ts';

/**
 * One request as a line of JSON in ASCII, with its line break. It is built by hand: `JSON.stringify` of an object costs several
 * times as much, and most members need no escaping or were escaped once for their connection.
 *
 * @param wallMs end of the request, milliseconds since 1970.
 */
export function accessLine(record: RequestRecord, wallMs: number): string {
	const { status, grpcStatus, refusal, tenant, route, upstream, ending, attempts, correlation } = record;
	let line = `{"timestamp":"${timestamp(wallMs)}","level":"info","target":"proxy::access","message":"request","method":"${
		record.method
	}","path":${jsonString(record.path)}`;
	if (status !== 0) line += `,"status":${status}`;
	if (grpcStatus !== undefined) line += `,"grpc_status":${grpcStatus}`;
	if (ending !== 'complete') line += `,"ending":"${ending}"`;
	if (record.tunnelEnd !== undefined) line += `,"tunnel_end":"${record.tunnelEnd}"`;
	if (refusal !== undefined) line += `,"reason":${jsonString(refusal.reason ?? refusal.body)}`;
	if (tenant !== undefined) line += `,"tenant":${jsonString(tenant)}`;
	if (route !== undefined) line += `,"route":${jsonString(route.prefix)}`;
	if (upstream !== undefined) line += `,"upstream":${jsonString(upstream.authority)}`;
	line += `${record.connectionMembers},"bytes_in":${record.bytesIn},"bytes_out":${record.bytesOut},"duration_ms":${thousandths(
		record.duration,
	)}`;
	const { bodyDuration } = record;
	if (!Number.isNaN(bodyDuration)) line += `,"body_ms":${thousandths(bodyDuration)}`;
	if (record.queuedMs !== 0) line += `,"queue_ms":${thousandths(record.queuedMs)}`;
	if (attempts !== 0) line += `,"upstream_ms":${thousandths(record.upstreamDuration)},"attempt":${attempts}`;
	if (correlation !== undefined) {
		line += `,"trace_id":"${correlation.traceId}"`;
		if (correlation.requestId !== undefined) line += `,"request_id":${jsonString(correlation.requestId)}`;
	}
	return `${line}}\n`;
}

/** Rounds to microseconds. */
function thousandths(ms: number): number {
	return Math.round(ms * 1000) / 1000;
}

let lastMs = Number.NaN;
let lastTimestamp = '';

/** RFC 3339. Requests that end in the same millisecond share the text. */
function timestamp(wallMs: number): string {
	if (wallMs !== lastMs) {
		lastMs = wallMs;
		lastTimestamp = new Date(wallMs).toISOString();
	}
	return lastTimestamp;
}

/** The meaning of each member, in the order of the line; for docs/reference/logs.md. */
export const ACCESS_MEMBERS: Readonly<Record<string, string>> = {
	timestamp: 'the end of the request (RFC 3339, UTC)',
	level: 'always `info`',
	target: 'always `proxy::access`',
	message: 'always `request`',
	method: 'as sent; empty if it could not be read',
	path: 'as sent, without query and fragment; empty if it could not be read',
	status:
		'of the response; absent if the client left before the response, or if the proxy reset its HTTP/2 stream instead',
	grpc_status: "for a gRPC call: the upstream's `grpc-status`, or that of the refusal; absent if there is neither",
	ending:
		'only if the client did not get a whole response: `client gone`, or `broken off` by the proxy (`reason` says why)',
	tunnel_end:
		'for a WebSocket: why it ended ([protocols](protocols.md#what-ends-a-websocket)); the line is written when the WebSocket ends',
	reason:
		"only if the proxy itself responded or broke off the response: the check that refused the request (below), or the upstream's failure",
	tenant: 'the tenant, if the token is valid',
	route: 'the prefix of its route, if one matched',
	upstream: '`host:port` of the last upstream, or of the chosen one; absent if none was chosen',
	protocol: '`http/1.1` or `h2`',
	tls: 'the TLS version',
	client: "the client's IP address",
	client_subject: 'the subject of its certificate',
	client_sha256: "SHA-256 of the certificate's DER, in hexadecimal",
	bytes_in: 'bytes of the body without framing, as read from the client',
	bytes_out: "bytes of the body without framing, as written to the client's connection",
	duration_ms: 'the whole request',
	body_ms: "from the start of reading the request's body to its last byte; absent without a body",
	queue_ms: 'time in the queue of an upstream with limits; absent if it did not wait',
	upstream_ms: "from sending the first attempt to the end of the upstream's response; absent if none was sent",
	attempt:
		'how many times it was sent to an upstream: 1, or more after retries (docs/reference/upstreams.md); absent if it was not sent',
	trace_id:
		'with `request_id = true` or `[trace]`: from the `traceparent` that the upstream gets. Absent if the proxy refused the whole head (`400 bad request`, `431`, `501 method not implemented`)',
	request_id: 'with `request_id = true`: the `x-request-id` that the upstream gets',
};
