import { defineCommand, Malformed, type ValueOptions } from '../command.ts';
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

export const reload = defineCommand({
	name: 'reload',
	group: 'Control a running proxy',
	about: 'reload the files, and print the outcome',
	details: [
		"Sends SIGHUP to the proxy, and reads the outcome from the metrics listener. Run it as the proxy's user or as root, on the same machine and in the same container.",
	],
	example: 'proxy reload --pid-file /run/proxy/proxy.pid',
	options: { ...TARGET_OPTIONS, timeoutMs: timeoutOption('30s', 'how long to wait for the outcome') },
	switches: { noWait: { flag: 'no-wait', about: 'only send the signal; the log has the outcome' } },
	exitCodes: {
		0: 'all changes are in force',
		3: 'all changes are in force, except the settings listed in the output, which need a restart',
		1: 'the reload failed and the old state stays; or no proxy was found, or the outcome of the reload is unknown',
	},
	run: async ({ noWait, ...values }, context) =>
		(await import('../running/reload.ts')).reload({ ...values, wait: !noWait }, context),
});

export const drain = defineCommand({
	name: 'drain',
	group: 'Control a running proxy',
	about: 'finish the requests in flight, then exit',
	details: [
		'Sends SIGTERM to the proxy, unless the proxy is draining already: a second signal would cut the drain short. In a preStop hook use --wait. Otherwise the kubelet sends its own SIGTERM as soon as the hook returns, and that is the second signal.',
	],
	example: 'proxy drain --wait',
	options: { ...TARGET_OPTIONS, timeoutMs: timeoutOption('60s', 'how long to wait for its exit') },
	switches: { wait: { flag: 'wait', about: 'return when the process has ended' } },
	exitCodes: {
		0: 'the signal was sent; with --wait: the process has ended',
		1: 'no proxy was found; with --wait: it did not end in time',
	},
	run: async (values, context) => (await import('../running/drain.ts')).drain(values, context),
});

/** Turns an address to listen on into one to connect to. */
function parseReachable(text: string): Address {
	const { host, port } = parseAddress(text);
	if (port === 0)
		throw new Malformed('must name the port (got 0, which leaves it to the system); see bind in its first log line');
	if (host === '0.0.0.0') return { host: '127.0.0.1', port };
	return { host: host === '::' ? '::1' : host, port };
}
