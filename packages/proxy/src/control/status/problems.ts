import { plural } from '../../config/wording.ts';
import type { CircuitName } from '../../memory/transition-counts.ts';
import { MEANWHILE } from '../facts/store.ts';
import type { Found, Panel, Problem, ReloadStatus, ShareStatus, Snapshot } from './schema.ts';
import { DAY_MS } from './times.ts';
import { queryOf, WHOLE_VIEW } from './view.ts';

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
export function judge(snapshot: Found): Snapshot {
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

function processProblems({ process, workers }: Found): Problem[] {
	const { not_ready } = process;
	const look = 'log targets proxy and proxy::worker';
	if (not_ready !== null) {
		const text = `Not ready: ${not_ready}`;
		return [{ severity: 'error', text, since: null, look, ...linkTo('workers') }];
	}
	const missing = workers.configured - workers.listening;
	if (missing <= 0) return [];
	const text = `${missing} of ${plural(workers.configured, 'worker')} ${missing === 1 ? 'does' : 'do'} not accept connections`;
	return [{ severity: 'error', text, since: null, look, ...linkTo('workers') }];
}

function upstreamProblems({ upstreams }: Found): Problem[] {
	const about = (
		severity: Problem['severity'],
		some: typeof upstreams,
		[one, many]: readonly [one: string, many: string],
		look: string,
		since: (upstream: (typeof upstreams)[number]) => string | null,
	): Problem[] => {
		if (some.length === 0) return [];
		const names = some.map(({ upstream }) => upstream);
		const text = counted(names, one, many);
		return [{ severity, text, since: earliest(some.map(since)), look, ...linkToUpstreams(names) }];
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

/** Which answers or handshakes, what to look at, and where. */
const SHARES: Readonly<Record<ShareStatus['kind'], { what: string; of: string; look: string; panel: Panel }>> = {
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
		return [{ severity, text, since: over_since, look, ...linkTo(panel) }];
	});
}

function dnsProblems({ dns, at }: Found): Problem[] {
	const named = (some: typeof dns) =>
		some.map(({ group, name, cause }) => `${group} (${name}${cause === null ? '' : `: ${cause}`})`);
	const look = 'the name, and dns_server if set; log target proxy::dns';
	const about = (some: typeof dns) => ({
		since: earliest(some.map(({ failing_since }) => failing_since)),
		look,
		...linkTo('dns'),
	});
	const empty = dns.filter(({ addresses }) => addresses === 0);
	const away = dns.filter(
		({ addresses, failing_since: since }) =>
			addresses > 0 && since !== null && Date.parse(at) - Date.parse(since) >= DNS_AWAY_S * 1000,
	);
	const problems: Problem[] = [];
	if (empty.length > 0) {
		const text = counted(named(empty), 'An upstream has no address', 'upstreams have no address');
		problems.push({ severity: 'error', text, ...about(empty) });
	}
	if (away.length > 0) {
		const text = counted(named(away), 'DNS lookups fail for an upstream', 'upstreams have failing DNS lookups');
		problems.push({ severity: 'warning', text: `${text}; the last addresses stay in use`, ...about(away) });
	}
	return problems;
}

function certificateProblems({ certificates }: Found): Problem[] {
	return certificates.flatMap(({ kind, subject, days_left, not_after }): Problem[] => {
		const rest = { look: 'renew it, and reload: proxy reload', ...linkTo('certificates') };
		const which = `The ${KINDS[kind]} ${subject}`;
		if (days_left < 0) {
			const text = kind === 'crl' ? `${which} is overdue` : `${which} has expired`;
			return [{ severity: 'error', text, since: not_after, ...rest }];
		}
		// A CRL is replaced every few hours or days: only an expired one is worth a warning.
		if (kind === 'crl' || days_left >= EXPIRES_SOON_DAYS) return [];
		const text = `${which} expires in ${plural(days_left, 'day')}`;
		const since = new Date(Date.parse(not_after) - EXPIRES_SOON_DAYS * DAY_MS).toISOString();
		return [{ severity: 'warning', text, since, ...rest }];
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
	return issuers
		.filter(({ keys }) => keys.length === 0)
		.map(({ issuer, age_seconds: age }) => ({
			severity: 'error',
			text: `No keys of ${issuer ?? 'the issuer'}: its tokens are refused`,
			since: age === null ? process.started_at : null,
			look: 'its jwks_url, and the network path to it; log target proxy::jwks',
			...linkTo('issuers'),
		}));
}

function budgetProblems({ memory }: Found): Problem[] {
	return memory
		.filter(({ used, limit }) => limit > 0 && used >= limit * FULL)
		.map(({ name, used, limit, key }) => ({
			severity: used >= limit ? 'error' : 'warning',
			text: `The limit for ${name} (${key}) is ${Math.floor((used / limit) * 100)} % used`,
			since: null,
			look: `connections and requests in flight by worker; or raise ${key}`,
			...linkTo('memory'),
		}));
}

function reloadProblems({ reloads }: Found): Problem[] {
	const latest = ['tls', 'identity', 'routes'].map((part) => reloads.last.find((one) => one.part === part));
	const failed = latest.filter((one) => one?.outcome === 'failure') as ReloadStatus[];
	const problems: Problem[] = [];
	if (failed.length > 0) {
		const parts = failed.map(({ part }) => part).join(', ');
		const text = `The last reload of ${parts} failed: the previous state stays in force`;
		const look = 'its cause, below; proxy check finds it in the files';
		problems.push({ severity: 'error', text, since: earliest(failed.map(({ at }) => at)), look, ...linkTo('reloads') });
	}
	const vain = reloads.needs_restart;
	if (vain.length > 0) {
		const text = counted(vain, 'A setting needs a restart', 'settings need a restart');
		const look = 'restart the proxy, or undo the change and reload';
		problems.push({ severity: 'warning', text, since: reloads.needs_restart_since, look, ...linkTo('reloads') });
	}
	return problems;
}

function limitProblems({ shared_limits: limits }: Found): Problem[] {
	if (limits === null) return [];
	if (limits.store === 'up') return limits.settle_seconds > SLOW_SETTLE_S ? [slowStore(limits.settle_seconds)] : [];
	const text = `The shared-limits store is unavailable (${limits.reason ?? 'no reply yet'}): ${MEANWHILE[limits.on_store_failure]}`;
	return [
		{
			severity: limits.on_store_failure === 'refuse' ? 'error' : 'warning',
			text,
			since: limits.since,
			look: `${limits.cause === null ? '' : `${limits.cause}; `}start the store, or fix the network path to it; log target proxy::limiter`,
			...linkTo('limits'),
		},
	];
}

function logProblems({ log }: Found): Problem[] {
	if (log.failing_since === null) return [];
	const text = `The log cannot be written (${log.cause}): ${plural(log.lost_total, 'line')} lost since the start`;
	const look =
		log.cause === 'ENOSPC' ? 'the disk under the log is full' : 'where standard output goes, and what reads it';
	return [{ severity: 'error', text, since: log.failing_since, look, ...linkTo('memory') }];
}

function linkTo(panel: Panel): Pick<Problem, 'panel' | 'link'> {
	return { panel, link: `#${panel}` };
}

/** Links to the affected rows: healthy ones may fill pages. */
function linkToUpstreams(names: readonly string[]): Pick<Problem, 'panel' | 'link'> {
	const view = names.length === 1 ? { filter: names[0]! } : { troubled: true };
	return { panel: 'upstreams', link: `${queryOf({ ...WHOLE_VIEW, ...view })}#upstreams` };
}

function earliest(times: readonly (string | null)[]): string | null {
	return times.filter((time) => time !== null).sort()[0] ?? null;
}

function slowStore(seconds: number): Problem {
	const text = `The store of the shared limits is slow: replicas learn of each other within ${seconds.toFixed(2)} s`;
	return { severity: 'warning', text, since: null, look: 'log target proxy::limiter', ...linkTo('limits') };
}

/** How many there are, and the names of some. */
function counted(names: readonly string[], one: string, many: string): string {
	const more = names.length - MAX_NAMES;
	const which = `${names.slice(0, MAX_NAMES).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
	return names.length === 1 ? `${one}: ${which}` : `${names.length} ${many}: ${which}`;
}
