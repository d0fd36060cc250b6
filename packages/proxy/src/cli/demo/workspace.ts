/**
 * The demo's folder: an authority, server and client certificates, token keys, tokens for two tenants, a list of revocations,
 * and the configuration file. Everything is created again at each start, because old certificates and tokens may have expired.
 */
import { createPublicKey } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { configSchemaText, SCHEMA_FILE, SCHEMA_LINE } from '../../config/json-schema.ts';
import { CommandError } from '../command.ts';
import { type ConfigTables, type RouteEntry, renderConfig } from './config-file.ts';
import { CLOCK_SKEW_MS, createAuthority, type Issued, issue, validFor } from './pki.ts';
import { createTokenKey, mintToken, type TokenKey, thumbprint } from './tokens.ts';

export const ISSUER = 'https://issuer.demo.invalid';
export const AUDIENCE = 'mtls-edge-proxy-demo';
/** The tenant limit, low enough to reach by hand; also the burst. */
export const TENANT_RPS = 5;
export const TENANTS = ['tenant-a', 'tenant-b'] as const;
export type Tenant = (typeof TENANTS)[number];

/** Lifetime of tokens: a working day with a margin. */
const LIFETIME_MS = 24 * 3_600_000;
/** Longer than the 30 days before the end in which the proxy warns. */
const CERTIFICATE_DAYS = 60;

export interface Workspace {
	readonly dir: string;
	readonly paths: {
		readonly config: string;
		readonly ca: string;
		readonly clientCert: string;
		readonly clientKey: string;
		readonly token: Readonly<Record<Tenant, string>>;
	};
	readonly ca: string;
	readonly client: Issued;
	/** Another client with a certificate of the same authority. */
	readonly otherClient: Issued;
	readonly tokens: Readonly<Record<Tenant, string>>;
	/** The serial number of the certificate that the server file holds now. */
	serverSerial(): string;
	/** Replaces the server's certificate and key. The proxy reads them at the next reload. */
	renewServerCertificate(): Promise<void>;
	/** @param upstreams the upstreams that routes name. */
	writeConfig(routes: readonly RouteEntry[], upstreams?: ConfigTables['upstreams']): void;
	/**
	 * A token for a tenant that no other act uses, signed with one of the issuer's two keys. With `boundTo`, only the holder of that
	 * certificate can use it (RFC 8705).
	 */
	mint(kid: Kid, boundTo?: Issued): string;
	/** Publishes these keys of the issuer; at the start, only the first. */
	publishKeys(kids: readonly Kid[]): void;
	/** Revokes these certificates, and no others. */
	revoke(certificates: readonly Issued[]): void;
}

/** The issuer's keys, by their names. */
type Kid = 'first' | 'second';

/**
 * Fills `dir`, made if needed, for `now` in ms since the epoch. Throws file errors as they come.
 *
 * @throws CommandError if the folder has files that no demo has written, because keys in it would be overwritten.
 */
