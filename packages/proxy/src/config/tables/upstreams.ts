import { isIP } from 'node:net';
import { z } from 'zod';
import { BALANCES, DEFAULT_BALANCING, MAX_RETRIES, MAX_WEIGHT } from '../../gates/balancing/settings.ts';
import { UPSTREAM_PROTOCOLS } from '../../shared/messages.ts';
import { type GroupAddress, parseAddress, parseUpstream, withoutUserInfo } from '../upstream.ts';
import {
	either,
	expected,
	oneOfOr,
	optional,
	parsed,
	seconds,
	secondsOrNone,
	table,
	text,
	wholeNumber,
	wholeNumberOr,
} from './kinds.ts';
import { groupUpstreamKeys } from './upstream-keys.ts';
import { upstreamTls } from './upstream-tls.ts';

/** A name without `.` and `:` cannot be mistaken for an address. */
export const GROUP_NAME = /^[A-Za-z0-9_-]+$/;

/** Each address has its own breaker, probes and connections, in every thread. */
const MAX_ADDRESSES = 1000;

/** Half the range of a 32-bit word. */
const MAX_COUNT = 2 ** 30;

const LIST = 'a list of addresses';
const REMEDY = 'set it to the addresses to balance over, for example ["10.0.0.1:8080", "10.0.0.2:8080"]';

const JSON_ADDRESS = { type: 'string', pattern: '^(?:\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._-]+):[0-9]{1,5}$' } as const;

const hostAndPort = parsed(
	text('host:port', 'write it as "10.0.0.1:8080" or "[fd00::1]:8080"'),
	JSON_ADDRESS.pattern,
	(written) => {
		const address = parseAddress(written, undefined);
		return typeof address === 'string' ? refusal(written, address, 'write it as "10.0.0.1:8080"') : address;
	},
);

const EITHER = expected('"host:port" or { address = "host:port", weight = 2 }', 'write it as "10.0.0.1:8080"');
const UNKNOWN = 'unknown key; the keys of an address are address and weight';
const weighted = z
	.strictObject(
		{ address: hostAndPort, weight: wholeNumberOr(1, 1, MAX_WEIGHT) },
		{ error: (issue) => (issue.code === 'unrecognized_keys' ? UNKNOWN : EITHER(issue)) },
	)
	.transform(({ address: own, weight }): GroupAddress => ({ ...own, weight }));

/** An address with or without a weight. */
const address = either((value): z.ZodType<GroupAddress> => (typeof value === 'string' ? hostAndPort : weighted), {
	anyOf: [
		JSON_ADDRESS,
		{
			type: 'object',
			properties: { address: JSON_ADDRESS, weight: { type: 'integer', minimum: 1, maximum: MAX_WEIGHT, default: 1 } },
			required: ['address'],
			additionalProperties: false,
		},
	],
});

/** @param remedy for the problem; a URL without user info gets its own remedy. */
function refusal(written: string, problem: string, remedy: string): string {
	if (written.includes('@')) {
		return `must be host:port (got ${JSON.stringify(withoutUserInfo(written))}): user info is not sent to upstreams; ${remedy}`;
	}
	const url = parseUpstream(written.replace(/\/$/, ''));
	const isUrl = typeof url !== 'string';
	const below = isUrl && url.tls ? ', and a table [upstreams.tls] below its keys' : '';
	const why = isUrl
		? `it is a URL; write it as ${JSON.stringify(url.address.authority)}${below}`
		: `${problem}; ${remedy}`;
	return `must be host:port (got ${JSON.stringify(written)}): ${why}`;
}

