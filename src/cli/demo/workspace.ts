/**
 * The demo's folder: an authority, server and client certificates, a token key, tokens for two tenants and the
 * configuration file. Everything is made anew at each start, for certificates and tokens of yesterday have expired.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ConfigTables, type RouteEntry, renderConfig } from './config-file.ts';
import { createAuthority, type Issued, issue, type Validity } from './pki.ts';
import { createTokenKey, mintToken } from './tokens.ts';

export const ISSUER = 'https://issuer.demo.invalid';
export const AUDIENCE = 'mtls-edge-proxy-demo';
/** The tenant limit, small enough to run into by hand; the burst is the same number (decisions, "Rate limit"). */
export const TENANT_RPS = 5;
export const TENANTS = ['tenant-a', 'tenant-b'] as const;
export type Tenant = (typeof TENANTS)[number];

/** Tokens live this long: a working day with a margin. */
const LIFETIME_MS = 24 * 3_600_000;
/** Certificates live longer: the proxy warns of those that expire within 30 days, and nothing here is to be warned of. */
const CERTIFICATE_LIFETIME_MS = 60 * LIFETIME_MS;
/** A container's clock may lag behind the host's. */
const CLOCK_SKEW_MS = 5 * 60_000;

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
	readonly tokens: Readonly<Record<Tenant, string>>;
	/** The serial number of the certificate that the server file holds now. */
	serverSerial(): string;
	/** Issues the server a new certificate, with a new key, in place. The proxy reads it when it is told to reload. */
	renewServerCertificate(): Promise<void>;
	writeConfig(routes: readonly RouteEntry[]): void;
}

/** Fills `dir`, made if needed, for `now` in ms since the epoch. Throws file errors as they come. */
export async function createWorkspace(dir: string, now: number): Promise<Workspace> {
	mkdirSync(dir, { recursive: true, mode: 0o700 });
	const file = (name: string) => join(dir, name);
	const validity: Validity = {
		notBefore: new Date(now - CLOCK_SKEW_MS),
		notAfter: new Date(now + CERTIFICATE_LIFETIME_MS),
	};
	const authority = await createAuthority({ commonName: 'mtls-edge-proxy demo CA', ...validity });
	const issueServer = () =>
		issue(authority, {
			commonName: 'mtls-edge-proxy demo',
			sans: ['localhost', '127.0.0.1', '::1'],
			usages: 'server',
			...validity,
		});
	let server = await issueServer();
	const client = await issue(authority, { commonName: 'demo client', usages: 'client', ...validity });
	const key = createTokenKey();
	const token = (sub: Tenant) =>
		mintToken(key, {
			iss: ISSUER,
			aud: AUDIENCE,
			sub,
			scope: 'demo',
			nbf: Math.floor((now - CLOCK_SKEW_MS) / 1000),
			exp: Math.floor((now + LIFETIME_MS) / 1000),
		});
	const tokens = { 'tenant-a': token('tenant-a'), 'tenant-b': token('tenant-b') };

	const writeServer = () => {
		writeSecret(file('server.key'), server.keyPem);
		writeFileSync(file('server.crt'), server.certPem);
	};
	writeServer();
	writeFileSync(file('ca.crt'), authority.certPem);
	writeFileSync(file('client.crt'), client.certPem);
	writeSecret(file('client.key'), client.keyPem);
	writeFileSync(file('jwt.pub'), key.publicKeyPem);
	for (const tenant of TENANTS) writeSecret(file(`${tenant}.jwt`), tokens[tenant]);

	const config: Omit<ConfigTables, 'routes'> = {
		health_interval_secs: 1,
		default_cooldown_secs: 1,
		tenant_rps: TENANT_RPS,
		tls: { cert_path: file('server.crt'), key_path: file('server.key'), client_ca_path: file('ca.crt') },
		jwt: { jwks_path: file('jwt.pub'), issuer: ISSUER, audience: AUDIENCE },
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
		tokens,
		serverSerial: () => server.serialNumber,
		renewServerCertificate: async () => {
			server = await issueServer();
			writeServer();
		},
		writeConfig: (routes) => writeFileSync(file('config.toml'), renderConfig({ ...config, routes })),
	};
}

/**
 * Keys and bearer tokens are for the owner's eyes. An old file goes first: `mode` holds only for files that are made,
 * and `wx` will not write through a link that somebody else left there.
 */
function writeSecret(path: string, content: string): void {
	rmSync(path, { force: true });
	writeFileSync(path, content, { mode: 0o600, flag: 'wx' });
}
