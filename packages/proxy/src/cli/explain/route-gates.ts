import { BAD_REQUEST, Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { VerifiedToken } from '@mtls-edge-proxy/gate/gates/token-cache.ts';
import type { Config, RouteConfig } from '../../config/config.ts';
import { quote } from '../../config/wording.ts';
import type { StatusPage } from '../../control/status/view.ts';
import { CIRCUIT_OPEN } from '../../gates/breaker.ts';
import { Forwarding } from '../../gates/forwarding.ts';
import { type CleanTarget, pathOf } from '../../gates/path.ts';
import { RouteTable } from '../../gates/routes.ts';
import { withoutQuery } from '../../gates/target.ts';
import { loadNameReader } from '../../identity/certificate-names.ts';
import { RouteAccess } from '../../identity/route-access.ts';
import { type Client, namesInWords } from './caller.ts';
import { placeOf } from './places.ts';
import type { Reports } from './report.ts';
import type { ReadRequest } from './request.ts';
import { readingWords, routeWords } from './routing.ts';

/** The gates from the route on. */

/** State that a running proxy has reported. */
export interface RunningProxy {
	/** Its answer to `GET /metrics`; `undefined`: no proxy was asked. */
	readonly metricsPage?: string | undefined;
	/** `undefined`: it has no status page, or was not asked. */
	readonly status?: RunningStatus | undefined;
}

/** Members of its `/status.json`. */
export interface RunningStatus {
	readonly dns: StatusPage['dns'];
	/** Only upstreams with problems. */
	readonly upstreams: readonly Pick<
		StatusPage['upstreams']['items'][number],
		'upstream' | 'group' | 'breaker' | 'last_probe'
	>[];
}

/** @returns `undefined` if no route matches, or the path is refused. */
export function routeOf(target: CleanTarget | Rejection, { routes }: Config): RouteConfig | undefined {
	if (target instanceof Rejection) return undefined;
	const found = new RouteTable(routes).match(pathOf(target));
	return found instanceof Rejection ? undefined : found;
}

export function judgeRoute(
	target: CleanTarget | Rejection,
	{ config }: { readonly config: Config },
	reports: Reports,
): void {
	// A refused path cannot be routed: upstreams may read it in different ways.
	if (target instanceof Rejection) {
		reports.unknown('route', 'such a path has no definite route');
		return;
	}
	const path = pathOf(target);
	const table = new RouteTable(config.routes);
	const found = table.match(path);
	const words = [...routeWords(config, path, table.asWritten(path)), ...readingWords(table, path)];
	reports.judged('route', found instanceof Rejection ? found : undefined, ...words);
}

/**
 * Applies the route's changes to the request before it goes to the upstream.
 *
 * @returns the target that the upstream gets; `undefined` if there is no route, or the route refuses.
 */
export function judgeForwarding(
	route: RouteConfig | undefined,
	target: CleanTarget | Rejection,
	{ head, targetAuthority, fields }: ReadRequest,
	{ config }: { readonly config: Config },
	reports: Reports,
): CleanTarget | undefined {
	if (route === undefined || target instanceof Rejection) return undefined;
	if (route.forwarding === undefined) return target;
	const forwarding = new Forwarding(route.forwarding, route.prefix);
	const authority = targetAuthority === undefined ? head?.authority : targetAuthority;
	const left = forwarding.target(target, authority);
	const nth = config.routes.indexOf(route);
	const words = fields.flatMap(({ name, fate }) =>
		fate === 'forwarded' && forwarding.writes(name)
			? [`${name.toLowerCase()}: not forwarded: the proxy sets it on this route`]
			: [],
	);
	if (left instanceof Rejection) {
		const which = left.is(BAD_REQUEST)
			? 'the host in the target is not a host'
			: 'some servers read the rest of the path with two slashes at the start';
		reports.judged('forwarding', left, which, ...words);
		return undefined;
	}
	if (left !== target) {
		const place = placeOf(config, `routes[${nth}].strip_prefix`);
		words.unshift(`${place}: ${quote(route.prefix)} is cut off, the upstream gets ${quote(withoutQuery(left))}`);
	}
	reports.ok('forwarding', ...words);
	return left;
}

/** Judges each of the route's three access rules separately, in the order of the route. */
export async function judgeCaller(
	route: RouteConfig | undefined,
	{ connection, hasCertificate }: Client,
	token: VerifiedToken | undefined,
	{ config }: { readonly config: Config },
	reports: Reports,
): Promise<void> {
	if (route === undefined) return;
	const nth = config.routes.indexOf(route);
	const place = (key: string) => placeOf(config, `routes[${nth}].${key}`);
	const { allow, deny, tenants, scopes } = route.access ?? {};
	const none = { allow: undefined, deny: undefined, tenants: undefined, scopes: undefined };
	if (allow !== undefined || deny !== undefined) {
		const read = await loadNameReader();
		const rules = [
			...(deny === undefined ? [] : [`${place('deny')}: ${deny.map(quote).join(', ')}`]),
			...(allow === undefined ? [] : [`${place('allow')}: ${allow.map(quote).join(', ')}`]),
		];
		if (!hasCertificate) reports.unknown('certificate names', ...rules, 'give --client-cert');
		else {
			const access = new RouteAccess({ ...none, allow, deny }, read);
			const names = namesInWords(connection.caller?.names(read));
			reports.judged('certificate names', access.refuse(connection, NOBODY), `the certificate: ${names}`, ...rules);
		}
	}
	if (tenants !== undefined) {
		const access = new RouteAccess({ ...none, tenants }, undefined);
		const wanted = `${place('tenants')} has ${tenants.map(quote).join(', ')}`;
		if (token === undefined) reports.unknown('tenants', wanted, 'the token has no tenant');
		else reports.judged('tenants', access.refuse(connection, token), `the tenant is ${quote(token.tenant)}; ${wanted}`);
	}
	if (scopes !== undefined) {
		const access = new RouteAccess({ ...none, scopes }, undefined);
		const wanted = `${place('scopes')} wants ${scopes.map(quote).join(', ')}`;
		if (token === undefined) reports.unknown('scopes', wanted, 'the token has none');
		else {
			const has = [...token.claims.scopes].map(quote).join(', ');
			reports.judged(
				'scopes',
				access.refuse(connection, token),
				`the token has ${has === '' ? 'none' : has}; ${wanted}`,
			);
		}
	}
	if (route.certificateHeaders !== undefined && !hasCertificate) {
		reports.unknown('certificate headers', 'the upstream gets the certificate: give --client-cert');
	}
}

/** Stands in for the token if a rule depends only on certificate names. */
const NOBODY = { tenant: '' } as VerifiedToken;

/**
 * Judges the upstream by the metrics of a running proxy, if one was asked. One address whose breaker admits is enough.
 *
 * @param ofResponse words on how the route handles the response.
 */
export function judgeUpstream(
	{ upstream: group }: RouteConfig,
	{ metricsPage: page, status }: RunningProxy,
	ofResponse: readonly string[],
	reports: Reports,
): void {
	const found = authoritiesOf(group, page).map((authority) => {
		const sample = (family: string) => sampleOf(page ?? '', family, authority, group.name);
		const trouble = status?.upstreams.find(
			({ upstream, group: of }) => upstream === authority && of === (group.name ?? null),
		);
		return { authority, circuit: sample('proxy_circuit_state'), alive: sample('proxy_upstream_alive'), trouble };
	});
	const all = found.map(({ authority }) => authority);
	const scheme = schemeOf(group);
	if (found.every(({ circuit }) => circuit === undefined)) {
		if (page?.split('\n').includes(`proxy_dns_addresses{group="${group.name}"} 0`)) {
			const failing = status?.dns.find((one) => one.group === group.name && one.failing_since !== null);
			reports.judged(
				'circuit breaker',
				CIRCUIT_OPEN,
				`DNS has returned no address for ${all.join(', ')} yet`,
				...(failing === undefined
					? []
					: [`${failing.cause}; ${failing.failures} lookups have failed since ${failing.failing_since}`]),
			);
			return;
		}
		const words = page === undefined ? 'needs the running proxy' : 'the running proxy does not know this upstream';
		reports.notAsked('circuit breaker', `of ${few(all).join(', ')}; ${words}`);
		reports.notAsked(
			'upstream',
			`${few(all.map((authority) => `${scheme}://${authority}`)).join(', ')}; ${words}`,
			...ofResponse,
		);
		return;
	}
	const isAdmitted = found.some(({ circuit }) => circuit === '0');
	const isWell = ({ circuit, alive }: (typeof found)[number]) => circuit === '0' && alive !== '0';
	// If not all are shown, unhealthy ones come first.
	const ordered = found.length <= MAX_SHOWN ? found : found.toSorted((a, b) => Number(isWell(a)) - Number(isWell(b)));
	const circuits = ordered.map(({ authority, circuit = '', trouble }) => {
		const why = circuit === '0' ? '' : openedBy(trouble);
		return `of ${authority}: ${CIRCUITS[circuit] ?? 'not known'}${why}`;
	});
	reports.judged('circuit breaker', isAdmitted ? undefined : CIRCUIT_OPEN, ...few(circuits));
	const healths = ordered.map(({ authority, alive, trouble }) => {
		const last = trouble?.last_probe ?? null;
		const failed = last === null || last.passed ? 'failed, or not made yet' : `failed: ${wordsOf(last)}`;
		const health = alive === undefined ? 'not probed' : alive === '1' ? 'passed' : failed;
		return `${scheme}://${authority}; its last health probe: ${health}`;
	});
	reports.notAsked('upstream', ...few(healths), ...ofResponse);
}

/** The scheme as in a route's URL. */
function schemeOf({ tls, protocol }: RouteConfig['upstream']): string {
	if (tls !== undefined) return 'https';
	return protocol === 'h2' ? 'h2c' : 'http';
}

type Trouble = RunningStatus['upstreams'][number];

/** Why a breaker is open, and since when. */
function openedBy(trouble: Trouble | undefined): string {
	const { since = null, reason = null, cause = null } = trouble?.breaker ?? {};
	const why = cause ?? reason;
	return why === null ? '' : `${since === null ? '' : ` since ${since}`}, because: ${why}`;
}

function wordsOf({ found, remedy }: NonNullable<Trouble['last_probe']>): string {
	return remedy === null ? found : `${found}: ${remedy}`;
}

/** More addresses of one upstream would push everything else from the screen. */
const MAX_SHOWN = 8;

function few(lines: readonly string[]): readonly string[] {
	return lines.length <= MAX_SHOWN ? lines : [...lines.slice(0, MAX_SHOWN), `and ${lines.length - MAX_SHOWN} more`];
}

/** Only the running proxy knows the addresses of a name; without one the name is printed in their place. */
function authoritiesOf({ name, addresses, dns }: RouteConfig['upstream'], page = ''): readonly string[] {
	if (dns === undefined) return addresses.map(({ authority }) => authority);
	const found = Array.from(page.matchAll(CIRCUIT_SAMPLES), ([, upstream, group]) => (group === name ? upstream! : []));
	return found.flat().length === 0 ? [dns.authority] : found.flat();
}

const CIRCUIT_SAMPLES = /^proxy_circuit_state\{upstream="([^"]*)",group="([^"]*)"\} /gm;

const CIRCUITS: Readonly<Record<string, string>> = {
	0: 'closed',
	1: 'open',
	2: 'half-open: another request is the probe',
};

/** The value of this upstream's sample without other labels. */
function sampleOf(page: string, family: string, upstream: string, group: string | undefined): string | undefined {
	const lead = `${family}{upstream="${upstream}"${group === undefined ? '' : `,group="${group}"`}} `;
	return page
		.split('\n')
		.find((line) => line.startsWith(lead))
		?.slice(lead.length);
}
