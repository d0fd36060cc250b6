import { join } from 'node:path';
import { configSchemaText, SCHEMA_FILE } from '../../config/json-schema.ts';
import { authorityKey, createAuthority, issue, validFor } from '../demo/pki.ts';
import { createTokenKey } from '../demo/tokens.ts';
import { DEVELOPMENT_FOLDER } from '../options.ts';
import { CA_DAYS, CERTIFICATE_DAYS } from './client.ts';
import { developmentFiles, type NewFile, writeNewFiles } from './folder.ts';
import { sampleConfig } from './sample-config.ts';

export interface InitOptions {
	/** Made if needed. */
	readonly dir: string;
	/** DNS names and IP literals of the server, in addition to loopback. */
	readonly hosts: readonly string[];
	/** `http://host:port` of the sample's route. */
	readonly upstream: string;
}

export interface Initialised {
	/** All files that were written. */
	readonly all: readonly string[];
	/** The files that a first client needs, relative to the folder. */
	readonly next: { readonly ca: string; readonly cert: string; readonly key: string };
}

/** This issuer does not exist, so no foreign token is accepted in development. */
const ISSUER = 'https://issuer.development.invalid';
const AUDIENCE = 'edge';
const INTRO = [
	'Made by `proxy init`. The files in dev/ are for development: a CA with its key, and a key that signs the',
	"tokens of any tenant. In production name your own certificates, and your issuer's public key.",
	'Commented keys show their defaults. `proxy check` reports errors.',
];
/** The first client. */
const FIRST_CLIENT = 'alice';

/**
 * Makes a folder from which the proxy can be started: a commented `config.toml`, and in `dev/` a CA, the server's certificate, one
 * client's, and a key for tokens.
 *
 * @param now milliseconds since the epoch.
 * @throws CommandError if one of the files already exists; then nothing is written.
 */
export async function initialise({ dir, hosts, upstream }: InitOptions, now: number): Promise<Initialised> {
	const files = developmentFiles(join(dir, DEVELOPMENT_FOLDER));
	const client = files.client(FIRST_CLIENT);
	const year = validFor(CERTIFICATE_DAYS, now);
	const authority = await createAuthority({
		commonName: 'mtls-edge-proxy development CA (not for production)',
		exportable: true,
		...validFor(CA_DAYS, now),
	});
	const server = await issue(authority, {
		commonName: 'mtls-edge-proxy development',
		sans: [...new Set(['localhost', '127.0.0.1', '::1', ...hosts])],
		usages: 'server',
		...year,
	});
	const alice = await issue(authority, { commonName: FIRST_CLIENT, sans: [FIRST_CLIENT], usages: 'client', ...year });
	const tokenKey = createTokenKey();
	const config = join(dir, 'config.toml');
	// Paths in it are relative to the folder in which the proxy is started.
	const inConfig = developmentFiles(DEVELOPMENT_FOLDER);
	const made: NewFile[] = [
		{
			path: config,
			content: sampleConfig(INTRO, {
				tls: { cert_path: inConfig.server.cert, key_path: inConfig.server.key, client_ca_path: inConfig.ca.cert },
				jwt: { jwks_path: inConfig.issuer.publicKey, issuer: ISSUER, audience: AUDIENCE },
				// One tenant's bad request must not open the breaker for the others.
				breaker: { tenants: 2 },
				routes: { prefix: '/', upstream },
			}),
		},
		{ path: join(dir, SCHEMA_FILE), content: configSchemaText() },
		{ path: files.ca.cert, content: authority.certPem },
		{ path: files.ca.key, content: authorityKey(authority), secret: true },
		{ path: files.server.cert, content: server.certPem },
		{ path: files.server.key, content: server.keyPem, secret: true },
		{ path: client.cert, content: alice.certPem },
		{ path: client.key, content: alice.keyPem, secret: true },
		{ path: files.issuer.publicKey, content: tokenKey.publicKeyPem },
		{
			path: files.issuer.key,
			content: tokenKey.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
			secret: true,
		},
	];
	writeNewFiles(made);
	return { all: made.map(({ path }) => path), next: { ca: inConfig.ca.cert, ...inConfig.client(FIRST_CLIENT) } };
}
