import { fileURLToPath } from 'node:url';
import { FileError, readRegularFileSync } from '../shared/regular-file.ts';

/**
 * Reads a file of certificates or keys: a regular file of at most 8 MiB. A FIFO or a device would never come to an end, and
 * hold up the whole process with it.
 *
 * @throws Error naming the file and what is wrong with it; never a word of its content.
 */
export function readSmallFile(path: string | URL): string {
	const name = nameOf(path);
	try {
		return readRegularFileSync(name).toString('utf8');
	} catch (error) {
		if (!(error instanceof FileError)) throw error;
		throw new Error(`${name}: cannot be read: ${error.message}`, { cause: error });
	}
}

export function nameOf(path: string | URL): string {
	return typeof path === 'string' ? path : fileURLToPath(path);
}
