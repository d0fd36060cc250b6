import { z } from 'zod';
import { hostLineProblem } from '../host-line.ts';
import { checked, expected, flag, flagOr, optional, text } from './kinds.ts';

const MEANINGS = {
	x_forwarded_host:
		'tell the upstream in `x-forwarded-host` what the client asked for: its `Host` or `:authority`, as it was sent',
	x_forwarded_port:
		'tell the upstream in `x-forwarded-port` to which port the client has connected: `true` for that of the listener, a number where something before the proxy maps ports',
	forwarded:
		'tell the upstream in `Forwarded` (RFC 7239) of the client: `for=192.0.2.7;host=api.example;proto=https`; `host` is left out where the client named none',
};

/**
 * What upstreams are told of the request as the client has sent it. The keys stand at the top of the file for all routes, and in
 * a `[[routes]]` table for that one.
 */
export const forwardingKeys = {
	x_forwarded_host: flagOr(false).describe(MEANINGS.x_forwarded_host),
	x_forwarded_port: port('false').default(false).describe(MEANINGS.x_forwarded_port),
	forwarded: flagOr(false).describe(MEANINGS.forwarded),
};

const GLOBAL = 'the value at the top of the file';

/** What becomes of a request on its way to the upstream of one route. */
export const routeForwardingKeys = {
	host: checked(
		text('"upstream", "client" or a host name', 'leave it out for "upstream"'),
		'^(?:\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?$',
		hostLineProblem,
	)
		.default('upstream')
		.describe(
			'what stands in `Host`: `"upstream"`, its address; `"client"`, what the client asked for, and the address where it named no host (HTTP/1.0); or a name, as in `"billing.internal"`',
		),
	strip_prefix: flagOr(false).describe(
		'cut the prefix from the path: `/api/items?page=2` goes out as `/items?page=2`, `/api` as `/`, with `x-forwarded-prefix: /api`',
	),
	x_forwarded_host: optional(flag(GLOBAL), MEANINGS.x_forwarded_host, GLOBAL),
	x_forwarded_port: optional(port(GLOBAL), MEANINGS.x_forwarded_port, GLOBAL),
	forwarded: optional(flag(GLOBAL), MEANINGS.forwarded, GLOBAL),
};

/** @param unset what holds if the key is left out. */
function port(unset: string) {
	const error = expected('true, false or a port from 1 to 65535', `leave it out for ${unset}`);
	const number = z.int({ error }).min(1, { error }).max(65_535, { error });
	return z.union([z.boolean(), number], { error });
}
