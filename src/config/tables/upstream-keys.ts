import { expected, flag, seconds, secondsOr, text, wholeNumber, wholeNumberOr } from './kinds.ts';

/** More would keep a verdict from ever being reached. */
const MAX_VERDICTS = 1000;

/**
 * What holds for an upstream, whichever route leads to it: how its health is probed and how long its idle connections are
 * kept. The keys stand at the top of the file for all upstreams, and in a `[[routes]]` table for that of the route.
 */
export const upstreamKeys = {
	health: flag('true').default(true),
	health_path: healthPath().default('/health'),
	health_timeout_secs: seconds(2),
	unhealthy_after: wholeNumberOr(1, 1, MAX_VERDICTS, 'of probes in a row'),
	healthy_after: wholeNumberOr(1, 1, MAX_VERDICTS, 'of probes in a row'),
	upstream_idle_timeout_secs: seconds(4),
};

const GLOBAL = 'the value at the top of the file';

export const routeUpstreamKeys = {
	health: flag(GLOBAL).optional(),
	health_path: healthPath().optional(),
	health_timeout_secs: secondsOr(GLOBAL).optional(),
	unhealthy_after: wholeNumber(1, MAX_VERDICTS, GLOBAL, 'of probes in a row').optional(),
	healthy_after: wholeNumber(1, MAX_VERDICTS, GLOBAL, 'of probes in a row').optional(),
	upstream_idle_timeout_secs: secondsOr(GLOBAL).optional(),
} satisfies Record<keyof typeof upstreamKeys, unknown>;

/** Origin form (RFC 9112 section 3.2.1), as it goes into the probe's request line: a query may follow, no fragment. */
function healthPath() {
	const wanted = 'a path that begins with "/", of visible ASCII and without "#"';
	const remedy = 'set it to what the upstream answers with 2xx when it is well, for example "/health"';
	const error = expected(wanted, remedy);
	return text(wanted, remedy).regex(/^\/[\x21\x22\x24-\x7e]*$/, { error });
}
