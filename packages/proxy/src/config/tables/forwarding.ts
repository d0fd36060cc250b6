import { z } from 'zod';
import { parseAddress } from '../upstream.ts';
import { quote } from '../wording.ts';
import { checked, expected, flag, flagOr, optional, text } from './kinds.ts';

/** Values of `host` other than a host name. */
export const HOST_WORDS: readonly string[] = ['upstream', 'client'];

const MEANINGS = {
	x_forwarded_host: "send `x-forwarded-host` to the upstream: the client's own `Host` or `:authority`, unchanged",
	x_forwarded_port:
		'send `x-forwarded-port` to the upstream: `true` for the port of the listener, a number if a device in front of the proxy maps ports',
	forwarded:
		'send `Forwarded` (RFC 7239) to the upstream: `for=192.0.2.7;host=api.example;proto=https`. `host` is absent if the client named none',
};

/**
 * Fields that describe the client's original request to upstreams. At the top of the file the keys apply to all routes, in a
 * `[[routes]]` table to that route.
 */
export const forwardingKeys = {
	x_forwarded_host: flagOr(false).describe(MEANINGS.x_forwarded_host),
	x_forwarded_port: port('false').default(false).describe(MEANINGS.x_forwarded_port),
	forwarded: flagOr(false).describe(MEANINGS.forwarded),
};

const GLOBAL = 'the value at the top of the file';

/** Changes to forwarded requests of one route. */
export const routeForwardingKeys = {
	host: checked(
		text('"upstream", "client" or a host name', 'leave it out for "upstream"'),
		'^(?:\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?$',
		hostLineProblem,
	)
		.default('upstream')
		.describe(
			'the upstream\'s `Host`: `"upstream"`, its address; `"client"`, the client\'s own, or the address if it named none (HTTP/1.0); or a name, such as `"billing.internal"`',
		),
	strip_prefix: flagOr(false).describe(
		'remove the prefix from the path: the upstream gets `/api/items?page=2` as `/items?page=2`, `/api` as `/`, with `x-forwarded-prefix: /api`',
	),
	x_forwarded_host: optional(flag(GLOBAL), MEANINGS.x_forwarded_host, GLOBAL),
	x_forwarded_port: optional(port(GLOBAL), MEANINGS.x_forwarded_port, GLOBAL),
	forwarded: optional(flag(GLOBAL), MEANINGS.forwarded, GLOBAL),
};

/** @param unset the behaviour without the key. */
function port(unset: string) {
	const error = expected('true, false or a port from 1 to 65535', `leave it out for ${unset}`);
	const number = z.int({ error }).min(1, { error }).max(65_535, { error });
	return z.union([z.boolean(), number], { error });
}

/**
 * Judges the `host` of a route: one of its words, or `host[:port]` as it goes into `Host` (RFC 9110 section 7.2).
 *
 * @returns the fault and the remedy in words; `undefined` if valid.
 */
function hostLineProblem(text: string): string | undefined {
	const problem = problemOf(text);
	if (problem === undefined) return undefined;
	const meant = [
		text.trim().toLowerCase(),
		text
			.trim()
			.replace(/^[a-z][a-z\d+.-]*:\/\//i, '')
			.replace(/[/?#].*$/s, ''),
	];
	const remedy = meant.find((one) => problemOf(one) === undefined) ?? 'billing.internal';
	return `must be "upstream", "client" or host[:port] (got ${quote(text)}): ${problem}; write for example ${quote(remedy)}`;
}

function problemOf(text: string): string | undefined {
	if (HOST_WORDS.includes(text)) return undefined;
	if (HOST_WORDS.includes(text.toLowerCase())) return 'these words must be lower case';
	if (/[/?#]/.test(text)) return 'it must be a host without scheme and path';
	const address = parseAddress(text, 80);
	return typeof address === 'string' ? address : undefined;
}
