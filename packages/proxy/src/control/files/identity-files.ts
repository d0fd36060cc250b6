import { DEFAULT_RULES, type IssuerSeed } from '@mtls-edge-proxy/gate/identity/issuer.ts';
import { type KeySetReading, type KeySetSeed, readKeySet } from '@mtls-edge-proxy/gate/identity/key-set.ts';
import type { IdentitySeed } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { RemoteIssuer } from '@mtls-edge-proxy/gate/jwks/remote-issuer.ts';
import { readCertificates } from '@mtls-edge-proxy/gate/tls/certificates.ts';
import type { Config, ConfigFiles, IssuerConfig, IssuerFile } from '../../config/config.ts';
import { ConfigError, type ConfigProblem } from '../../config/error.ts';
import { type Judged, readNamed } from './named-file.ts';

/** Reads and judges the files of trusted keys and certificates, for the start, a reload and `proxy check` alike. */

export interface IdentityFiles {
	/** Issuers whose keys come over the network have none yet. */
	readonly identity: IdentitySeed;
	readonly remotes: readonly RemoteIssuer[];
}

/** @param config `undefined` if the configuration has faults elsewhere: its files are checked anyway. */
export async function judgeIdentityFiles(
	files: ConfigFiles,
	config: Config | undefined,
): Promise<Judged<IdentityFiles>> {
	const problems: ConfigProblem[] = [];
	const warnings: ConfigProblem[] = [];
	const contents: Contents = { keys: new Map(), authorities: new Map() };
	const note = (judged: Judged<object>) => {
		problems.push(...judged.problems);
		warnings.push(...judged.warnings);
	};
	for (const file of files.issuerFiles) note(await judgeIssuerFile(files, file, contents));
	const jwt = files.jwt === undefined ? undefined : await judgeJwtKeyFile(files);
	if (jwt !== undefined) note(jwt);
	if (config === undefined || problems.length > 0) return { problems, warnings };
	const remotes = config.issuers.flatMap((issuer) => remoteOf(issuer, contents));
	const identity = { issuers: seeds(config, jwt?.keys, contents), quotas: { tenants: config.tenants } };
	return { identity, remotes, problems, warnings };
}

/**
 * The same for callers that need a usable identity.
 *
 * @throws ConfigError naming every problem.
 */
export async function readIdentityFiles(
	config: Config,
): Promise<IdentityFiles & { readonly warnings: readonly ConfigProblem[] }> {
	const { identity, remotes = [], problems, warnings } = await judgeIdentityFiles(config, config);
	if (identity === undefined) throw new ConfigError(config.path, problems);
	return { identity, remotes, warnings };
}

/** Reads and judges the keys of `[jwt] jwks_path`. They stay text: each worker makes its own key objects. */
export async function judgeJwtKeyFile(files: ConfigFiles): Promise<Judged<{ readonly keys: KeySetSeed }>> {
	const { text, problem, about } = await readNamed(files, 'jwt.jwks_path', files.jwt?.jwksPath);
	if (text === undefined) return { problems: problem === undefined ? [] : [problem], warnings: [] };
	return judgeKeys(() => readKeySet(text, DEFAULT_RULES.algorithms), about);
}

/** Contents of the files of `[[issuers]]`, by the full key that names each. */
interface Contents {
	readonly keys: Map<string, KeySetSeed>;
	readonly authorities: Map<string, string>;
}

async function judgeIssuerFile(files: ConfigFiles, file: IssuerFile, contents: Contents): Promise<Judged<object>> {
	const { text, problem, about } = await readNamed(files, file.key, file.path);
	if (text === undefined) return { problems: problem === undefined ? [] : [problem], warnings: [] };
	if (file.content === 'authorities') {
		try {
			readCertificates(text);
			contents.authorities.set(file.key, text);
			return { problems: [], warnings: [] };
		} catch (error) {
			return { problems: [about((error as Error).message)], warnings: [] };
		}
	}
	const { keys, ...judged } = judgeKeys(() => readIssuerKeys(text, file), about);
	if (keys !== undefined) contents.keys.set(file.key, keys);
	return judged;
}

function readIssuerKeys(text: string, { content, algorithms }: IssuerFile): KeySetReading {
	const json = /^\s*\{/.test(text);
	if (content === 'key' && json) throw new Error('contains JSON, not a PEM public key; name a JWK Set with jwks_path');
	return readKeySet(text, algorithms);
}

function judgeKeys(
	read: () => KeySetReading,
	about: (message: string) => ConfigProblem,
): Judged<{ readonly keys: KeySetSeed }> {
	try {
		const { seed, skipped } = read();
		return { keys: seed, problems: [], warnings: skipped.map((entry) => about(`ignores ${entry}`)) };
	} catch (error) {
		return { problems: [about((error as Error).message)], warnings: [] };
	}
}

function seeds({ jwt, issuers }: Config, keys: KeySetSeed | undefined, contents: Contents): IssuerSeed[] {
	if (jwt === undefined) {
		return issuers.map(({ rules, keys: source }) => {
			const remote = source.type === 'network';
			return { ...rules, keys: remote ? undefined : contents.keys.get(source.key), remote };
		});
	}
	const { issuer, audience, certificateBound, rateClaim } = jwt;
	const rules = {
		...DEFAULT_RULES,
		issuer,
		audience: audience === undefined ? undefined : [audience],
		certificateBound,
		rateClaim,
	};
	return [{ ...rules, keys, remote: false }];
}

function remoteOf({ issuer, rules, keys }: IssuerConfig, contents: Contents): RemoteIssuer[] {
	if (keys.type !== 'network') return [];
	const { url, caKey, refreshMs, maxStaleMs } = keys;
	const ca = caKey === undefined ? undefined : contents.authorities.get(caKey);
	return [{ issuer, url, ca, algorithms: rules.algorithms, refreshMs, maxStaleMs }];
}
