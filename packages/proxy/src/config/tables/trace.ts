import { expected, file, flagOr, fromZeroTo, nonEmpty, optional, table, url, wholeNumberOr } from './kinds.ts';

/** A span takes a few KiB at most. */
const MAX_SPANS = 2 ** 17;
const ENDPOINT =
	'set it to the address where the collector accepts OTLP over HTTP, for example "http://127.0.0.1:4318/v1/traces"';
const NAME = ['a name of 1 to 255 characters', 'leave it out for "mtls-edge-proxy"'] as const;

/** `[trace]`: OpenTelemetry spans of requests. Without the table no tracing code is loaded. */
export const trace = table('[trace]', {
	endpoint: url('an http:// or https:// address', ENDPOINT, parseEndpoint).describe(
		'URL of the collector (OTLP over HTTP, in protobuf), including the path, usually `/v1/traces`. `http://` is usual for a collector on the same machine',
	),
	ratio: fromZeroTo(1, 0.01).describe(
		'share of requests that are sampled, chosen by trace ID. If the client sends a `traceparent`, its `sampled` flag decides instead',
	),
	ca_path: optional(
		file('the CAs that the certificate of the collector must chain to, PEM'),
		'CAs for an `https://` collector, PEM',
		"Node's CAs",
	),
	headers_path: optional(
		file('the header fields that the collector requires, one "name: value" per line'),
		'file of header fields for the collector, such as a token: one `name: value` per line. With `http://`, it is allowed only if the endpoint is a loopback address',
		'none',
	),
	service_name: nonEmpty(...NAME)
		.max(255, { error: expected(...NAME) })
		.default('mtls-edge-proxy')
		.describe('`service.name` of the spans'),
	tenants: flagOr(false).describe('add the tenant to spans (`proxy.tenant`)'),
	max_queue_spans: wholeNumberOr(4096, 64, MAX_SPANS, 'of spans').describe(
		'maximum number of spans waiting for export, across all workers. Further spans are dropped and counted',
	),
}).meta({
	description: 'export of requests as OpenTelemetry spans; see docs/reference/tracing.md',
	read: 'at startup',
});

/** @returns the address, or the fault in words that do not quote the text. */
export function parseEndpoint(address: string): URL | string {
	const url = URL.parse(address);
	if (url === null || !/^https?:\/\/[^/]/i.test(address)) {
		return 'write it in full, for example "http://127.0.0.1:4318/v1/traces"';
	}
	if (url.username !== '' || url.password !== '')
		return 'user info is not sent; put an authorization field into the file of headers_path';
	if (address.includes('#')) return 'a fragment is not sent; leave it out';
	return url;
}
