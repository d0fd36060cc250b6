/**
 * One read buffer for all sockets of the thread, of clients and of upstreams. Node fills it, over TLS with a decrypted record, and calls
 * back before it reads again. So its bytes are valid only during the callback, and code that keeps some of them copies them. A KiB less
 * than a slab, so that a read and its framing fit into one slab.
 */
export const READ_BUFFER: Buffer = Buffer.allocUnsafeSlow(64_512);

/** The first bytes of `READ_BUFFER`. Reads of one length share a view: a new one takes as long as reading a few fields. */
export function readView(length: number): Buffer {
	if (length >= VIEWS.length) return READ_BUFFER.subarray(0, length);
	VIEWS[length] ??= READ_BUFFER.subarray(0, length);
	return VIEWS[length];
}

/** `READ_BUFFER`, four bytes at a time. */
export const READ_WORDS: Int32Array = new Int32Array(READ_BUFFER.buffer);

/** Whether the bytes are those of `readView`, so that `READ_WORDS` holds them, too. */
export function isReadView(bytes: Buffer): boolean {
	return bytes === VIEWS[bytes.length];
}

/** By length. Longer reads are rare enough to get a new view. */
const VIEWS: (Buffer | undefined)[] = new Array(2048).fill(undefined);

/** Takes a read: so many bytes of `READ_BUFFER`. @returns whether to read on. */
export type ReadCallback = (length: number) => boolean;

/** Prepares the callback of a socket. The tests' variant overwrites the bytes after each read (`poisoned-read-buffer.ts`). */
export function reader(callback: ReadCallback): ReadCallback {
	return callback;
}
