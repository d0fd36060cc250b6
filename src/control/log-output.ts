import { formatJson, formatPretty, type LogRecord } from '../shared/log.ts';

/** As much of `process.stdout` as is needed. */
export interface LogStream {
	write(text: string): unknown;
	on(event: 'error', listener: () => void): unknown;
	/** Bytes that wait for the reader. */
	readonly writableLength: number;
	readonly isTTY?: boolean;
}

/** More than this does not wait for a reader that has fallen behind: it would cost the proxy its memory. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;

/**
 * Writes records as lines. A reader that has gone (EPIPE) or that does not keep up costs lines, never the proxy; how
 * many it has cost is the first thing that it gets to read afterwards.
 *
 * @param env for `NO_COLOR` (https://no-color.org).
 */
export function createRecordWriter(
	stream: LogStream,
	format: 'json' | 'pretty',
	env: Readonly<Record<string, string | undefined>>,
): (record: LogRecord) => void {
	stream.on('error', () => {});
	const colour = stream.isTTY === true && !env.NO_COLOR;
	const line = format === 'json' ? formatJson : (record: LogRecord) => formatPretty(record, colour);
	let dropped = 0;
	return (record) => {
		if (stream.writableLength > MAX_WAITING_BYTES) {
			dropped++;
			return;
		}
		if (dropped > 0) stream.write(`${line(lost(dropped, record.time))}\n`);
		dropped = 0;
		stream.write(`${line(record)}\n`);
	};
}

function lost(lines: number, time: Date): LogRecord {
	const message = 'log lines are missing here: whoever reads the log did not keep up';
	return { time, level: 'warn', target: 'proxy::log', message, fields: { lines } };
}
