import { z } from 'zod';
import { quote } from '../wording.ts';
import { expected, explained, file, flag, table, text, wholeNumberOr } from './kinds.ts';

/** Each takes a few KiB at most. */
const MAX_SPANS = 2 ** 17;
const ENDPOINT = 'set it to where the collector takes OTLP over HTTP, for example "http://127.0.0.1:4318/v1/traces"';
const RATIO = expected('a number from 0 to 1', 'leave it out for 0.01');
const NAME = expected('a name of 1 to 255 characters', 'leave it out for "mtls-edge-proxy"');

/** `[trace]`: requests as spans of OpenTelemetry. Without the table nothing of it is loaded. */
export const trace = table('[trace]', {
	endpoint: text('an http:// or https:// address', ENDPOINT)
		.transform((address, context) => {
			const url = parseEndpoint(address);
			if (typeof url !== 'string') return url.href;
			// A password must not end up in a log.
			const shown = quote(address.replace(/\/\/.*@/s, '//***@'));
			context.addIssue(`must be an http:// or https:// address (got ${shown}): ${url}`);
			return z.NEVER;
		})
		// As much of `parseEndpoint` as a pattern can say.
		.meta({ pattern: '^[Hh][Tt][Tt][Pp][Ss]?://[^/]' })
		.describe(
			'where spans are sent, as OTLP over HTTP in protobuf: the whole address with its path, mostly `/v1/traces`. `http://` is usual for a collector beside the proxy',
		),
	ratio: z
		.number({ error: RATIO })
		.min(0, { error: RATIO })
		.max(1, { error: RATIO })
		.meta({ noun: 'number' })
		.default(0.01)
		.describe(
			'part of the requests that are sampled, by the identifier of the trace, where the client sends no `traceparent`. Where it sends one, its flag decides',
		),
	ca_path: file('the CAs that the collector is believed by, PEM')
		.optional()
		.meta(explained('CAs that an `https://` collector is believed by, PEM', { unset: "Node's CAs" })),
	headers_path: file('the header fields that the collector asks for, one "name: value" a line')
		.optional()
		.meta(
			explained(
				'file of header fields for the collector, such as a token: one `name: value` a line. With `http://` for a loopback address alone',
				{ unset: 'none' },
			),
		),
	service_name: z
		.string({ error: NAME })
		.min(1, { error: NAME })
		.max(255, { error: NAME })
		.default('mtls-edge-proxy')
		.describe('`service.name` of the spans'),
	tenants: flag('false').default(false).describe('spans name the tenant (`proxy.tenant`)'),
	max_queue_spans: wholeNumberOr(4096, 64, MAX_SPANS, 'of spans').describe(
		'spans that wait for the collector, of all workers; beyond it they are dropped and counted',
	),
}).meta(explained('requests as spans of OpenTelemetry; see docs/reference/tracing.md', { read: 'at start' }));

/** @returns the address, or in words why the text is none; they quote nothing of it. */
export function parseEndpoint(address: string): URL | string {
	const url = URL.parse(address);
	if (url === null || !/^https?:\/\/[^/]/i.test(address)) {
		return 'write it in full, for example "http://127.0.0.1:4318/v1/traces"';
	}
	if (url.username !== '' || url.password !== '')
		return 'user info is not sent; put an authorization field into headers_path';
	if (address.includes('#')) return 'a fragment is not sent; leave it out';
	return url;
}
