import { formatJson, formatPretty, type LogRecord } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { WriteFailure } from './file-log-stream.ts';

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
	/** Lines of the access log. */
	accessLines: number;
	/** Lines of any kind. */
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
