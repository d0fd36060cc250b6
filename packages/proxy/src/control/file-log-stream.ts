import { fstatSync, writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import type { LogStream } from './log-output.ts';

/** A text could not be written completely. */
export interface WriteFailure extends NodeJS.ErrnoException {
	/** The part that is missing in the file. */
	readonly rest?: string;
}

/**
 * A log in a file. Node's own stream for files takes a partial write for a complete one, so a full disk would silently lose lines,
 * and leave half lines behind.
 */
export class FileLogStream implements LogStream {
	readonly writableLength = 0;
	readonly #write: (bytes: Buffer, from: number) => number;
	/** The file ends in the middle of a line. */
	#isCut = false;

	/** @param write writes all or a part of the bytes from `from` on, and returns how many. */
	constructor(write: (bytes: Buffer, from: number) => number) {
		this.#write = write;
	}

	/** @returns `undefined` if `fd` is not a file: pipes and terminals report partial writes. */
	static of(fd: number): FileLogStream | undefined {
		const stats = fstatSync(fd);
		if (isatty(fd) || !(stats.isFile() || stats.isCharacterDevice())) return undefined;
		return new FileLogStream((bytes, from) => writeSync(fd, bytes, from));
	}

	write(text: string, onWritten: (failure?: WriteFailure) => void = () => {}): void {
		// The cut line stays broken, and the next one is whole.
		const end = this.#isCut && text !== '' ? '\n' : '';
		const bytes = Buffer.from(end + text);
		let written = 0;
		try {
			while (written < bytes.length) written += this.#write(bytes, written);
			this.#isCut &&= text === '';
			onWritten();
		} catch (error) {
			if (written > 0) this.#isCut = bytes[written - 1] !== LF;
			onWritten(Object.assign(error as Error, { rest: bytes.subarray(Math.max(written, end.length)).toString() }));
		}
	}

	on(): void {}
}

const LF = 0x0a;
