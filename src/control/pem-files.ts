import type { Config, ConfigFiles } from '../config/config.ts';
import { ConfigError, type ConfigProblem } from '../config/error.ts';
import { readPublicKey } from '../gates/public-key.ts';
import { readBlocks } from '../shared/certificates.ts';
import type { TlsMaterial } from '../shared/messages.ts';
import { readRegularFile } from '../shared/regular-file.ts';
import { judgeTlsMaterial, type TlsNames } from '../shared/tls-material.ts';

/** The files that the configuration names, judged: by the start, by a reload and by `proxy check` alike. */

/** A TLS identity that may be used, and what its operator should know of it. */
export interface TlsFiles {
	readonly material: TlsMaterial;
	readonly warnings: readonly ConfigProblem[];
}

/** What came of reading files: everything that is wrong with them, or what they hold. */
export type Judged<Files> = Partial<Files> & {
	readonly problems: readonly ConfigProblem[];
	readonly warnings: readonly ConfigProblem[];
};

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

interface NamedFile {
	/** `undefined` where the configuration names no file, or where it cannot be read. */
	readonly text?: string;
	readonly problem?: ConfigProblem;
	/** Says something about the file, at the place that names it. */
	readonly about: (message: string) => ConfigProblem;
}

/** One file at a time: a file system that hangs then takes one of libuv's threads and not all four. */
async function readNamed({ lines }: ConfigFiles, key: string, path: string | undefined): Promise<NamedFile> {
	const line = lines[key];
	const about = (message: string): ConfigProblem => ({
		...(line !== undefined && { line }),
		key,
		...(path !== undefined && { file: path }),
		message,
	});
	if (path === undefined) return { about };
	try {
		// Without the byte order mark that some editors write. Comments may be in any encoding.
		return { text: new TextDecoder().decode(await readRegularFile(path)), about };
	} catch (error) {
		return { problem: about(`cannot be read: ${(error as Error).message}`), about };
	}
}
