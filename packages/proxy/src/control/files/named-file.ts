import { MAX_FILE_BYTES, readRegularFile } from '@mtls-edge-proxy/gate/shared/regular-file.ts';
import type { ConfigFiles } from '../../config/config.ts';
import { type ConfigProblem, problemAt } from '../../config/error.ts';

/** The result of reading files: all their problems, or their contents. */
export type Judged<Files> = Partial<Files> & {
	readonly problems: readonly ConfigProblem[];
	readonly warnings: readonly ConfigProblem[];
};

/** A file that the configuration names. */
interface NamedFile {
	/** `undefined` if the configuration names no file, or if it cannot be read. */
	readonly text?: string;
	readonly problem?: ConfigProblem;
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
	if (path === undefined) return { about };
	try {
		return { bytes: await readRegularFile(path, { maxBytes }), about };
	} catch (error) {
		return { problem: about(`cannot be read: ${(error as Error).message}`), about };
	}
}
