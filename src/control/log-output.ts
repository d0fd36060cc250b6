import { formatJson, formatPretty, type LogRecord } from '../shared/log.ts';

/** As much of `process.stdout` as is needed. */
export interface LogStream {
	/** @param onWritten called when nobody waits for it any more, also if it could not be written. */
	write(text: string, onWritten?: () => void): unknown;
	on(event: 'error', listener: () => void): unknown;
	/** Bytes that wait for the reader. */
	readonly writableLength: number;
	readonly isTTY?: boolean;
}

export interface LogOutput {
	writeRecord(record: LogRecord): void;
	/**
	 * Writes lines as they are. They are not held against the bound: whoever sends them waits for `onWritten` before there are
	 * too many.
	 *
	 * @param dropped how many lines the sender has dropped before these.
	 */
	writeLines(lines: string, dropped: number, onWritten: () => void): void;
	/** Calls back once when all has been written, at the latest after that many ms: who has stopped reading holds up nothing. */
	whenWritten(limitMs: number, then: () => void): void;
}

/** More than this does not wait for a reader that has fallen behind: it would cost the proxy its memory. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;

/**
 * Writes records as lines. A reader that has gone (EPIPE) or that does not keep up costs lines, never the proxy; how
 * many it has cost is the first thing that it gets to read afterwards.
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
	let dropped = 0;
	const confess = () => {
		if (dropped > 0) stream.write(`${line(lost(dropped, new Date()))}\n`);
		dropped = 0;
	};
	return {
		writeRecord(record) {
			if (stream.writableLength > MAX_WAITING_BYTES) {
				dropped++;
				return;
			}
			confess();
			stream.write(`${line(record)}\n`);
		},
		writeLines(lines, droppedBefore, onWritten) {
			dropped += droppedBefore;
			confess();
			stream.write(lines, onWritten);
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
	const message = 'log lines are missing here: whoever reads the log did not keep up';
	return { time, level: 'warn', target: 'proxy::log', message, fields: { lines } };
}
