import { MEANWHILE } from '../facts/store.ts';
import type { Problem, Snapshot } from './schema.ts';

/** Certificates that end so soon are worth a warning, days. The log warns from 30 on; here it must still mean something. */
export const EXPIRES_SOON_DAYS = 14;
/** Of a budget. */
const FULL = 0.9;
/** So long DNS may fail without a word, seconds: for seconds it does so every day, and the last addresses hold. */
const DNS_AWAY_S = 60;
/** Names in a sentence; the table has all. */
const MAX_NAMES = 3;

/** A snapshot before it is judged. */
export type Found = Omit<Snapshot, 'well' | 'problems'>;

/** What is wrong, the worst first; a proxy of which nothing is said here is well. Pure. */
export function findProblems(snapshot: Found): Problem[] {
	const problems = [
		...processProblems(snapshot),
		...upstreamProblems(snapshot),
		...dnsProblems(snapshot),
		...certificateProblems(snapshot),
		...issuerProblems(snapshot),
		...budgetProblems(snapshot),
		...reloadProblems(snapshot),
		...limitProblems(snapshot),
	];
	return problems.sort((a, b) => Number(a.severity === 'warning') - Number(b.severity === 'warning'));
}

function processProblems({ process, workers }: Found): Problem[] {
	const problems: Problem[] = [];
	const { not_ready } = process;
	if (not_ready !== null) problems.push({ severity: 'error', text: `Not ready: ${not_ready}`, panel: 'workers' });
	const missing = workers.configured - workers.listening;
	if (missing > 0 && not_ready === null) {
		const text = `${missing} of ${plural(workers.configured, 'worker')} ${missing === 1 ? 'does' : 'do'} not accept connections`;
		problems.push({ severity: 'error', text, panel: 'workers' });
	}
	return problems;
}

function upstreamProblems({ upstreams }: Found): Problem[] {
	const panel = 'upstreams';
	const open = upstreams.filter(({ breaker }) => breaker.state === 'open');
	const halfOpen = upstreams.filter(({ breaker }) => breaker.state === 'half-open');
	const unverified = upstreams.filter(({ tls }) => tls === 'not verified');
	const unhealthy = upstreams.filter(({ breaker, health }) => breaker.state === 'closed' && health === 'unhealthy');
	const said = (some: typeof upstreams, one: string, many: string) =>
		counted(
			some.map(({ upstream }) => upstream),
			one,
			many,
		);
	return [
		...(open.length > 0
			? [{ severity: 'error', text: said(open, 'A breaker is open', 'breakers are open'), panel } as const]
			: []),
		...(halfOpen.length > 0
			? [
					{
						severity: 'warning',
						text: said(halfOpen, 'A breaker is half-open', 'breakers are half-open'),
						panel,
					} as const,
				]
			: []),
		...(unhealthy.length > 0
			? [
					{
						severity: 'warning',
						text: said(unhealthy, 'An upstream fails its health check', 'upstreams fail their health checks'),
						panel,
					} as const,
				]
			: []),
		...(unverified.length > 0
			? [
					{
						severity: 'warning',
						text: said(
							unverified,
							"An upstream's certificate is not verified",
							'upstreams have certificates that are not verified',
						),
						panel,
					} as const,
				]
			: []),
	];
}

function dnsProblems({ dns, at }: Found): Problem[] {
	const panel = 'dns';
	const named = (some: typeof dns) =>
		some.map(({ group, name, cause }) => `${group} (${name}${cause === null ? '' : `: ${cause}`})`);
	const empty = dns.filter(({ addresses }) => addresses === 0);
	const away = dns.filter(
		({ addresses, failing_since: since }) =>
			addresses > 0 && since !== null && Date.parse(at) - Date.parse(since) >= DNS_AWAY_S * 1000,
	);
	const problems: Problem[] = [];
	if (empty.length > 0) {
		const text = counted(named(empty), 'An upstream has no address', 'upstreams have no address');
		problems.push({ severity: 'error', text, panel });
	}
	if (away.length > 0) {
		const text = counted(named(away), 'DNS fails for an upstream', 'upstreams for which DNS fails');
		problems.push({ severity: 'warning', text: `${text}; the last addresses hold`, panel });
	}
	return problems;
}

function certificateProblems({ certificates }: Found): Problem[] {
	return certificates.flatMap(({ kind, subject, days_left }): Problem[] => {
		const panel = 'certificates';
		const which = `The ${KINDS[kind]} ${subject}`;
		if (days_left < 0) {
			const text = kind === 'crl' ? `${which} is overdue` : `${which} has expired`;
			return [{ severity: 'error', text, panel }];
		}
		// A CRL is replaced every few hours or days: only one that is over is worth a word.
		if (kind === 'crl' || days_left >= EXPIRES_SOON_DAYS) return [];
		return [{ severity: 'warning', text: `${which} expires in ${plural(days_left, 'day')}`, panel }];
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

function issuerProblems({ issuers }: Found): Problem[] {
	return issuers
		.filter(({ keys }) => keys.length === 0)
		.map(({ issuer }) => ({
			severity: 'error',
			text: `No keys of ${issuer ?? 'the issuer'}: its tokens are refused`,
			panel: 'issuers',
		}));
}

function budgetProblems({ memory }: Found): Problem[] {
	return memory
		.filter(({ used, limit }) => limit > 0 && used >= limit * FULL)
		.map(({ name, used, limit, key }) => ({
			severity: used >= limit ? 'error' : 'warning',
			text: `The limit for ${name} (${key}) is ${Math.floor((used / limit) * 100)} % taken`,
			panel: 'memory',
		}));
}

function reloadProblems({ reloads }: Found): Problem[] {
	const failed = ['tls', 'identity', 'routes'].filter(
		(part) => reloads.last.find((one) => one.part === part)?.outcome === 'failure',
	);
	if (failed.length === 0) return [];
	const text = `The last reload of ${failed.join(', ')} failed: what was there before is in force`;
	return [{ severity: 'error', text, panel: 'reloads' }];
}

function limitProblems({ shared_limits: limits }: Found): Problem[] {
	if (limits === null || limits.store === 'up') return [];
	const text = `The store of the shared limits is away (${limits.reason ?? 'no answer yet'}): ${MEANWHILE[limits.on_store_failure]}`;
	return [{ severity: limits.on_store_failure === 'refuse' ? 'error' : 'warning', text, panel: 'limits' }];
}

/** How many there are, and the names of some. */
function counted(names: readonly string[], one: string, many: string): string {
	const more = names.length - MAX_NAMES;
	const which = `${names.slice(0, MAX_NAMES).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
	return names.length === 1 ? `${one}: ${which}` : `${names.length} ${many}: ${which}`;
}

export function plural(count: number, one: string): string {
	return `${count} ${one}${count === 1 ? '' : 's'}`;
}
