import type { PemMaterial } from '@mtls-edge-proxy/gate/shared/pem-material.ts';
import { MAX_FILE_BYTES, readRegularFile } from '@mtls-edge-proxy/gate/shared/regular-file.ts';
import { readCertificates } from '@mtls-edge-proxy/gate/tls/certificates.ts';
import { judgeTlsMaterial, type TlsNames, type TlsRole } from '@mtls-edge-proxy/gate/tls/tls-material.ts';
import type { Config, ConfigFiles } from '../../config/config.ts';
import { ConfigError, type ConfigProblem, problemAt } from '../../config/error.ts';

/** The result of reading files: all their problems, or their contents. */
export type Judged<Files> = Partial<Files> & {
	readonly problems: readonly ConfigProblem[];
	readonly warnings: readonly ConfigProblem[];
};

/** A file that the configuration names. */
interface NamedFile {
	/** `undefined` if the configuration names no file, or if it cannot be read. */
	readonly text?: string;
	/** One if it cannot be read. */
	readonly problems: readonly ConfigProblem[];
	/** A message about the file, at the place that names it. */
	readonly about: (message: string) => ConfigProblem;
}

/** As text, without the byte order mark that some editors write. Comments may be in any encoding. */
export async function readNamed(files: ConfigFiles, key: string, path: string | undefined): Promise<NamedFile> {
	const { bytes, ...named } = await readNamedBytes(files, key, path);
	return bytes === undefined ? named : { ...named, text: new TextDecoder().decode(bytes) };
}

/** One file at a time, so that a file system that hangs takes only one of libuv's four threads. */
export async function readNamedBytes(
	{ lines }: ConfigFiles,
	key: string,
	path: string | undefined,
	maxBytes = MAX_FILE_BYTES,
): Promise<Omit<NamedFile, 'text'> & { readonly bytes?: Buffer }> {
	const about = (message: string) => problemAt(lines, key, message, path);
	if (path === undefined) return { problems: [], about };
	try {
		return { bytes: await readRegularFile(path, { maxBytes }), problems: [], about };
	} catch (error) {
		return { problems: [about(`cannot be read: ${(error as Error).message}`)], about };
	}
}

/** Reads and parses a file, if the configuration names it. @param parse throws the fault in words. */
export async function readParsed<Value>(
	files: ConfigFiles,
	key: string,
	path: string | undefined,
	parse: (text: string, warn: (message: string) => void) => Value,
): Promise<Judged<{ readonly value: Value }>> {
	const { text, problems, about } = await readNamed(files, key, path);
	const warnings: ConfigProblem[] = [];
	if (text === undefined) return { problems, warnings };
	try {
		return { value: parse(text, (message) => warnings.push(about(message))), problems, warnings };
	} catch (error) {
		return { problems: [about((error as Error).message)], warnings };
	}
}

/** @throws Error if the text has no certificates. @returns the text. */
export function certificates(pem: string): string {
	readCertificates(pem);
	return pem;
}

/**
 * Reads a certificate, its key and CAs, and judges them together.
 *
 * @param places full key and path of each, in the order of their problems.
 */
export async function judgePemFiles(
	files: ConfigFiles,
	places: Readonly<Record<keyof TlsNames, readonly [key: string, path: string | undefined]>>,
	minVersion: PemMaterial['minVersion'],
	now: Date,
	role?: TlsRole,
) {
	const texts: Partial<Record<keyof TlsNames, string>> = {};
	const names = {} as Record<keyof TlsNames, string>;
	const about = {} as Record<keyof TlsNames, NamedFile['about']>;
	const problems: ConfigProblem[] = [];
	for (const [of, [key, path]] of Object.entries(places) as [keyof TlsNames, readonly [string, string?]][]) {
		const file = await readNamed(files, key, path);
		problems.push(...file.problems);
		if (file.text !== undefined) texts[of] = file.text;
		names[of] = `${key} (${path})`;
		about[of] = file.about;
	}
	const judgement = judgeTlsMaterial({ ...texts, minVersion }, names, now, role);
	problems.push(...judgement.problems.map(({ of, message }) => about[of](message)));
	const warnings = judgement.warnings.map(({ of, message, failsCheck }): ConfigProblem => {
		return { ...about[of](message), ...(failsCheck && { failsCheck }) };
	});
	return { texts, problems, warnings, wrong: new Set(judgement.problems.map(({ of }) => of)) };
}

/** For callers that need usable contents. @throws ConfigError naming every problem. */
export function usable<Files>({ path }: Config, { problems, ...judged }: Judged<Files>) {
	if (problems.length > 0) throw new ConfigError(path, problems);
	return judged as Files & Pick<Judged<Files>, 'warnings'>;
}
