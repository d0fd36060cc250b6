import { fstatSync, writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { formatJson, formatPretty, type LogRecord } from '@mtls-edge-proxy/gate/shared/log.ts';

export interface WriteFailure extends NodeJS.ErrnoException {
	/** The part that is missing in the file. */
	readonly rest?: string;
}

/** As much of `process.stdout` as is needed. */
export interface LogStream {
	/** @param onWritten called when the text is written, or with the reason if not all of it could be. */
	write(text: string, onWritten?: (failure?: WriteFailure | null) => void): unknown;
	on(event: 'error', listener: () => void): unknown;
	/** Bytes that wait for the reader. */
	readonly writableLength: number;
	readonly isTTY?: boolean;
}

export interface LogOutput {
	writeRecord(record: LogRecord): void;
	/**
	 * Writes lines unchanged. They do not count against the bound: their sender waits for `onWritten` before there are too many.
	 *
	 * @param dropped how many lines the sender has dropped before these.
	 */
	writeLines(lines: string, dropped: number, onWritten: () => void): void;
	readonly losses: Readonly<LogLosses>;
	/** Calls back once when all is written, at the latest after that many ms: a reader that has stopped holds up nothing. */
	whenWritten(limitMs: number, then: () => void): void;
}

/** Lines that could not be written. */
export interface LogLosses {
	accessLines: number;
	lines: number;
	/** Set from a failed write until the next one that succeeds. */
	failing: { readonly sinceSeconds: number; readonly code: string } | undefined;
}

/** Limit for lines that wait for a slow reader: more would cost the proxy its memory. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;

/**
 * Writes records as lines. A reader that has gone (EPIPE) or does not keep up costs lines, never the proxy. The first
 * line that it reads afterwards says how many were lost.
 *
 * @param env for `NO_COLOR` (https://no-color.org).
 */
export function createLogOutput(
	stream: LogStream,
	format: 'json' | 'pretty',
	env: Readonly<Record<string, string | undefined>>,
): LogOutput {
	stream.on('error', () => {});
	const colour = stream.isTTY === true && !env.NO_COLOR;
	const line = format === 'json' ? formatJson : (record: LogRecord) => formatPretty(record, colour);
	const losses: LogLosses = { accessLines: 0, lines: 0, failing: undefined };
	/** Lost lines that the log has not reported yet. */
	let dropped = 0;
	/** @param then gets how many lines of the text were lost. */
	const write = (text: string, then: (lines: number) => void) =>
		stream.write(text, (failure) => {
			if (!failure) {
				losses.failing = undefined;
				return then(0);
			}
			const { rest = text, code = failure.message } = failure;
			const lines = rest.split('\n').length - 1;
			losses.failing ??= { sinceSeconds: Date.now() / 1000, code };
			losses.lines += lines;
			dropped += lines;
			then(lines);
		});
	const confess = () => {
		if (dropped === 0) return;
		const lines = dropped;
		dropped = 0;
		// If that line is lost as well, it is not one more that is missing.
		write(`${line(lost(lines, new Date()))}\n`, (failed) => {
			if (failed > 0) dropped += lines - 1;
			losses.lines -= failed;
		});
	};
	return {
		losses,
		writeRecord(record) {
			if (stream.writableLength > MAX_WAITING_BYTES) {
				dropped++;
				return;
			}
			confess();
			write(`${line(record)}\n`, () => {});
		},
		writeLines(lines, droppedBefore, onWritten) {
			dropped += droppedBefore;
			confess();
			write(lines, (lost) => {
				losses.accessLines += lost;
				onWritten();
			});
		},
		whenWritten(limitMs, then) {
			if (stream.writableLength === 0) return then();
			let waits = true;
			const end = () => {
				if (waits) then();
				waits = false;
			};
			setTimeout(end, limitMs);
			stream.write('', end);
		},
	};
}

function lost(lines: number, time: Date): LogRecord {
	const message = 'log lines are missing here: the reader did not keep up, or a write failed';
	return { time, level: 'warn', target: 'proxy::log', message, fields: { lines } };
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
