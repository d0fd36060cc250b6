import { z } from 'zod';
import { parseAddress } from '../upstream.ts';
import { expected, explained, table, text } from './kinds.ts';
import { groupUpstreamKeys } from './upstream-keys.ts';
import { upstreamTls } from './upstream-tls.ts';

/** What no address of an upstream can be taken for. */
export const GROUP_NAME = /^[A-Za-z0-9_-]+$/;

/** Each has a breaker, probes and connections of its own, in every thread. */
const MAX_ADDRESSES = 1000;

const LIST = 'a list of addresses';
const REMEDY = 'set it to the addresses to balance over, for example ["10.0.0.1:8080", "10.0.0.2:8080"]';

const address = text('host:port', 'write it as "10.0.0.1:8080" or "[fd00::1]:8080"')
	.transform((written, context) => {
		const parsed = parseAddress(written, undefined);
		if (typeof parsed !== 'string') return parsed;
		context.addIssue(`must be host:port (got ${JSON.stringify(written)}): ${parsed}; write it as "10.0.0.1:8080"`);
		return z.NEVER;
	})
	.meta({ pattern: '^(?:\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._-]+):[0-9]{1,5}$' });

/** One `[[upstreams]]`. */
export const upstream = table('[[upstreams]]', {
	name: text('a name of letters, digits, "-" and "_"', 'set it to the name that routes have for it, as "billing"')
		.regex(GROUP_NAME, {
			error: expected(
				'a name of letters, digits, "-" and "_"',
				'routes name it by that; an address has a dot or a colon',
			),
		})
		.describe('what routes name it by: letters, digits, `-` and `_`'),
	addresses: z
		.array(address, { error: expected(LIST, REMEDY) })
		.min(1, { error: expected(`${LIST}, at least one`, REMEDY) })
		.max(MAX_ADDRESSES, { error: expected(`${LIST}, at most ${MAX_ADDRESSES}`, 'leave some out') })
		.superRefine((addresses, context) => {
			const seen = new Set<string>();
			for (const [i, { authority }] of addresses.entries()) {
				if (seen.has(authority)) {
					context.addIssue({
						code: 'custom',
						path: [i],
						message: `${JSON.stringify(authority)} is there twice; remove one of the two`,
					});
				}
				seen.add(authority);
			}
		})
		.describe('`host:port` of each of its servers; requests are spread over them'),
	...groupUpstreamKeys,
	tls: upstreamTls.optional().meta(
		explained('requests go over TLS (https): a table `[upstreams.tls]` below it, which may be empty', {
			unset: 'plain HTTP',
		}),
	),
}).describe('several addresses that serve the same, one table for each such group');
