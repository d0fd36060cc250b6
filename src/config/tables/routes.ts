import { z } from 'zod';
import { prefixProblem } from '../prefix.ts';
import { parseUpstream } from '../upstream.ts';
import { routeBreakerKeys } from './breaker.ts';
import { MAX_SECONDS, table, text, wholeNumber } from './kinds.ts';
import { routeCallerKeys } from './route-callers.ts';
import { routeRateKeys } from './tenants.ts';
import { routeUpstreamKeys } from './upstream-keys.ts';

/** One `[[routes]]` (specification 2.1). */
export const route = table('[[routes]]', {
	prefix: text('a path that begins with "/"', 'set it to the paths to route, for example "/api"').superRefine(
		(prefix, context) => {
			const problem = prefixProblem(prefix);
			if (problem !== undefined) context.addIssue(problem);
		},
	),
	upstream: text(
		'http://host[:port], one address',
		'set it to the address to route to, for example "http://localhost:3000"',
	).transform((address, context) => {
		const upstream = parseUpstream(address);
		if (typeof upstream !== 'string') return upstream;
		context.addIssue(upstream);
		return z.NEVER;
	}),
	cooldown_secs: wholeNumber(1, MAX_SECONDS, 'default_cooldown_secs', 'of seconds').optional(),
	...routeBreakerKeys,
	...routeUpstreamKeys,
	...routeCallerKeys,
	...routeRateKeys,
});
