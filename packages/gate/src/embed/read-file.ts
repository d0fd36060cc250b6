import { fileURLToPath } from 'node:url';
import { FileError, readRegularFileSync } from '../shared/regular-file.ts';

/**
 * Reads a file of certificates or keys: a regular file of at most 8 MiB. Reading a FIFO or a device might never end, and would block the
 * process.
 *
 * @throws Error that names the file and its fault, and never quotes its content.
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
