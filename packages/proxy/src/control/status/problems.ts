import { plural } from '../../config/wording.ts';
import type { CircuitName } from '../../memory/transition-counts.ts';
import { MEANWHILE } from '../facts/store.ts';
import { RELOADED_PARTS } from '../reload/journal.ts';
import { DAY_MS, iso } from './json.ts';
import type { ShareKind } from './shares.ts';
import type { Found } from './snapshot.ts';
import { queryOf, WHOLE_VIEW } from './view.ts';

export type Snapshot = ReturnType<typeof judge>;

export type Panel =
	| 'upstreams'
	| 'dns'
	| 'refusals'
	| 'handshakes'
	| 'connections'
	| 'grpc'
	| 'certificates'
	| 'issuers'
	| 'workers'
	| 'memory'
	| 'reloads'
	| 'limits'
	| 'tenants';

/** Certificates that expire within this time get a warning, days. The log warns from 30 days on; the page only when it is urgent. */
export const EXPIRES_SOON_DAYS = 14;
/** Share from which a budget counts as full. */
const FULL = 0.9;
/** DNS may fail this long without a warning, seconds: short failures happen every day, and the last addresses hold. */
const DNS_AWAY_S = 60;
/** Answers of the store then take longer than the interval at which it is asked. */
const SLOW_SETTLE_S = 0.4;
/** Names in a sentence; the table has all. */
const MAX_NAMES = 3;

/** Adds the problems, the worst first; a proxy without any is well. Pure. */
export function judge(snapshot: Found) {
	const problems = [
		...processProblems(snapshot),
		...upstreamProblems(snapshot),
		...shareProblems(snapshot),
		...dnsProblems(snapshot),
		...certificateProblems(snapshot),
		...issuerProblems(snapshot),
		...budgetProblems(snapshot),
		...reloadProblems(snapshot),
		...limitProblems(snapshot),
		...logProblems(snapshot),
	];
	problems.sort((a, b) => Number(a.severity === 'warning') - Number(b.severity === 'warning'));
	return { ...snapshot, problems, well: problems.length === 0 };
}

export type Problem = ReturnType<typeof problem>;
type Severity = 'error' | 'warning';

/**
 * @param panel the part of the page with the details.
 * @param text what, and how much of it, in one sentence.
 * @param look what to look at, or to do.
 * @param since when it began, if known.
 * @param link the part of the page's address that shows the affected items.
 */
function problem(
	severity: Severity,
	panel: Panel,
	text: string,
	look: string,
	since: string | null = null,
	link = `#${panel}`,
) {
	return { severity, text, since, look, panel, link };
}

function processProblems({ process: { not_ready }, workers: { configured, listening } }: Found): Problem[] {
	const look = 'log targets proxy and proxy::worker';
	if (not_ready !== null) return [problem('error', 'workers', `Not ready: ${not_ready}`, look)];
	const missing = configured - listening;
	if (missing <= 0) return [];
	const verb = missing === 1 ? 'does' : 'do';
	const text = `${missing} of ${plural(configured, 'worker')} ${verb} not accept connections`;
	return [problem('error', 'workers', text, look)];
}

function upstreamProblems({ upstreams }: Found): Problem[] {
	const about = (
		severity: Severity,
		some: typeof upstreams,
		[one, many]: readonly [one: string, many: string],
		look: string,
		since: (upstream: (typeof upstreams)[number]) => string | null,
	): Problem[] => {
		if (some.length === 0) return [];
		const names = some.map(({ upstream }) => upstream);
		// Healthy rows may fill pages.
		const view = names.length === 1 ? { filter: names[0]! } : { troubled: true };
		const link = `${queryOf({ ...WHOLE_VIEW, ...view })}#upstreams`;
		return [problem(severity, 'upstreams', counted(names, one, many), look, earliest(some.map(since)), link)];
	};
	const inState = (state: CircuitName) => upstreams.filter(({ breaker }) => breaker.state === state);
	const unhealthy = upstreams.filter(({ breaker, health }) => breaker.state === 'closed' && health === 'unhealthy');
	return [
		...about(
			'error',
			inState('open'),
			['A breaker is open', 'breakers are open'],
			`its requests get 503; ${lastProbeOf(inState('open'))}; log target proxy::breaker`,
			({ breaker }) => breaker.since,
		),
		...about(
			'warning',
			inState('half-open'),
			['A breaker is half-open', 'breakers are half-open'],
			'the breaker admits one request at a time until one succeeds; log target proxy::breaker',
			({ breaker }) => breaker.since,
		),
		...about(
			'warning',
			unhealthy,
			['An upstream fails its health check', 'upstreams fail their health checks'],
			`${lastProbeOf(unhealthy)}; log target proxy::health`,
			(one) => one.health_since,
		),
		...about(
			'warning',
			upstreams.filter(({ tls }) => tls === 'not verified'),
			["An upstream's certificate is not verified", 'upstreams have certificates that are not verified'],
			'set ca_path in its [upstreams.tls], and remove insecure_skip_verify',
			() => null,
		),
	];
}

