import type { Config, ConfigFiles } from '../config/config.ts';
import { ConfigError } from '../config/error.ts';
import { readPublicKey } from '../gates/public-key.ts';
import type { IdentitySeed } from '../identity/trust.ts';
import { readBlocks } from '../shared/certificates.ts';
import { type Judged, readNamed } from './named-file.ts';

/** The files that say whom we believe, judged: by the start, by a reload and by `proxy check` alike. */

/** @param config `undefined` where the configuration is wrong elsewhere: then its files are judged all the same. */
export async function judgeIdentityFiles(
	files: ConfigFiles,
	config: Config | undefined,
): Promise<Judged<{ readonly identity: IdentitySeed }>> {
	const { publicKeyPem, problems, warnings } = await judgeJwtKeyFile(files);
	if (publicKeyPem === undefined || config === undefined) return { problems, warnings };
	const { issuer, audience, rateClaim } = config.jwt;
	const issuers = [{ issuer, audience, rateClaim, publicKeyPem }];
	return { identity: { issuers, quotas: { tenants: config.tenants } }, problems, warnings };
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

/** Reads and judges the key of `[jwt] jwks_path`. It stays PEM text: key objects are made by each worker for itself. */
export async function judgeJwtKeyFile(files: ConfigFiles): Promise<Judged<{ readonly publicKeyPem: string }>> {
	const { text, problem, about } = await readNamed(files, 'jwt.jwks_path', files.jwt.publicKeyPath);
	if (text === undefined) return { problems: problem === undefined ? [] : [problem], warnings: [] };
	try {
		readPublicKey(text);
		// A rest that is no whole block may be all that is left of another key.
		readBlocks(text);
		return { publicKeyPem: text, problems: [], warnings: [] };
	} catch (error) {
		return { problems: [about((error as Error).message)], warnings: [] };
	}
}
