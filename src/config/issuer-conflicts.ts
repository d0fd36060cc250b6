import { parseJwksUrl } from '../shared/jwks/jwks-url.ts';
import type { ConfigProblem } from './error.ts';
import type { TomlDocument, TomlTable } from './toml.ts';
import { quote } from './wording.ts';

/** Where the keys of an issuer come from: one of these. */
const SOURCES = ['public_key_path', 'jwks_path', 'jwks_url', 'discovery'];
/** What means something for keys from the network alone. */
const NETWORK_KEYS = ['jwks_ca_path', 'refresh_secs', 'max_stale_secs'];

/**
 * What `[jwt]` and the `[[issuers]]` have to do with each other, and the keys of one of them. Like two routes with one prefix, this
 * is looked for apart from the schema, so that all problems are reported at once.
 */
export function issuerConflicts(document: TomlDocument): ConfigProblem[] {
	const { jwt, issuers } = document.root;
	const tables = Array.isArray(issuers) ? issuers.filter(isTable) : [];
	if (issuers === undefined || (Array.isArray(issuers) && issuers.length === 0)) return missingKey(document, jwt);
	const problems: ConfigProblem[] = [];
	if (jwt !== undefined) {
		const message =
			'stands beside [[issuers]], which take its place; write what it says as another [[issuers]] and remove it';
		problems.push(problem(document, ['jwt'], message));
	}
	for (const [i, table] of tables.entries()) {
		problems.push(...sourceConflicts(document, i, table), ...nameConflicts(document, i, tables));
		problems.push(...prefixConflicts(document, i, tables));
	}
	return problems;
}

function isTable(value: unknown): value is TomlTable {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function missingKey(document: TomlDocument, jwt: unknown): ConfigProblem[] {
	if (jwt !== undefined && (!isTable(jwt) || jwt.jwks_path !== undefined)) return [];
	const message = 'is missing; set it to the file with the RSA public key that tokens are verified with, PEM';
	return [problem(document, ['jwt', 'jwks_path'], message)];
}

function sourceConflicts(document: TomlDocument, i: number, table: TomlTable): ConfigProblem[] {
	const problems: ConfigProblem[] = [];
	const sources = SOURCES.filter((key) => table[key] !== undefined && table[key] !== false);
	if (sources.length === 0) {
		const message = `has no keys; give one of ${SOURCES.join(', ')} (discovery = true)`;
		problems.push(problem(document, ['issuers', i], message));
	}
	for (const second of sources.slice(1)) {
		problems.push(problem(document, ['issuers', i, second], `stands beside ${sources[0]}; give one of the two`));
	}
	const fromNetwork = sources.includes('jwks_url') || sources.includes('discovery');
	for (const key of NETWORK_KEYS) {
		if (table[key] === undefined || fromNetwork || sources.length === 0) continue;
		problems.push(problem(document, ['issuers', i, key], 'is for jwks_url and discovery alone; remove it'));
	}
	const { issuer, refresh_secs: refresh = 300, max_stale_secs: stale = 86_400 } = table;
	if (typeof stale === 'number' && typeof refresh === 'number' && stale < refresh) {
		const message = `is ${stale}, less than refresh_secs (${refresh}): keys would be dropped before they are asked for anew`;
		problems.push(problem(document, ['issuers', i, 'max_stale_secs'], message));
	}
	if (table.discovery === true && typeof issuer === 'string' && typeof parseJwksUrl(issuer) === 'string') {
		const message = `needs an issuer that is an https:// address (got ${quote(issuer)}); give jwks_url in its place`;
		problems.push(problem(document, ['issuers', i, 'discovery'], message));
	}
	return problems;
}

function nameConflicts(document: TomlDocument, i: number, tables: readonly TomlTable[]): ConfigProblem[] {
	const { issuer } = tables[i]!;
	const other = tables.findIndex((table) => table.issuer === issuer);
	if (typeof issuer !== 'string' || other === i) return [];
	const line = document.lineOf(['issuers', other, 'issuer']);
	const message = `${quote(issuer)} is already issuers[${other}] on line ${line}; remove one of the two`;
	return [problem(document, ['issuers', i, 'issuer'], message)];
}

/** No prefix may be the beginning of another: `a` and `bob`, `ab` and `ob` would be one tenant. */
function prefixConflicts(document: TomlDocument, i: number, tables: readonly TomlTable[]): ConfigProblem[] {
	const prefixOf = ({ tenant_prefix = '' }: TomlTable) => tenant_prefix;
	const prefix = prefixOf(tables[i]!);
	if (typeof prefix !== 'string') return [];
	const other = tables.findIndex((table, j) => {
		const theirs = prefixOf(table);
		if (typeof theirs !== 'string' || j === i) return false;
		// One problem a pair: at the one that is the other's beginning, or at the later one.
		return prefix === theirs ? j < i || prefix === '' : theirs.startsWith(prefix);
	});
	if (other === -1) return [];
	const found = prefix === '' ? 'is missing' : `${quote(prefix)} is the beginning of that of issuers[${other}]`;
	const message = `${found}: two issuers' tenants could have one name; give each issuer a prefix that begins no other's, for example "acme:"`;
	return [problem(document, ['issuers', i, 'tenant_prefix'], message)];
}

/** A missing key has no line; then its table has, if the file has that. */
function problem(document: TomlDocument, path: readonly (string | number)[], message: string): ConfigProblem {
	const line = document.lineOf(path) ?? document.lineOf(path.slice(0, -1));
	const key = path.reduce<string>((text, part) => `${text}${typeof part === 'number' ? `[${part}]` : `.${part}`}`, '');
	return { ...(line !== undefined && { line }), key: key.slice(1), message };
}
