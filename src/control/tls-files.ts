import type { Config, ConfigFiles } from '../config/config.ts';
import { ConfigError, type ConfigProblem } from '../config/error.ts';
import type { TlsMaterial } from '../shared/messages.ts';
import { judgeTlsMaterial, type TlsNames } from '../shared/tls-material.ts';
import { type Judged, readNamed } from './named-file.ts';

/** The files of `[tls]`, judged: by the start, by a reload and by `proxy check` alike. */

/** A TLS identity that may be used, and what its operator should know of it. */
export interface TlsFiles {
	readonly material: TlsMaterial;
	readonly warnings: readonly ConfigProblem[];
}

/**
 * Reads and judges the three files of `[tls]` (specification 2.1), as many of them as the configuration names. Messages name
 * line, key, file and remedy; never a word of a file's content.
 */
export async function judgeTlsFiles(files: ConfigFiles, now: Date): Promise<Judged<TlsFiles>> {
	const { certPath, keyPath, clientCaPath } = files.tls;
	const cert = await readNamed(files, 'tls.cert_path', certPath);
	const key = await readNamed(files, 'tls.key_path', keyPath);
	const ca = await readNamed(files, 'tls.client_ca_path', clientCaPath);
	const named = { cert, key, ca };
	const names: TlsNames = {
		cert: `tls.cert_path (${certPath})`,
		key: `tls.key_path (${keyPath})`,
		ca: `tls.client_ca_path (${clientCaPath})`,
	};
	const texts = {
		cert: cert.text,
		key: key.text,
		ca: ca.text,
		minVersion: files.tls.minVersion,
	} as Partial<TlsMaterial>;
	const judgement = judgeTlsMaterial(texts, names, now);
	const problems = [
		...Object.values(named).flatMap(({ problem }) => (problem === undefined ? [] : [problem])),
		...judgement.problems.map(({ of, message }) => named[of].about(message)),
	];
	const warnings = judgement.warnings.map(({ of, message }) => named[of].about(message));
	const usable = problems.length === 0 && Object.values(named).every(({ text }) => text !== undefined);
	return { ...(usable && { material: texts as TlsMaterial }), problems, warnings };
}

/**
 * The same for those who want material that can be used.
 *
 * @throws ConfigError naming every problem.
 */
export async function readTlsFiles(config: Config, now: Date): Promise<TlsFiles> {
	const { material, problems, warnings } = await judgeTlsFiles(config, now);
	if (material === undefined) throw new ConfigError(config.path, problems);
	return { material, warnings };
}
