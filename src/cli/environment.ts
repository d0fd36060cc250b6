import { suggest } from '../shared/suggest.ts';
import { RUN_OPTIONS } from './options.ts';

/** A variable that looks as if it were meant for the proxy, and what to do about it. */
export interface UnknownVariable {
	readonly name: string;
	readonly message: string;
}

/**
 * Finds `PROXY_*` variables that nobody reads: a mistyped one changes nothing, and nothing says so. Their values are not
 * looked at.
 */
export function unknownVariables(env: Readonly<Record<string, string | undefined>>): UnknownVariable[] {
	return Object.keys(env)
		.filter((name) => name.startsWith('PROXY_') && !KNOWN.includes(name) && !OF_A_SERVICE.test(name))
		.sort()
		.map((name) => {
			const meant = suggest(name, KNOWN);
			const remedy = meant === undefined ? `there are ${KNOWN.join(', ')}` : `did you mean ${meant}?`;
			return { name, message: `is read by nobody; ${remedy}` };
		});
}

const KNOWN = Object.values<{ env?: string }>(RUN_OPTIONS).flatMap(({ env }) =>
	env?.startsWith('PROXY_') ? [env] : [],
);

/** Kubernetes sets these in every pod beside a Service called `proxy` or `proxy-…`. */
const OF_A_SERVICE =
	/^PROXY_(?:\w+_)?(?:SERVICE_(?:HOST|PORT(?:_\w+)?)|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)$/;
