import { suggest } from '@mtls-edge-proxy/gate/words/suggest.ts';
import { prefixConflicts } from '../gates/routes.ts';
import { tablesOf } from './conflicts.ts';
import { type ConfigProblem, problemAt } from './error.ts';
import { prefixProblem } from './prefix.ts';
import { routeUpstreamKeys, upstreamKeys } from './tables/upstream-keys.ts';
import { GROUP_NAME } from './tables/upstreams.ts';
import { isTable, type TomlDocument, type TomlTable } from './toml.ts';
import { parseUpstream } from './upstream.ts';
import { quote, show } from './wording.ts';

/**
 * Finds conflicts between tables. Runs apart from the schema, which checks a list as a whole only if every element is valid,
 * so that all problems are reported at once.
 */
export function conflictsBetweenTables(document: TomlDocument): ConfigProblem[] {
	return [
		...jwtAndIssuers(document),
		...duplicates(document, 'issuers', 'issuer', (other) => `is already ${other}`),
		...tenantPrefixes(document),
		...duplicates(document, 'tenants', 'name', (other) => `is already the name of ${other}`),
		...duplicates(document, 'upstreams', 'name', (other) => `is already the name of ${other}`),
		...duplicates(document, 'routes', 'prefix', (other) => `is already the prefix of ${other}`),
		...ambiguousPrefixes(document),
		...unknownGroups(document),
		...twoSchemes(document),
		...differentRoutes(document),
	];
}

/** `[[issuers]]` replace `[jwt]`; one of the two is required. */
function jwtAndIssuers({ root: { jwt, issuers }, lines }: TomlDocument): ConfigProblem[] {
	const hasIssuers = issuers !== undefined && !(Array.isArray(issuers) && issuers.length === 0);
	if (hasIssuers) {
		const message = 'conflicts with [[issuers]], which replace it; write it as another [[issuers]] and remove it';
		return jwt === undefined ? [] : [problemAt(lines, 'jwt', message)];
	}
	if (jwt !== undefined && (!isTable(jwt) || jwt.jwks_path !== undefined)) return [];
	const message = 'is missing; set it to the file with the RSA public key that tokens are verified with, PEM';
	return [problemAt(lines, 'jwt.jwks_path', message)];
}

/** Tables of a list whose text an earlier table already has. */
function duplicates(
	document: TomlDocument,
	list: string,
	key: string,
	words: (other: string) => string,
): ConfigProblem[] {
	const first = new Map<unknown, string>();
	return tablesOf(document, list).flatMap(({ table: { [key]: text }, key: at }) => {
		if (typeof text !== 'string') return [];
		const other = first.get(text);
		if (other === undefined) first.set(text, at);
		if (other === undefined) return [];
		const where = `${other} on line ${document.lines[`${other}.${key}`]}`;
		return [problemAt(document.lines, `${at}.${key}`, `${quote(text)} ${words(where)}; remove one of the two`)];
	});
}

/** No prefix may be the beginning of another: `a` and `bob`, `ab` and `ob` would be one tenant. */
function tenantPrefixes(document: TomlDocument): ConfigProblem[] {
	const issuers = tablesOf(document, 'issuers').map(({ table, key }) => ({ key, prefix: table.tenant_prefix ?? '' }));
	return issuers.flatMap(({ key, prefix }, i) => {
		if (typeof prefix !== 'string') return [];
		const other = issuers.findIndex(({ prefix: theirs }, j) => {
			if (typeof theirs !== 'string' || j === i) return false;
			// One problem per pair: at the shorter prefix, or at the later of two equal ones.
			return prefix === theirs ? j < i || prefix === '' : theirs.startsWith(prefix);
		});
		if (other === -1) return [];
		const found = prefix === '' ? 'is missing' : `${quote(prefix)} is the beginning of the prefix of issuers[${other}]`;
		const remedy = 'give each issuer a prefix that does not begin another one, for example "acme:"';
		const message = `${found}: tenants of two issuers could have the same name; ${remedy}`;
		return [problemAt(document.lines, `${key}.tenant_prefix`, message)];
	});
}

