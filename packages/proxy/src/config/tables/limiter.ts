import { z } from 'zod';
import { quote } from '../wording.ts';
import {
	expected,
	file,
	flagOr,
	oneOfOr,
	oneOrSeveral,
	optional,
	parsed,
	secondsOr,
	table,
	text,
	wholeNumberOr,
} from './kinds.ts';

const STORE = 'write it as "redis://host:6379/0", or "rediss://host:6379/0" with TLS';
/** Sentinels or seed nodes of a cluster: a few are enough, the library finds the others. */
const MAX_ADDRESSES = 16;
/** A slower store is of no use to the limiter. */
const MAX_TIMEOUT_SECS = 10;
const MAX_REPLICAS = 100_000;

/** Address of a server: the store itself, a Sentinel, or a node of a Cluster. */
export interface StoreAddress {
	/** Host name or IP literal as `net.connect` takes it (IPv6 without brackets). */
	readonly host: string;
	readonly port: number;
	readonly tls: boolean;
	/** Database number. */
	readonly database: number;
}

/** `[limiter]`: one limit across all replicas. Without the table each process has its own limits, and no library is loaded. */
export const limiter = table('[limiter]', {
	store: addresses().describe(
		'Redis (6.2 or later) or Valkey that all replicas share: `redis://host:port/db`, or `rediss://` with TLS. A list contains the addresses of Sentinels (`sentinel_name`), or of nodes of a Cluster (`cluster = true`)',
	),
	sentinel_name: optional(
		name('the name under which the Sentinels watch the primary'),
		'name under which the Sentinels know the primary; `store` has the addresses of the Sentinels',
		'none',
	),
	cluster: flagOr(false).describe('`store` has the addresses of nodes of a Redis Cluster'),
	on_store_failure: oneOfOr(['share', 'local', 'refuse'], 'share').describe(
		'behaviour while the store is unavailable. `"share"`: each replica allows its share of each limit, based on the last known number of replicas. `"local"`: each allows the whole limit. `"refuse"`: each refuses requests with a limit (429)',
	),
	replicas: wholeNumberOr(1, 1, MAX_REPLICAS, 'of replicas').describe(
		'number of replicas, for a replica that starts while the store is unavailable',
	),
	username: optional(name('the name of an ACL user'), 'ACL user; needs `password_path`', 'the default user'),
	password_path: optional(
		file('the password of the store, on one line'),
		"file with the store's password, on one line",
		'no password',
	),
	sentinel_username: optional(
		name('the name of an ACL user'),
		'ACL user for the Sentinels; needs `sentinel_password_path`',
		'the default user',
	),
	sentinel_password_path: optional(
		file('the password of the Sentinels, on one line'),
		"file with the Sentinels' own password, on one line",
		'no password',
	),
	ca_path: optional(
		file('the CAs that the certificate of the store must chain to, PEM'),
		'CAs for a `rediss://` store, PEM',
		"Node's CAs",
	),
	cert_path: optional(
		file('the certificate chain of the proxy for the store, PEM, leaf first'),
		"the proxy's certificate chain for a `rediss://` store, PEM, leaf first",
		'none',
	),
	key_path: optional(file('the private key of that certificate, PEM'), 'its private key, PEM', 'none'),
	server_name: optional(
		name("the name in the store's certificate"),
		'name in the certificate of a `rediss://` store, for all of its addresses. Sentinels and Clusters usually name their nodes by IP address',
		'the host of each address',
	),
	secret_path: optional(
		file('a secret shared by all replicas, at least 32 bytes'),
		'file with a secret, the same for all replicas. The proxy uses the secret to derive the keys in the store from tenant names (HMAC). Use it if untrusted parties can choose tenant names',
		'none; the keys are derived with `prefix` only, without a secret',
	),
	prefix: text('1 to 64 letters, digits, "_", ".", ":" or "-"', 'leave it out for "proxy"', /^[A-Za-z0-9_.:-]{1,64}$/)
		.default('proxy')
		.describe(
			'prefix of the keys in the store. Replicas with the same prefix share their limits, and must have the same rates',
		),
	timeout_secs: secondsOr('0.5', MAX_TIMEOUT_SECS)
		.default(0.5)
		.describe(
			'time for one reply from the store. No request waits for it. Without a reply, the store counts as unavailable',
		),
	revocations: flagOr(false).describe(
		'all replicas apply revocations from the store, in addition to `revoked_path`; see docs/explanation/shared-rate-limits.md. Anyone who can write to the store can then lock out tenants',
	),
}).meta({
	description: 'one limit across all replicas, through Redis or Valkey; see docs/explanation/shared-rate-limits.md',
	read: 'at startup',
});

function name(wanted: string) {
	return text(wanted, 'leave it out if there is none', /^[\x21-\x7e]{1,255}$/);
}

/** One address or several, parsed. */
function addresses() {
	const error = expected('the address of a Redis or Valkey, or a list of them', STORE);
	const tooMany = () => `has more than ${MAX_ADDRESSES} addresses; list a few, and the client discovers the others`;
	return oneOrSeveral(z.array(address(), { error }).min(1, { error }).max(MAX_ADDRESSES, { error: tooMany }));
}

function address() {
	const type = text('the address of a Redis or Valkey', STORE);
	return parsed(type, '^[Rr][Ee][Dd][Ii][Ss][Ss]?://[^/@]+(/[0-9]*)?$', (written): StoreAddress | string => {
		const store = parseStoreAddress(written);
		// A password must not end up in a log.
		const shown = quote(written.replace(/^(rediss?:\/\/)?.*@/is, '$1***@').replace(/[?#].*/s, '?***'));
		return typeof store === 'string' ? `must be the address of a Redis or Valkey (got ${shown}): ${store}` : store;
	});
}

const DEFAULT_PORT = 6379;

/** @returns the address, or the fault in words that do not quote the text. */
export function parseStoreAddress(text: string): StoreAddress | string {
	const [, scheme, rest] = /^(rediss?):\/\/(.*)$/is.exec(text) ?? [];
	if (text.includes('@')) {
		return 'a password does not belong in the configuration; put it into a file, name the file in password_path, and the user in username';
	}
	if (scheme === undefined || rest === undefined) return STORE;
	if (/[?#]/.test(rest)) return `it may not have parameters; ${STORE}`;
	const parts = /^(?:\[([\da-f:.]+)\]|([a-z\d_](?:[a-z\d_.-]*[a-z\d_])?\.?))(?::(\d{1,5}))?(?:\/(\d{0,5}))?$/i.exec(
		rest,
	);
	if (parts === null) return STORE;
	const [, ipv6, host, port = String(DEFAULT_PORT), database] = parts;
	if (Number(port) < 1 || Number(port) > 65_535) return 'its port must be from 1 to 65535';
	return {
		host: (ipv6 ?? host)!,
		port: Number(port),
		tls: scheme.toLowerCase() === 'rediss',
		database: Number(database ?? 0),
	};
}
