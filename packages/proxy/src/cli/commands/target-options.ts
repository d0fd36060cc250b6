import { Malformed, type ValueOptions } from '../command.ts';
import { type Address, parseAddress, parseDuration, parseFileName } from '../options.ts';
import { RUN_OPTIONS } from '../run-options.ts';

/** Options by which commands find a running proxy. */

export const METRICS_OPTION = {
	flag: 'metrics',
	env: RUN_OPTIONS.metricsBind.env,
	placeholder: 'HOST:PORT',
	fallback: '127.0.0.1:9090',
	about: 'address of its metrics listener; 0.0.0.0 means this machine',
	parse: parseReachable,
} as const;

export const TARGET_OPTIONS = {
	pidFile: {
		flag: 'pid-file',
		env: RUN_OPTIONS.pidFile.env,
		placeholder: 'FILE',
		about: 'the file with its process ID; without it, the command asks the metrics listener',
		candidates: 'file',
		parse: parseFileName,
	},
	metrics: METRICS_OPTION,
} as const satisfies ValueOptions;

/** @param about what the command waits for. */
export function timeoutOption(fallback: string, about: string) {
	return { flag: 'timeout', placeholder: 'TIME', fallback, about, parse: parseDuration } as const;
}

/** Turns an address to listen on into one to connect to. */
function parseReachable(text: string): Address {
	const { host, port } = parseAddress(text);
	if (port === 0)
		throw new Malformed('must name the port (got 0, which leaves it to the system); see bind in its first log line');
	if (host === '0.0.0.0') return { host: '127.0.0.1', port };
	return { host: host === '::' ? '::1' : host, port };
}
