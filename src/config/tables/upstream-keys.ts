import { expected, explained, flag, seconds, secondsOr, text, wholeNumber, wholeNumberOr } from './kinds.ts';

/** More would keep a verdict from ever being reached. */
const MAX_VERDICTS = 1000;

const MEANINGS = {
	health: 'probe upstreams; those that are not probed start closed and have no `proxy_upstream_alive`',
	health_path: 'what a probe asks for; a 2xx passes',
	health_timeout_secs: "for a probe's answer",
	unhealthy_after: 'so many failed probes in a row make an upstream unhealthy; the first of all counts at once',
	healthy_after: 'so many passed probes in a row make an upstream healthy again; the first of all counts at once',
	upstream_idle_timeout_secs: 'how long an idle connection to an upstream is kept; less than the upstream keeps it',
};

/**
 * What holds for an upstream, whichever route leads to it: how its health is probed and how long its idle connections are
 * kept. The keys stand at the top of the file for all upstreams, in an `[[upstreams]]` table for its addresses, and in a `[[routes]]`
 * table for the address of its URL.
 */
export const upstreamKeys = {
	health: flag('true').default(true).describe(MEANINGS.health),
	health_path: healthPath().default('/health').describe(MEANINGS.health_path),
	health_timeout_secs: seconds(2).describe(MEANINGS.health_timeout_secs),
	unhealthy_after: wholeNumberOr(1, 1, MAX_VERDICTS, 'of probes in a row').describe(MEANINGS.unhealthy_after),
	healthy_after: wholeNumberOr(1, 1, MAX_VERDICTS, 'of probes in a row').describe(MEANINGS.healthy_after),
	upstream_idle_timeout_secs: seconds(4).describe(MEANINGS.upstream_idle_timeout_secs),
};

const GLOBAL = 'the value at the top of the file';

/** @param where words behind the meaning. */
function ownKeys(where: string) {
	const own = (key: keyof typeof MEANINGS) => explained(`${MEANINGS[key]}${where}`, { unset: GLOBAL });
	const verdicts = () => wholeNumber(1, MAX_VERDICTS, GLOBAL, 'of probes in a row').optional();
	return {
		health: flag(GLOBAL).optional().meta(own('health')),
		health_path: healthPath().optional().meta(own('health_path')),
		health_timeout_secs: secondsOr(GLOBAL).optional().meta(own('health_timeout_secs')),
		unhealthy_after: verdicts().meta(own('unhealthy_after')),
		healthy_after: verdicts().meta(own('healthy_after')),
		upstream_idle_timeout_secs: secondsOr(GLOBAL).optional().meta(own('upstream_idle_timeout_secs')),
	} satisfies Record<keyof typeof upstreamKeys, unknown>;
}

/** Beside the URL of an upstream. */
export const routeUpstreamKeys = ownKeys('; the same for all routes to one upstream');
/** In `[[upstreams]]`. */
export const groupUpstreamKeys = ownKeys('');

/** Origin form (RFC 9112 section 3.2.1), as it goes into the probe's request line: a query may follow, no fragment. */
function healthPath() {
	const wanted = 'a path that begins with "/", of visible ASCII and without "#"';
	const remedy = 'set it to what the upstream answers with 2xx when it is well, for example "/health"';
	const error = expected(wanted, remedy);
	return text(wanted, remedy).regex(/^\/[\x21\x22\x24-\x7e]*$/, { error });
}
