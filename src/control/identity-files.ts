import type { Config, ConfigFiles } from '../config/config.ts';
import { ConfigError } from '../config/error.ts';
import { DEFAULT_RULES } from '../identity/issuer.ts';
import { type KeySetSeed, readKeySet } from '../identity/key-set.ts';
import type { IdentitySeed } from '../identity/trust.ts';
import { type Judged, readNamed } from './named-file.ts';

/** The files that say whom we believe, judged: by the start, by a reload and by `proxy check` alike. */

/** @param config `undefined` where the configuration is wrong elsewhere: then its files are judged all the same. */
export async function judgeIdentityFiles(
	files: ConfigFiles,
	config: Config | undefined,
): Promise<Judged<{ readonly identity: IdentitySeed }>> {
	const { keys, problems, warnings } = await judgeJwtKeyFile(files);
	if (keys === undefined || config === undefined) return { problems, warnings };
	const { issuer, audience, certificateBound } = config.jwt;
	const rules = {
		...DEFAULT_RULES,
		issuer,
		audience: audience === undefined ? undefined : [audience],
		certificateBound,
	};
	return { identity: { issuers: [{ ...rules, keys, remote: false }] }, problems, warnings };
}

/**
 * The same for those who want an identity that can be used.
 *
 * @throws ConfigError naming every problem.
 */
export async function readIdentityFiles(config: Config) {
	const { identity, problems, warnings } = await judgeIdentityFiles(config, config);
	if (identity === undefined) throw new ConfigError(config.path, problems);
	return { identity, warnings };
}

/** Reads and judges the keys of `[jwt] jwks_path`. They stay text: key objects are made by each worker for itself. */
export async function judgeJwtKeyFile(files: ConfigFiles): Promise<Judged<{ readonly keys: KeySetSeed }>> {
	const { text, problem, about } = await readNamed(files, 'jwt.jwks_path', files.jwt.publicKeyPath);
	if (text === undefined) return { problems: problem === undefined ? [] : [problem], warnings: [] };
	try {
		const { seed, skipped } = readKeySet(text, DEFAULT_RULES.algorithms);
		return { keys: seed, problems: [], warnings: skipped.map((entry) => about(`leaves out ${entry}`)) };
	} catch (error) {
		return { problems: [about((error as Error).message)], warnings: [] };
	}
}