export async function createWorkspace(dir: string, now: number): Promise<Workspace> {
	mkdirSync(dir, { recursive: true, mode: 0o700 });
	refuseForeign(dir);
	const file = (name: string) => join(dir, name);
	const validity = validFor(CERTIFICATE_DAYS, now);
	const authority = await createAuthority({ commonName: 'mtls-edge-proxy demo CA', ...validity });
	const issueServer = () =>
		issue(authority, {
			commonName: 'mtls-edge-proxy demo',
			sans: ['localhost', '127.0.0.1', '::1'],
			usages: 'server',
			...validity,
		});
	let server = await issueServer();
	const issueClient = (commonName: string) => issue(authority, { commonName, usages: 'client', ...validity });
	const client = await issueClient('demo client');
	const otherClient = await issueClient('another client');
	const keys: Readonly<Record<Kid, TokenKey>> = { first: createTokenKey(), second: createTokenKey() };
	const token = (sub: string, kid: Kid = 'first', claims: object = {}) => {
		const said = {
			iss: ISSUER,
			aud: AUDIENCE,
			sub,
			scope: 'demo',
			nbf: Math.floor((now - CLOCK_SKEW_MS) / 1000),
			exp: Math.floor((now + LIFETIME_MS) / 1000),
			...claims,
		};
		return mintToken(keys[kid], said, { kid });
	};
	const publishKeys = (kids: readonly Kid[]) =>
		writeFileSync(file('jwks.json'), JSON.stringify({ keys: kids.map((kid) => jwkOf(keys[kid], kid)) }));
	const revoke = (certificates: readonly Issued[]) => {
		const listed = certificates.map((issued) => `"sha256:${thumbprint(issued.certPem).toString('hex')}"`);
		writeFileSync(file('revoked.toml'), `certificates = [${listed.join(', ')}]\n`);
	};
	const tokens = { 'tenant-a': token('tenant-a'), 'tenant-b': token('tenant-b') };

	const writeServer = () => {
		writeSecret(file('server.key'), server.keyPem);
		writeFileSync(file('server.crt'), server.certPem);
	};
	writeServer();
	writeFileSync(file('ca.crt'), authority.certPem);
	writeFileSync(file('client.crt'), client.certPem);
	writeSecret(file('client.key'), client.keyPem);
	// For programs that need a single key; the proxy reads the key set.
	writeFileSync(file('jwt.pub'), keys.first.publicKeyPem);
	publishKeys(['first']);
	revoke([]);
	for (const tenant of TENANTS) writeSecret(file(`${tenant}.jwt`), tokens[tenant]);
	writeFileSync(file(SCHEMA_FILE), configSchemaText());

	const config: Omit<ConfigTables, 'routes' | 'upstreams'> = {
		health_interval_secs: 1,
		default_cooldown_secs: 1,
		tenant_rps: TENANT_RPS,
		revoked_path: file('revoked.toml'),
		tls: { cert_path: file('server.crt'), key_path: file('server.key'), client_ca_path: file('ca.crt') },
		jwt: { jwks_path: file('jwks.json'), issuer: ISSUER, audience: AUDIENCE, reload: true },
		// The tenant of `mint`, whose acts need no limit.
		tenants: [{ name: 'tenant-c', rps: 1000 }],
	};
	return {
		dir,
		paths: {
			config: file('config.toml'),
			ca: file('ca.crt'),
			clientCert: file('client.crt'),
			clientKey: file('client.key'),
			token: { 'tenant-a': file('tenant-a.jwt'), 'tenant-b': file('tenant-b.jwt') },
		},
		ca: authority.certPem,
		client,
		otherClient,
		tokens,
		serverSerial: () => server.serialNumber,
		renewServerCertificate: async () => {
			server = await issueServer();
			writeServer();
		},
		mint: (kid, boundTo) =>
			token('tenant-c', kid, boundTo && { cnf: { 'x5t#S256': thumbprint(boundTo.certPem).toString('base64url') } }),
		publishKeys,
		revoke,
		writeConfig: (routes, upstreams = []) =>
			writeFileSync(file('config.toml'), `${SCHEMA_LINE}\n${renderConfig({ ...config, upstreams, routes })}`),
	};
}

/** The key as a JWK (RFC 7517). */
function jwkOf({ publicKeyPem }: TokenKey, kid: Kid): object {
	return { ...createPublicKey(publicKeyPem).export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' };
}

/**
 * Only the owner may read keys and bearer tokens. An old file is removed first: `mode` applies only to new files, and
 * `wx` does not write through a link that somebody else left there.
 */
function writeSecret(path: string, content: string): void {
	rmSync(path, { force: true });
	writeFileSync(path, content, { mode: 0o600, flag: 'wx' });
}

/** Recognises a folder of the demo by a configuration with the demo's issuer. */
function refuseForeign(dir: string): void {
	const names = readdirSync(dir);
	if (names.length === 0) return;
	const isOurs = names.includes('config.toml') && readFileSync(join(dir, 'config.toml'), 'utf8').includes(ISSUER);
	if (!isOurs)
		throw new CommandError(`--dir: ${dir} has files that are not from a demo; name an empty or a new folder`);
}