/** One `[[upstreams]]`. */
export const upstream = table('[[upstreams]]', {
	name: text('a name of letters, digits, "-" and "_"', 'set it to the name that routes use, for example "billing"')
		.regex(GROUP_NAME, {
			error: expected(
				'a name of letters, digits, "-" and "_"',
				'routes refer to it by this name; an address has a dot or a colon',
			),
		})
		.describe('name that routes refer to: letters, digits, `-` and `_`'),
	addresses: optional(
		z
			.array(address, { error: expected(LIST, REMEDY) })
			.min(1, { error: expected(`${LIST}, at least one`, REMEDY) })
			.max(MAX_ADDRESSES, { error: expected(`${LIST}, at most ${MAX_ADDRESSES}`, 'leave some out') })
			.superRefine((addresses, context) => {
				const seen = new Set<string>();
				for (const [i, { authority }] of addresses.entries()) {
					const message = `${JSON.stringify(authority)} is duplicated; remove one of the two`;
					if (seen.has(authority)) context.addIssue({ code: 'custom', path: [i], message });
					seen.add(authority);
				}
			}),
		'`host:port` of each of its servers, or `{ address = "host:port", weight = 2 }` for twice as many requests as weight 1',
		'those of `dns`',
	),
	dns: optional(
		parsed(
			text('host:port', 'set it to the name to look up and the port, for example "billing.internal:8080"'),
			'^[A-Za-z0-9._-]+:[0-9]{1,5}$',
			(written) => {
				const name = parseAddress(written, undefined);
				if (typeof name !== 'string' && isIP(name.host) === 0) return name;
				const problem = typeof name === 'string' ? name : 'it is an IP address, which belongs in addresses';
				return refusal(written, problem, 'write it as "billing.internal:8080"');
			},
		),
		'DNS name and port (`host:port`), instead of `addresses`. The upstream uses all IPv4 and IPv6 addresses of that name',
		'none',
	),
	dns_refresh_secs: seconds(30).describe(
		'time between two lookups of `dns`. A shorter TTL overrides it, but never below 1 s',
	),
	dns_server: optional(
		text('address:port', 'set it to the DNS server to ask, for example "127.0.0.1:8600"').refine(
			(written) =>
				/^(\d+\.\d+\.\d+\.\d+|\[[^\]]+\]):/.test(written) && typeof parseAddress(written, undefined) !== 'string',
			{
				error: expected(
					'the address and the port of a DNS server',
					'set it to its address, for example "127.0.0.1:8600"',
				),
			},
		),
		'`address:port` of the DNS server for `dns`',
		'the resolver of the machine',
	),
	balance: oneOfOr(BALANCES, DEFAULT_BALANCING.balance).describe(
		'how the proxy chooses an address: the less busy of two, each in turn, or by tenant, so that a tenant stays with its address; see docs/reference/upstreams.md',
	),
	slow_start_secs: secondsOrNone().describe(
		'how long a new or recovered address gets less traffic than its weight calls for; 0: no slow start',
	),
	connect_timeout_secs: seconds(5).describe('time to connect to an address'),
	retries: wholeNumberOr(DEFAULT_BALANCING.retries, 0, MAX_RETRIES, 'of retries').describe(
		'retries to other addresses, for undelivered requests, and for `GET`, `HEAD` or `OPTIONS` requests whose connection ended before the response. At most a fifth of all requests',
	),
	max_requests: optional(
		wholeNumber(1, MAX_COUNT, 'no limit', 'of requests in flight'),
		'requests in flight at each address, across all threads. Further requests wait in the `queue`',
		'no limit',
	),
	max_connections: optional(
		wholeNumber(1, MAX_COUNT, 'no limit', 'of connections'),
		'connections to each address, idle ones included, across all threads',
		'no limit',
	),
	queue: wholeNumberOr(0, 0, MAX_COUNT, 'of requests that wait').describe(
		'requests that may wait while all addresses are at a limit, across all threads. Tenants take turns. Further requests get 503 `overloaded`',
	),
	queue_timeout_secs: seconds(5).describe('maximum time in the queue. After that the request gets 503 `overloaded`'),
	...groupUpstreamKeys,
	protocol: oneOfOr(UPSTREAM_PROTOCOLS, 'http/1.1').describe(
		'protocol for connections to its addresses. `h2` is HTTP/2: in the clear with prior knowledge, over TLS with ALPN. With `auto` (TLS only), each connection negotiates the protocol by ALPN',
	),
	tls: optional(
		upstreamTls,
		'enable TLS to the upstream with an `[upstreams.tls]` table below its `[[upstreams]]` entry. The table may be empty',
		'plain HTTP',
	),
}).describe('a group of addresses that run the same service, one table for each group');
