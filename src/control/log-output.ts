import { formatJson, formatPretty, type LogRecord } from '../shared/log.ts';

/** As much of `process.stdout` as is needed. */
export interface LogStream {
	write(text: string): unknown;
	on(event: 'error', listener: () => void): unknown;
	readonly isTTY?: boolean;
}

/**
 * Writes records as lines. A reader that has gone (EPIPE) costs the lines, never the proxy.
 *
 * @param env for `NO_COLOR` (https://no-color.org).
 */
export function createRecordWriter(
	stream: LogStream,
	format: 'json' | 'pretty',
	env: Readonly<Record<string, string | undefined>>,
): (record: LogRecord) => void {
	stream.on('error', () => {});
	if (format === 'json') return (record) => void stream.write(`${formatJson(record)}\n`);
	const colour = stream.isTTY === true && !env.NO_COLOR;
	return (record) => void stream.write(`${formatPretty(record, colour)}\n`);
}