/** Routes whose prefixes are the same under another reading: `/a` and `/%61`, `/a;v=1` and `/a`. */
function ambiguousPrefixes(document: TomlDocument): ConfigProblem[] {
	const { lines } = document;
	const first = new Map<string, { prefix: string; key: string; caseInsensitive: boolean }>();
	for (const { table, key } of tablesOf(document, 'routes')) {
		const { prefix, case_insensitive } = table;
		if (typeof prefix !== 'string' || prefixProblem(prefix) !== undefined || first.has(prefix)) continue;
		first.set(prefix, { prefix, key, caseInsensitive: case_insensitive === true });
	}
	return prefixConflicts([...first.values()]).map(({ route, other, reading }) => {
		const which = `${other.key} on line ${lines[`${other.key}.prefix`]}`;
		const message =
			`${quote(route.prefix)} and ${quote(other.prefix)}, the prefix of ${which}, are the same path ${quote(reading)} to ` +
			'some upstreams, so every request for it would be refused; remove one of the two, or write both without escapes, ' +
			'path parameters and empty segments, and in the same letter case';
		return problemAt(lines, `${route.key}.prefix`, message);
	});
}

/** Unknown upstream names, and keys that belong into the named upstream's table. */
function unknownGroups(document: TomlDocument): ConfigProblem[] {
	const names = tablesOf(document, 'upstreams').flatMap(({ table: { name } }) =>
		typeof name === 'string' ? name : [],
	);
	return tablesOf(document, 'routes').flatMap(({ table: route, key }) => {
		const { upstream } = route;
		const problem = (own: string, message: string) => problemAt(document.lines, `${key}.${own}`, message);
		if (typeof upstream !== 'string' || !GROUP_NAME.test(upstream)) return [];
		if (!names.includes(upstream)) {
			const meant = suggest(upstream, names);
			const remedy =
				meant === undefined ? `write one, or "http://${upstream}" for an address` : `did you mean ${quote(meant)}?`;
			return [problem('upstream', `there is no [[upstreams]] with the name ${quote(upstream)}; ${remedy}`)];
		}
		const message = `applies to all routes to [[upstreams]] ${quote(upstream)}; move it there`;
		return Object.keys(routeUpstreamKeys).flatMap((own) => (own in route ? [problem(own, message)] : []));
	});
}

/** Routes with a URL, each with the first route to the same address. */
function sharedAddresses(document: TomlDocument) {
	const first = new Map<string, UrlRoute>();
	return tablesOf(document, 'routes').flatMap(({ table, key }) => {
		const url = typeof table.upstream === 'string' ? parseUpstream(table.upstream) : '';
		if (typeof url === 'string') return [];
		const route = { table, key, scheme: url.tls ? 'https://' : url.protocol === 'h2' ? 'h2c://' : 'http://' };
		const other = first.get(url.address.authority);
		if (other === undefined) first.set(url.address.authority, route);
		return other === undefined ? [] : [{ route, other, authority: quote(url.address.authority) }];
	});
}

interface UrlRoute {
	readonly table: TomlTable;
	readonly key: string;
	readonly scheme: string;
}

/** A port either speaks TLS or does not, and metrics have one label for both. */
function twoSchemes(document: TomlDocument): ConfigProblem[] {
	return sharedAddresses(document).flatMap(({ route, other, authority }) => {
		if (route.scheme === other.scheme) return [];
		const there = `${other.key} on line ${document.lines[`${other.key}.upstream`]}`;
		const message =
			`is ${route.scheme} here and ${other.scheme} for ${there}, for the same upstream ${authority}; write in both the scheme that it ` +
			'speaks on that port';
		return [problemAt(document.lines, `${route.key}.upstream`, message)];
	});
}

/**
 * Routes to one upstream that differ in settings of the upstream itself: it has one prober and one connection pool, so the settings of
 * one route would be ignored.
 */
function differentRoutes(document: TomlDocument): ConfigProblem[] {
	const keys = Object.keys(routeUpstreamKeys) as (keyof typeof routeUpstreamKeys)[];
	const defaultOf = (key: (typeof keys)[number]) =>
		key === 'health_grpc' ? false : upstreamKeys[key].parse(undefined);
	return sharedAddresses(document).flatMap(({ route, other, authority }) =>
		keys.flatMap((key) => {
			const valueFor = ({ table }: UrlRoute) => table[key] ?? document.root[key] ?? defaultOf(key);
			if (valueFor(route) === valueFor(other)) return [];
			const { line } = problemAt(document.lines, `${other.key}.${key}`, '');
			const message =
				`is ${show(valueFor(route))} here and ${show(valueFor(other))} for ${other.key} on line ${line}, which leads to the same ` +
				`upstream ${authority}; give both routes one value${key === 'health_grpc' ? '' : ', or set it at the top of the file'}`;
			return [problemAt(document.lines, `${route.key}.${key}`, message)];
		}),
	);
}
