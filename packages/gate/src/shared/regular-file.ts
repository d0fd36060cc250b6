import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

/**
 * Reads of small files that an operator names. A path may lead to anything: a FIFO without a writer, `/dev/zero`, a
 * mount whose server has gone. None of them may block the process.
 */

/** No certificate bundle or configuration is larger. */
export const MAX_FILE_BYTES = 8 * 1024 * 1024;
/** Local files take milliseconds. A network mount that takes longer than this will not come back soon. */
const READ_LIMIT_MS = 5000;
/** Each read that hangs holds one of libuv's four threads, which name lookups need as well. */
const MAX_HANGING = 2;
/** An exit waits for reads in progress, but not for one that has taken longer than this. */
const EXIT_PATIENCE_MS = 500;

/** The file cannot be read. The message says why, for a sentence such as `cannot be read: there is no such file`. */
export class FileError extends Error {
	override readonly name = 'FileError';
}

interface ReadOptions {
	readonly maxBytes?: number;
	/** For the whole read, in ms. */
	readonly limitMs?: number;
	/** How the file is opened; for tests. */
	readonly open?: (path: string) => Promise<FileHandle>;
}

/**
 * Reads a regular file whole.
 *
 * @throws FileError if it is not a regular file, too large, not readable, or not read within `limitMs`.
 */
export async function readRegularFile(path: string, options: ReadOptions = {}): Promise<Buffer> {
	const { maxBytes = MAX_FILE_BYTES, limitMs = READ_LIMIT_MS, open = openAtOnce } = options;
	if (hanging.has(path)) throw new FileError('an earlier read of it has not finished');
	if (hanging.size >= MAX_HANGING) {
		throw new FileError(`reads of other files have not finished (${[...hanging].join(', ')})`);
	}
	const reading = underWay(readWhole(path, maxBytes, open));
	const late = Promise.withResolvers<never>();
	const timer = setTimeout(() => {
		hanging.add(path);
		const forget = () => hanging.delete(path);
		reading.then(forget, forget);
		late.reject(new FileError(`it could not be read within ${limitMs / 1000} s; check its file system`));
	}, limitMs);
	try {
		return await Promise.race([reading, late.promise]);
	} catch (error) {
		throw fileError(error);
	} finally {
		clearTimeout(timer);
	}
}

/**
 * The same for callers that cannot wait for a promise. A file system that hangs blocks them without a limit.
 *
 * @throws FileError if it is not a regular file, too large or not readable.
 */
export function readRegularFileSync(path: string, maxBytes: number = MAX_FILE_BYTES): Buffer {
	let descriptor: number | undefined;
	try {
		descriptor = openSync(path, OPEN_AT_ONCE);
		assertRegular(fstatSync(descriptor));
		const pieces = new Pieces(maxBytes);
		while (pieces.add(readSync(descriptor, pieces.next))) {}
		return pieces.whole();
	} catch (error) {
		throw fileError(error);
	} finally {
		if (descriptor !== undefined) closeSync(descriptor);
	}
}

/** Without O_NONBLOCK an open of a FIFO waits for a writer; without O_NOCTTY a terminal could become ours. */
const OPEN_AT_ONCE = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOCTTY ?? 0);

function openAtOnce(path: string): Promise<FileHandle> {
	return open(path, OPEN_AT_ONCE);
}

async function readWhole(path: string, maxBytes: number, open: (path: string) => Promise<FileHandle>): Promise<Buffer> {
	const file = await open(path);
	try {
		assertRegular(await file.stat());
		const pieces = new Pieces(maxBytes);
		while (pieces.add((await file.read(pieces.next)).bytesRead)) {}
		return pieces.whole();
	} finally {
		await file.close();
	}
}

/** The content read so far. The size from `stat` is not a bound: files grow, and those of `/proc` have none. */
class Pieces {
	readonly #maxBytes: number;
	readonly #pieces: Buffer[] = [];
	#bytes = 0;
	/** To be filled by the next read. */
	next = Buffer.allocUnsafe(64 * 1024);

	constructor(maxBytes: number) {
		this.#maxBytes = maxBytes;
	}

	/** @returns whether there may be more. */
	add(bytesRead: number): boolean {
		if (bytesRead === 0) return false;
		this.#bytes += bytesRead;
		if (this.#bytes > this.#maxBytes) throw new FileError(`it is larger than ${sizeInWords(this.#maxBytes)}`);
		this.#pieces.push(this.next.subarray(0, bytesRead));
		this.next = Buffer.allocUnsafe(64 * 1024);
		return true;
	}

	whole(): Buffer {
		return Buffer.concat(this.#pieces);
	}
}

function assertRegular(stats: Stats): void {
	if (stats.isFile()) return;
	if (stats.isDirectory()) throw new FileError('it is a directory');
	const kind = stats.isFIFO() ? 'a FIFO' : stats.isSocket() ? 'a socket' : 'a device';
	throw new FileError(`it is ${kind}, not a regular file`);
}

function fileError(error: unknown): FileError {
	if (error instanceof FileError) return error;
	const { code, message } = error as NodeJS.ErrnoException;
	return new FileError(REASONS.get(code ?? '') ?? message, { cause: error });
}

const REASONS = new Map([
	['ENOENT', 'there is no such file'],
	['ENOTDIR', 'a part of its path is not a directory'],
	['EACCES', 'permission denied'],
	['EISDIR', 'it is a directory'],
	['ENXIO', 'it is a socket or a device, not a regular file'],
	['ELOOP', 'its symbolic links form a loop'],
]);

function sizeInWords(bytes: number): string {
	return bytes >= 1024 * 1024 ? `${bytes / (1024 * 1024)} MiB` : `${bytes} bytes`;
}

/** Paths of abandoned reads that still hang. */
const hanging = new Set<string>();
const readsUnderWay = new Set<{ readonly startedAt: number }>();

/**
 * Node joins libuv's threads when it exits, and one that hangs in a read would keep the process for as long as the file
 * system hangs, also after SIGTERM. A kill does not wait for them.
 */
function underWay<T>(reading: Promise<T>): Promise<T> {
	const read = { startedAt: performance.now() };
	if (readsUnderWay.size === 0) process.on('exit', killIfHanging);
	readsUnderWay.add(read);
	const forget = () => {
		readsUnderWay.delete(read);
		if (readsUnderWay.size === 0) process.off('exit', killIfHanging);
	};
	reading.then(forget, forget);
	return reading;
}

function killIfHanging(): void {
	const now = performance.now();
	if ([...readsUnderWay].some(({ startedAt }) => now - startedAt > EXIT_PATIENCE_MS))
		process.kill(process.pid, 'SIGKILL');
}
