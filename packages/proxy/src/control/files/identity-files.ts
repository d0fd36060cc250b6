import type { Algorithm } from '@mtls-edge-proxy/gate/gates/algorithm.ts';
import { DEFAULT_RULES, type IssuerSeed } from '@mtls-edge-proxy/gate/identity/issuer.ts';
import { type KeySetSeed, readKeySet } from '@mtls-edge-proxy/gate/identity/key-set.ts';
import type { IdentitySeed } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { RemoteIssuer } from '@mtls-edge-proxy/gate/jwks/remote-issuer.ts';
import type { Config, ConfigFiles, IssuerConfig, IssuerFile } from '../../config/config.ts';
import type { ConfigProblem } from '../../config/error.ts';
import { certificates, type Judged, readParsed } from './named-file.ts';

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
	const identity = { issuers: seeds(config, jwt?.value, contents), quotas: { tenants: config.tenants } };
	return { identity, remotes, problems, warnings };
}

/** Reads and judges the keys of `[jwt] jwks_path`. They stay text: each worker makes its own key objects. */
export function judgeJwtKeyFile(files: ConfigFiles): Promise<Judged<{ readonly value: KeySetSeed }>> {
	return readParsed(files, 'jwt.jwks_path', files.jwt?.jwksPath, (text, warn) => {
		return readKeys(text, DEFAULT_RULES.algorithms, warn);
	});
}

/** Contents of the files of `[[issuers]]`, by the full key that names each. */
interface Contents {
	readonly keys: Map<string, KeySetSeed>;
	readonly authorities: Map<string, string>;
}

function judgeIssuerFile(files: ConfigFiles, file: IssuerFile, contents: Contents): Promise<Judged<object>> {
	const { key, path, content, algorithms } = file;
	return readParsed(files, key, path, (text, warn) => {
		if (content === 'authorities') return contents.authorities.set(key, certificates(text));
		if (content === 'key' && /^\s*\{/.test(text)) {
			throw new Error('contains JSON, not a PEM public key; name a JWK Set with jwks_path');
		}
		return contents.keys.set(key, readKeys(text, algorithms, warn));
	});
}

function readKeys(text: string, algorithms: readonly Algorithm[], warn: (message: string) => void): KeySetSeed {
	const { seed, skipped } = readKeySet(text, algorithms);
	for (const entry of skipped) warn(`ignores ${entry}`);
	return seed;
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
