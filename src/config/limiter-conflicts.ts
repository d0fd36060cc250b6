import type { StoreAddress } from './config.ts';
import type { ConfigProblem } from './error.ts';
import { parseStoreAddress } from './tables/limiter.ts';
import type { TomlDocument, TomlTable } from './toml.ts';

/** Keys of `[limiter]` that do not go with each other. */
export function limiterConflicts(document: TomlDocument): ConfigProblem[] {
	const limiter = document.root.limiter as TomlTable | undefined;
	if (typeof limiter !== 'object' || limiter === null || Array.isArray(limiter)) return [];
	const problems: ConfigProblem[] = [];
	const add = (key: string, message: string) => {
		const line = document.lineOf(['limiter', key]);
		problems.push({ ...(line !== undefined && { line }), key: `limiter.${key}`, message });
	};
	const has = (key: string) => limiter[key] !== undefined;
	const needs = (key: string, other: string, remedy: string) => {
		if (has(key) && !has(other)) add(key, remedy);
	};
	const addresses = usableAddresses(limiter.store);
	if (addresses !== undefined) {
		for (const message of addressConflicts(addresses, has('sentinel_name'), limiter.cluster === true))
			add('store', message);
		if (addresses.every(({ tls }) => !tls)) {
			for (const key of TLS_KEYS) {
				if (has(key)) add(key, 'is for a rediss:// store alone; remove it, or write rediss:// in store');
			}
		}
	}
	if (has('sentinel_name') && limiter.cluster === true) {
		add('cluster', 'stands beside sentinel_name; a store has Sentinels or is a Cluster: remove one of the two');
	}
	needs('username', 'password_path', 'needs the password of that user; name its file in password_path');
	needs('cert_path', 'key_path', 'needs the private key of that certificate; name its file in key_path');
	needs('key_path', 'cert_path', 'needs the certificate of that key; name its file in cert_path');
	needs('sentinel_username', 'sentinel_password_path', 'needs its password; name the file in sentinel_password_path');
	for (const key of ['sentinel_username', 'sentinel_password_path']) {
		needs(key, 'sentinel_name', 'is for Sentinels alone; remove it, or give sentinel_name');
	}
	return problems;
}

const TLS_KEYS = ['ca_path', 'cert_path', 'key_path', 'server_name'];

/** `undefined` where one of them is wrong by itself, which is said elsewhere. */
function usableAddresses(store: unknown): StoreAddress[] | undefined {
	const addresses = [store].flat().map((text) => (typeof text === 'string' ? parseStoreAddress(text) : ''));
	return addresses.length > 0 && addresses.every((address) => typeof address !== 'string') ? addresses : undefined;
}

function addressConflicts(addresses: readonly StoreAddress[], sentinels: boolean, cluster: boolean): string[] {
	const [first] = addresses;
	const conflicts: string[] = [];
	if (addresses.length > 1 && !sentinels && !cluster) {
		conflicts.push(
			'has several addresses: give sentinel_name if they are Sentinels, cluster = true if they are nodes of a Cluster, or one address',
		);
	}
	if (addresses.some(({ tls }) => tls !== first!.tls)) {
		conflicts.push('has addresses with TLS and without; write redis:// in all of them, or rediss://');
	}
	if (addresses.some(({ database }) => database !== first!.database)) {
		conflicts.push('has addresses with different databases; give all the same number behind the port');
	}
	if (cluster && addresses.some(({ database }) => database !== 0)) {
		conflicts.push('names a database, and a Cluster has only number 0; leave the number out');
	}
	return conflicts;
}
