import { MAX_BURST_SECONDS } from '@mtls-edge-proxy/gate/gates/tenant-limit.ts';
import { isLoopback, parseJwksUrl } from '@mtls-edge-proxy/gate/jwks/jwks-url.ts';
import { type ConfigProblem, problemAt } from './error.ts';
import { parseStoreAddress } from './tables/limiter.ts';
import { parseEndpoint } from './tables/trace.ts';
import { isTable, type TomlDocument, type TomlTable } from './toml.ts';
import { quote } from './wording.ts';

/**
 * Finds conflicting keys of one table. Runs apart from the schema, so that all problems are reported at once, and on the keys of the
 * file, because the schema cannot tell a default from a key that was set.
 */
export function conflictsInTables(document: TomlDocument): ConfigProblem[] {
	const problems: ConfigProblem[] = [];
	for (const name of new Set([...Object.keys(RULES), ...Object.keys(NEEDS)])) {
		for (const { table, key } of tablesOf(document, name)) {
			const wrong: Wrong = (own, message) =>
				problems.push(problemAt(document.lines, own ? `${key}.${own}` : key, message));
			RULES[name]?.(table, wrong);
			for (const [own, other, message] of NEEDS[name] ?? []) {
				if (table[own] !== undefined && table[other] === undefined) wrong(own, message);
			}
		}
	}
	return problems;
}

/** @param key of the table; `''`: the table itself. */
type Wrong = (key: string, message: string) => void;

/** A table of the file, and its full key. */
interface PlacedTable {
	readonly table: TomlTable;
	readonly key: string;
}

/** The tables of a name (`tls`, `routes`, `upstreams.tls`) as they are in the file. In a list, anything else counts as an empty table. */
export function tablesOf({ root }: TomlDocument, name: string): PlacedTable[] {
	return name.split('.').reduce<PlacedTable[]>(
		(outer, part) =>
			outer.flatMap(({ table, key }) => {
				const [value, own] = [table[part], key === '' ? part : `${key}.${part}`];
				if (isTable(value)) return [{ table: value, key: own }];
				if (!Array.isArray(value)) return [];
				return value.map((one, i) => ({ table: isTable(one) ? one : {}, key: `${own}[${i}]` }));
			}),
		[{ table: root, key: '' }],
	);
}

/** Sources of an issuer's keys; each issuer has exactly one. */
const KEY_SOURCES = ['public_key_path', 'jwks_path', 'jwks_url', 'discovery'];
/** Keys that have an effect only with keys from the network. */
const NETWORK_KEYS = ['jwks_ca_path', 'refresh_secs', 'max_stale_secs'];
/** Keys that have an effect only for a store with TLS. */
const STORE_TLS_KEYS = ['ca_path', 'cert_path', 'key_path', 'server_name'];

const CAP = 'is the upper bound of rate_claim, which is not set; set rate_claim, too, or leave this out';
const TOGETHER = 'a certificate and its key go together; set both, or neither';
const FOR_SENTINELS = 'is only for Sentinels; remove it, or give sentinel_name';

/** Keys that need another key of their table, by table: the key, the other, and the message if that is absent. */
export const NEEDS: Readonly<Record<string, readonly (readonly [key: string, other: string, message: string])[]>> = {
	jwt: [['max_rps', 'rate_claim', CAP]],
	issuers: [['max_rps', 'rate_claim', CAP]],
	'upstreams.tls': [
		['cert_path', 'key_path', `needs key_path: ${TOGETHER}`],
		['key_path', 'cert_path', `needs cert_path: ${TOGETHER}`],
	],
	limiter: [
		['username', 'password_path', 'needs the password of that user; name its file in password_path'],
		['cert_path', 'key_path', 'needs the private key of that certificate; name its file in key_path'],
		['key_path', 'cert_path', 'needs the certificate of that key; name its file in cert_path'],
		['sentinel_username', 'sentinel_password_path', 'needs its password; name the file in sentinel_password_path'],
		['sentinel_username', 'sentinel_name', FOR_SENTINELS],
		['sentinel_password_path', 'sentinel_name', FOR_SENTINELS],
	],
};

/** All other conflicts, by table. */
const RULES: Readonly<Record<string, (table: TomlTable, wrong: Wrong) => void>> = {
	tls: ({ crl_required, crl_path }, wrong) => {
		if (crl_required !== true || crl_path !== undefined) return;
		const message =
			'is true, but there is no tls.crl_path, so no client could connect; set tls.crl_path, or remove this';
		wrong('crl_required', message);
	},
	issuers: keySources,
	tenants: burstWithoutRate,
	routes: burstWithoutRate,
	upstreams: (upstream, wrong) => {
		addressSources(upstream, wrong);
		const reason = 'is "auto", which ALPN decides in the TLS handshake, and this upstream has no TLS';
		if (upstream.protocol === 'auto' && upstream.tls === undefined) {
			wrong('protocol', `${reason}; add [upstreams.tls], or write "h2" or "http/1.1"`);
		}
	},
	'upstreams.tls': (tls, wrong) => {
		if (tls.insecure_skip_verify === true && tls.ca_path !== undefined) {
			wrong('insecure_skip_verify', 'is true, so ca_path would have no effect; remove one of the two');
		}
	},
	trace: (trace, wrong) => {
		const url = typeof trace.endpoint === 'string' ? parseEndpoint(trace.endpoint) : '';
		if (typeof url === 'string' || url.protocol !== 'http:') return;
		if (trace.ca_path !== undefined) {
			wrong('ca_path', 'is only for an https:// endpoint; remove it, or write https:// in endpoint');
		}
		if (trace.headers_path === undefined || isLoopback(url.hostname)) return;
		const remedy = 'write https:// in endpoint, or send to a collector on 127.0.0.1 or [::1]';
		wrong('headers_path', `would go over the network in clear text; ${remedy}`);
	},
	limiter: (limiter, wrong) => {
		storeAddresses(limiter, wrong);
		if (limiter.sentinel_name !== undefined && limiter.cluster === true) {
			wrong('cluster', 'conflicts with sentinel_name: a store has Sentinels or is a Cluster; remove one of the two');
		}
	},
};

