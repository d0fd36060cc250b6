import { z } from 'zod';
import { MAX_SERVICE_BYTES } from '../../gates/grpc-health.ts';
import { either, flag, flagOr, optional, seconds, secondsOr, text, wholeNumber, wholeNumberOr } from './kinds.ts';

/** A verdict that needs more probes than this would never come. */
const MAX_VERDICTS = 1000;

const MEANINGS = {
	health: 'probe upstreams. An upstream without probes starts with a closed breaker, and has no `proxy_upstream_alive`',
	health_path: 'path of a probe. A 2xx passes',
	health_timeout_secs: 'time for the response to a probe',
	unhealthy_after:
		'number of failed probes in a row that make an upstream unhealthy. Its first probe takes effect at once',
	healthy_after:
		'number of passed probes in a row that make an upstream healthy again. Its first probe takes effect at once',
	upstream_idle_timeout_secs:
		"how long the proxy keeps an idle connection to an upstream. Set it below the upstream's own limit",
};

/**
 * Settings of an upstream, whichever route leads to it: health probes, and how long idle connections are kept. At the top of
 * the file the keys apply to all upstreams, in an `[[upstreams]]` table to its addresses, in a `[[routes]]` table to the address of
 * its URL.
 */
export const upstreamKeys = {
	health: flagOr(true).describe(MEANINGS.health),
	health_path: healthPath().default('/health').describe(MEANINGS.health_path),
	health_timeout_secs: seconds(2).describe(MEANINGS.health_timeout_secs),
	unhealthy_after: wholeNumberOr(1, 1, MAX_VERDICTS, 'of probes in a row').describe(MEANINGS.unhealthy_after),
	healthy_after: wholeNumberOr(1, 1, MAX_VERDICTS, 'of probes in a row').describe(MEANINGS.healthy_after),
	upstream_idle_timeout_secs: seconds(4).describe(MEANINGS.upstream_idle_timeout_secs),
};

/** Replaces `health_path`. */
function healthGrpc(where: string) {
	const wanted = `true, or the name of a service in at most ${MAX_SERVICE_BYTES} characters of visible ASCII`;
	const remedy = 'leave it out for probes by GET';
	const name = text(wanted, remedy, /^[\x21-\x7e]{1,127}$/);
	const choice = either<boolean | string>((value) => (typeof value === 'boolean' ? z.boolean() : name), {
		anyOf: [{ type: 'boolean' }, { type: 'string', pattern: '^[\\x21-\\x7e]{1,127}$' }],
		noun: 'a service',
	});
	return optional(
		choice.optional(),
		`probe with \`grpc.health.v1.Health/Check\` over HTTP/2, instead of \`health_path\`: \`true\` asks about the whole server, and a service name about that service${where}`,
		'probes by `GET`',
	);
}

const GLOBAL = 'the value at the top of the file';

/** @param where the place in the file, appended to each description. */
function ownKeys(where: string) {
	const own = <Type extends z.ZodType>(key: keyof typeof MEANINGS, type: Type) =>
		optional(type, `${MEANINGS[key]}${where}`, GLOBAL);
	const verdicts = () => wholeNumber(1, MAX_VERDICTS, GLOBAL, 'of probes in a row');
	return {
		health: own('health', flag(GLOBAL)),
		health_path: own('health_path', healthPath()),
		health_timeout_secs: own('health_timeout_secs', secondsOr(GLOBAL)),
		unhealthy_after: own('unhealthy_after', verdicts()),
		healthy_after: own('healthy_after', verdicts()),
		upstream_idle_timeout_secs: own('upstream_idle_timeout_secs', secondsOr(GLOBAL)),
		health_grpc: healthGrpc(where),
	} satisfies Record<keyof typeof upstreamKeys | 'health_grpc', unknown>;
}

/** In `[[routes]]` with the URL of an upstream. */
export const routeUpstreamKeys = ownKeys('; the same for all routes to one upstream');
/** In `[[upstreams]]`. */
export const groupUpstreamKeys = ownKeys('');

/** Origin form (RFC 9112 section 3.2.1), as in the probe's request line: a query is allowed, a fragment is not. */
function healthPath() {
	const wanted = 'a path that begins with "/", of visible ASCII and without "#"';
	const remedy = 'set it to a path that the upstream answers with 2xx when it is healthy, for example "/health"';
	return text(wanted, remedy, /^\/[\x21\x22\x24-\x7e]*$/);
}
