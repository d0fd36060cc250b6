import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Largest file that is read, in bytes: certificates and keys are thousands of times smaller. */
export const MAX_FILE_BYTES = 8 * 1024 * 1024;

/**
 * Reads a file of certificates or keys: a regular file of at most 8 MiB. A FIFO or a device would never come to an end, and
 * hold up the whole process with it.
 *
 * @throws Error naming the file and what is wrong with it; never a word of its content.
 */
export function readSmallFile(path: string | URL): string {
	const name = nameOf(path);
	let file: number | undefined;
	try {
		// Without O_NONBLOCK the mere opening of a FIFO waits for somebody who writes.
		file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
		if (!fstatSync(file).isFile()) throw new Error(`${name}: is no regular file`);
		return readAll(file, name);
	} catch (error) {
		const { code } = error as NodeJS.ErrnoException;
		throw code === undefined ? error : new Error(`${name}: cannot be read (${code})`);
	} finally {
		if (file !== undefined) closeSync(file);
	}
}

/** By what is read, not by what `fstat` says: a file may grow meanwhile, and those of /proc have no size. */
function readAll(file: number, name: string): string {
	const chunks: Buffer[] = [];
	let length = 0;
	for (;;) {
		const chunk = Buffer.allocUnsafe(64 * 1024);
		const bytes = readSync(file, chunk);
		if (bytes === 0) return Buffer.concat(chunks, length).toString('utf8');
		length += bytes;
		if (length > MAX_FILE_BYTES) throw new Error(`${name}: is larger than 8 MiB`);
		chunks.push(chunk.subarray(0, bytes));
	}
}

export function nameOf(path: string | URL): string {
	return typeof path === 'string' ? path : fileURLToPath(path);
}
