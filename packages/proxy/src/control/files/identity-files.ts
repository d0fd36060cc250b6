import type { Algorithm } from '@mtls-edge-proxy/gate/gates/algorithm.ts';
import { DEFAULT_RULES, type IssuerSeed } from '@mtls-edge-proxy/gate/identity/issuer.ts';
import { type KeySetSeed, readKeySet } from '@mtls-edge-proxy/gate/identity/key-set.ts';
import type { IdentitySeed } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { RemoteIssuer } from '@mtls-edge-proxy/gate/jwks/remote-issuer.ts';
import type { Config, IssuerConfig, IssuerFile } from '../../config/config.ts';
import { certificates, Findings, type NamedFile, type ReadSpec, readSpec } from './findings.ts';

export interface IdentityFiles {
	/** Issuers whose keys come over the network have none yet. */
	readonly identity: IdentitySeed;
	readonly remotes: readonly RemoteIssuer[];
}

/**
 * Reads and judges the files of trusted keys and certificates.
 *
 * @param config `undefined` if the configuration has faults elsewhere: its files are checked anyway.
 */
export async function judgeIdentityFiles(
	found: Findings,
	config: Config | undefined,
): Promise<IdentityFiles | undefined> {
	const contents: Contents = { keys: new Map(), authorities: new Map() };
	for (const file of found.files.issuerFiles) await judgeIssuerFile(found, file, contents);
	const jwtKeys = await judgeJwtKeyFile(found);
	if (config === undefined) return undefined;
	const remotes = config.issuers.flatMap((issuer) => remoteOf(issuer, contents));
	const identity = { issuers: seeds(config, jwtKeys, contents), quotas: { tenants: config.tenants } };
	return { identity, remotes };
}

/** Reads and judges the keys of `[jwt] jwks_path`. They stay text: each worker makes its own key objects. */
export function judgeJwtKeyFile(found: Findings): Promise<KeySetSeed | undefined> {
	const file = found.file('jwt.jwks_path', found.files.jwt?.jwksPath);
	return file.parsed((text) => readKeys(text, DEFAULT_RULES.algorithms, file));
}

/**
 * Reads the identity for a reload.
 *
 * @param inForce keeps its issuers if `[jwt]` is read only at the start.
 * @throws ConfigError
 */
export async function readReloadedIdentity(config: Config, inForce: IdentitySeed): Promise<ReadSpec<IdentityFiles>> {
	if (config.jwt === undefined || config.jwt.reload)
		return readSpec(config, (found) => judgeIdentityFiles(found, config));
	const withoutJwt = { ...config, jwt: undefined };
	const { spec, warnings } = await readSpec(withoutJwt, (found) => judgeIdentityFiles(found, withoutJwt));
	return { spec: { identity: { ...spec.identity, issuers: inForce.issuers }, remotes: [] }, warnings };
}

/** Whether the key file of `[jwt]` has changed without effect: its path is the same, and its keys differ from those in force. */
export async function keysChangedInVain(booted: Config, current: Config, inForce: IdentitySeed): Promise<boolean> {
	const { jwt } = current;
	if (jwt === undefined || jwt.reload || jwt.jwksPath !== booted.jwt?.jwksPath) return false;
	const keys = await judgeJwtKeyFile(new Findings(current));
	return JSON.stringify(keys) !== JSON.stringify(inForce.issuers[0]?.keys);
}

/** Contents of the files of `[[issuers]]`, by the full key that names each. */
interface Contents {
	readonly keys: Map<string, KeySetSeed>;
	readonly authorities: Map<string, string>;
}

function judgeIssuerFile(found: Findings, { key, path, content, algorithms }: IssuerFile, contents: Contents) {
	const file = found.file(key, path);
	return file.parsed((text) => {
		if (content === 'authorities') return contents.authorities.set(key, certificates(text));
		if (content === 'key' && /^\s*\{/.test(text)) {
			throw new Error('contains JSON, not a PEM public key; name a JWK Set with jwks_path');
		}
		return contents.keys.set(key, readKeys(text, algorithms, file));
	});
}

function readKeys(text: string, algorithms: readonly Algorithm[], file: NamedFile): KeySetSeed {
	const { seed, skipped } = readKeySet(text, algorithms);
	for (const entry of skipped) file.warn(`ignores ${entry}`);
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