/** The last probe's result for the first of them, and the remedy; the rows show the others. */
function lastProbeOf(upstreams: Found['upstreams']): string {
	const failed = upstreams.find(({ last_probe: last }) => last?.passed === false);
	if (failed === undefined) return 'the row says why';
	const { found, remedy } = failed.last_probe!;
	const which = upstreams.length === 1 ? '' : `${failed.upstream}: `;
	return `${which}${remedy === null ? found : `${found}: ${remedy}`}`;
}

/** Which responses, calls or handshakes, what to look at, and where. */
const SHARES: Readonly<Record<ShareKind, { what: string; of: string; look: string; panel: Panel }>> = {
	'5xx': {
		what: 'are 500 or above',
		of: 'responses',
		look: 'column Errors of the upstreams; log targets proxy::exchange and proxy::breaker; for responses of the upstream itself, its own log',
		panel: 'upstreams',
	},
	grpc: {
		what: 'failed',
		of: 'gRPC calls',
		look: 'their statuses and upstreams; grpc_status in the access log, and the log of the upstream itself',
		panel: 'grpc',
	},
	'401': {
		what: 'are 401',
		of: 'responses',
		look: 'log target proxy::auth says which check refuses; proxy explain --token shows it for one token',
		panel: 'refusals',
	},
	'429': {
		what: 'are 429',
		of: 'responses',
		look: 'which limit refuses: tenant_rps, [[tenants]], or rps of a route; the access log names tenant and route',
		panel: 'refusals',
	},
	handshakes: {
		what: 'failed',
		of: 'TLS handshakes',
		look: 'the reasons, and log target proxy::tls with address and certificate of the clients',
		panel: 'handshakes',
	},
};
/** From this share on, the configuration or an issuer is wrong, and not a few clients. */
const NEARLY_ALL = 0.9;

function shareProblems({ shares }: Found): Problem[] {
	return shares.flatMap(({ kind, count, total, over_since }): Problem[] => {
		if (over_since === null) return [];
		const { what, of, look, panel } = SHARES[kind];
		const text = `${count} of ${total} ${of} of the last minute ${what} (${Math.floor((count / total) * 100)} %)`;
		const isFailure = kind === '5xx' || kind === 'grpc';
		const severity = isFailure || count / total >= NEARLY_ALL ? 'error' : 'warning';
		return [problem(severity, panel, text, look, over_since)];
	});
}

function dnsProblems({ dns, at }: Found): Problem[] {
	const about = (severity: Severity, some: typeof dns, one: string, many: string, more = ''): Problem[] => {
		if (some.length === 0) return [];
		const names = some.map(({ group, name, cause }) => `${group} (${name}${cause === null ? '' : `: ${cause}`})`);
		const since = earliest(some.map(({ failing_since }) => failing_since));
		const look = 'the name, and dns_server if set; log target proxy::dns';
		return [problem(severity, 'dns', `${counted(names, one, many)}${more}`, look, since)];
	};
	const empty = dns.filter(({ addresses }) => addresses === 0);
	const away = dns.filter(
		({ addresses, failing_since: since }) =>
			addresses > 0 && since !== null && Date.parse(at) - Date.parse(since) >= DNS_AWAY_S * 1000,
	);
	const more = '; the last addresses stay in use';
	return [
		...about('error', empty, 'An upstream has no address', 'upstreams have no address'),
		...about('warning', away, 'DNS lookups fail for an upstream', 'upstreams have failing DNS lookups', more),
	];
}

