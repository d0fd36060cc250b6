import { z } from 'zod';
import { prefixProblem } from '../prefix.ts';
import { parseUpstream } from '../upstream.ts';
import { routeBreakerKeys } from './breaker.ts';
import { routeForwardingKeys } from './forwarding.ts';
import { checked, flagOr, MAX_SECONDS, optional, table, text, wholeNumber } from './kinds.ts';
import { routeLimitKeys } from './limits.ts';
import { routeCallerKeys } from './route-callers.ts';
import { routeRateKeys } from './tenants.ts';
import { routeUpstreamKeys } from './upstream-keys.ts';
import { GROUP_NAME } from './upstreams.ts';
import { routeWebSocketKeys } from './web-socket.ts';

/** One `[[routes]]`. */
export const route = table('[[routes]]', {
	prefix: checked(
		text('a path that begins with "/"', 'set it to the paths to route, for example "/api"'),
		'^/[\\x21\\x22\\x24-\\x3e\\x40-\\x7e]*$',
		prefixProblem,
	).describe("prefix of the route's paths, matched on a path-segment boundary, longest first"),
	case_insensitive: flagOr(false).describe(
		'the upstream ignores letter case in paths (IIS, file systems of Windows and macOS, Express). A request whose path matches this route only if letter case is ignored gets 400',
	),
	upstream: text(
		'http://host[:port], https://host[:port] or h2c://host[:port], one address, or the name of an [[upstreams]]',
		'set it to the address to route to, for example "http://localhost:3000"',
	)
		.transform((upstream, context) => {
			// `route-conflicts.ts` looks for an upstream of that name.
			if (GROUP_NAME.test(upstream)) return upstream;
			const url = parseUpstream(upstream);
			if (typeof url !== 'string') return url;
			context.addIssue(url);
			return z.NEVER;
		})
		.meta({
			pattern:
				'^(?:[A-Za-z0-9_-]+|(?:[Hh][Tt][Tt][Pp][Ss]?|[Hh]2[Cc])://(?:\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?)$',
		})
		.describe(
			'destination of the requests: one address, `http://host[:port]`, `https://host[:port]` or, for HTTP/2 in the clear, `h2c://host[:port]`; or the name of an `[[upstreams]]` entry',
		),
	cooldown_secs: optional(
		wholeNumber(1, MAX_SECONDS, 'default_cooldown_secs', 'of seconds'),
		'how long its breaker stays open before it admits one request',
		'`default_cooldown_secs`',
	),
	trailers: flagOr(true).describe(
		'forward trailers of requests and responses. A trailer that could be mistaken for a header field is always dropped',
	),
	...routeBreakerKeys,
	...routeLimitKeys,
	...routeUpstreamKeys,
	...routeForwardingKeys,
	...routeCallerKeys,
	...routeRateKeys,
	...routeWebSocketKeys,
}).describe('a path prefix and its upstream, one table for each');