function burstWithoutRate({ rps, burst }: TomlTable, wrong: Wrong): void {
	if (burst === undefined || (rps !== undefined && typeof rps !== 'number')) return;
	const most = (rps ?? 0) * MAX_BURST_SECONDS;
	if (most === 0) {
		const remedy = 'set rps too, or leave it out';
		wrong('burst', `is the size of a bucket, and without rps nothing refills it; ${remedy}`);
	} else if (typeof burst === 'number' && burst > most) {
		const remedy = `set it to ${most} or less, or raise rps`;
		wrong('burst', `takes more than ${MAX_BURST_SECONDS} s to refill; ${remedy}`);
	}
}

function keySources(issuer: TomlTable, wrong: Wrong): void {
	const sources = KEY_SOURCES.filter((key) => issuer[key] !== undefined && issuer[key] !== false);
	if (sources.length === 0) wrong('', `has no keys; give one of ${KEY_SOURCES.join(', ')} (discovery = true)`);
	for (const second of sources.slice(1)) wrong(second, `conflicts with ${sources[0]}; give one of the two`);
	const fromNetwork = sources.includes('jwks_url') || sources.includes('discovery');
	for (const key of NETWORK_KEYS) {
		if (issuer[key] === undefined || fromNetwork || sources.length === 0) continue;
		wrong(key, 'is only for jwks_url and discovery; remove it');
	}
	const { issuer: name, refresh_secs: refresh = 300, max_stale_secs: stale = 86_400 } = issuer;
	if (typeof stale === 'number' && typeof refresh === 'number' && stale < refresh) {
		const why = 'keys would be dropped before the next fetch';
		wrong('max_stale_secs', `is ${stale}, less than refresh_secs (${refresh}): ${why}`);
	}
	if (issuer.discovery === true && typeof name === 'string' && typeof parseJwksUrl(name) === 'string') {
		const remedy = 'use jwks_url instead';
		wrong('discovery', `needs an issuer that is an https:// address (got ${quote(name)}); ${remedy}`);
	}
}

/** Addresses come from exactly one of two sources, and a queue needs a limit. */
function addressSources(upstream: TomlTable, wrong: Wrong): void {
	const has = (key: string) => key in upstream;
	const idle = (keys: string[], message: string) => {
		for (const key of keys.filter(has)) wrong(key, message);
	};
	if (has('addresses') && has('dns')) wrong('dns', 'conflicts with addresses; keep one of the two');
	else if (!has('addresses') && !has('dns')) {
		wrong('addresses', 'is missing; set it to a list of addresses, or set dns to a name that has them');
	} else if (!has('dns')) {
		idle(['dns_refresh_secs', 'dns_server'], 'needs dns; set dns, or leave this out');
	}
	if (has('max_requests') || has('max_connections')) return;
	const none = 'needs max_requests or max_connections; set one of them, or leave this out';
	idle(['queue', 'queue_timeout_secs'], none);
}

function storeAddresses(limiter: TomlTable, wrong: Wrong): void {
	const addresses = [limiter.store].flat().flatMap((text) => {
		const address = typeof text === 'string' ? parseStoreAddress(text) : '';
		return typeof address === 'string' ? [] : address;
	});
	const [first] = addresses;
	// The schema reports invalid addresses.
	if (first === undefined || addresses.length < [limiter.store].flat().length) return;
	if (addresses.length > 1 && limiter.sentinel_name === undefined && limiter.cluster !== true) {
		const either =
			'give sentinel_name if they are Sentinels, cluster = true if they are nodes of a Cluster, or one address';
		wrong('store', `has several addresses: ${either}`);
	}
	if (addresses.some(({ tls }) => tls !== first.tls)) {
		wrong('store', 'has addresses with TLS and without; write redis:// in all of them, or rediss://');
	}
	if (addresses.some(({ database }) => database !== first.database)) {
		wrong('store', 'has addresses with different databases; give all the same number after the port');
	}
	if (limiter.cluster === true && addresses.some(({ database }) => database !== 0)) {
		wrong('store', 'names a database, but a Cluster has only number 0; remove the number');
	}
	if (addresses.some(({ tls }) => tls)) return;
	for (const key of STORE_TLS_KEYS.filter((one) => limiter[one] !== undefined)) {
		wrong(key, 'is only for a rediss:// store; remove it, or write rediss:// in store');
	}
}