function certificateProblems({ certificates }: Found): Problem[] {
	const look = 'renew it, and reload: proxy reload';
	return certificates.flatMap(({ kind, subject, days_left, not_after }): Problem[] => {
		const which = `The ${KINDS[kind]} ${subject}`;
		if (days_left < 0) {
			const text = kind === 'crl' ? `${which} is overdue` : `${which} has expired`;
			return [problem('error', 'certificates', text, look, not_after)];
		}
		// A CRL is replaced every few hours or days: only an expired one is worth a warning.
		if (kind === 'crl' || days_left >= EXPIRES_SOON_DAYS) return [];
		const since = iso(Date.parse(not_after) - EXPIRES_SOON_DAYS * DAY_MS);
		return [problem('warning', 'certificates', `${which} expires in ${plural(days_left, 'day')}`, look, since)];
	});
}

const KINDS = {
	server: 'server certificate',
	server_chain: 'issuer certificate',
	client_ca: 'client CA',
	crl: 'CRL of',
	upstream_client: 'certificate for upstreams',
	upstream_ca: 'CA of upstreams',
} as const;

function issuerProblems({ issuers, process }: Found): Problem[] {
	const look = 'its jwks_url, and the network path to it; log target proxy::jwks';
	return issuers
		.filter(({ keys }) => keys.length === 0)
		.map(({ issuer, age_seconds: age }) => {
			const text = `No keys of ${issuer ?? 'the issuer'}: its tokens are refused`;
			return problem('error', 'issuers', text, look, age === null ? process.started_at : null);
		});
}

function budgetProblems({ memory }: Found): Problem[] {
	return memory
		.filter(({ used, limit }) => limit > 0 && used >= limit * FULL)
		.map(({ name, used, limit, key }) => {
			const text = `The limit for ${name} (${key}) is ${Math.floor((used / limit) * 100)} % used`;
			const look = `connections and requests in flight by worker; or raise ${key}`;
			return problem(used >= limit ? 'error' : 'warning', 'memory', text, look);
		});
}

function reloadProblems({ reloads }: Found): Problem[] {
	const { last, needs_restart: vain, needs_restart_since } = reloads;
	const latest = RELOADED_PARTS.flatMap((part) => last.find((one) => one.part === part) ?? []);
	const failed = latest.filter(({ outcome }) => outcome === 'failure');
	const problems: Problem[] = [];
	if (failed.length > 0) {
		const parts = failed.map(({ part }) => part).join(', ');
		const text = `The last reload of ${parts} failed: the previous state stays in force`;
		const look = 'its cause, below; proxy check finds it in the files';
		problems.push(problem('error', 'reloads', text, look, earliest(failed.map(({ at }) => at))));
	}
	if (vain.length > 0) {
		const text = counted(vain, 'A setting needs a restart', 'settings need a restart');
		const look = 'restart the proxy, or undo the change and reload';
		problems.push(problem('warning', 'reloads', text, look, needs_restart_since));
	}
	return problems;
}

function limitProblems({ shared_limits: limits }: Found): Problem[] {
	if (limits === null) return [];
	const { store, settle_seconds, reason, cause, on_store_failure, since } = limits;
	const log = 'log target proxy::limiter';
	if (store === 'up') {
		if (settle_seconds <= SLOW_SETTLE_S) return [];
		const text = `The store of the shared limits is slow: replicas learn of each other within ${settle_seconds.toFixed(2)} s`;
		return [problem('warning', 'limits', text, log)];
	}
	const severity = on_store_failure === 'refuse' ? 'error' : 'warning';
	const text = `The shared-limits store is unavailable (${reason ?? 'no reply yet'}): ${MEANWHILE[on_store_failure]}`;
	const look = `${cause === null ? '' : `${cause}; `}start the store, or fix the network path to it; ${log}`;
	return [problem(severity, 'limits', text, look, since)];
}

function logProblems({ log: { failing_since, cause, lost_total } }: Found): Problem[] {
	if (failing_since === null) return [];
	const text = `The log cannot be written (${cause}): ${plural(lost_total, 'line')} lost since the start`;
	const look = cause === 'ENOSPC' ? 'the disk under the log is full' : 'where standard output goes, and what reads it';
	return [problem('error', 'memory', text, look, failing_since)];
}

function earliest(times: readonly (string | null)[]): string | null {
	return times.filter((time) => time !== null).sort()[0] ?? null;
}

/** How many there are, and the names of some. */
function counted(names: readonly string[], one: string, many: string): string {
	const more = names.length - MAX_NAMES;
	const which = `${names.slice(0, MAX_NAMES).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
	return names.length === 1 ? `${one}: ${which}` : `${names.length} ${many}: ${which}`;
}
