import { quote } from '../config/wording.ts';
import { Malformed, type Switches, type ValueOptions, type Values } from './command.ts';
import { type Address, parseAddress, parseFileName } from './options.ts';

/** More threads than cores help little, and each takes about 18 MB: a typo must not take all memory. */
export const WORKERS_PER_CORE = 4;

const LOG_FORMATS = ['json', 'pretty'] as const;

/** Options of the start, which `proxy check` accepts too. */
export const RUN_OPTIONS = {
	config: {
		flag: 'config',
		env: 'PROXY_CONFIG',
		placeholder: 'FILE',
		fallback: 'config.toml',
		about: 'configuration file, TOML',
		candidates: 'file',
		parse: parseFileName,
	},
	bind: {
		flag: 'bind',
		env: 'PROXY_BIND',
		placeholder: 'HOST:PORT',
		fallback: '0.0.0.0:8443',
		about: 'address of the TLS listener',
		parse: parseAddress,
	},
	metricsBind: {
		flag: 'metrics-bind',
		env: 'PROXY_METRICS_BIND',
		placeholder: 'HOST:PORT',
		fallback: '0.0.0.0:9090',
		about: 'address of the plain metrics listener; it has no authentication, keep it private',
		parse: parseAddress,
	},
	pidFile: {
		flag: 'pid-file',
		env: 'PROXY_PID_FILE',
		placeholder: 'FILE',
		about: 'file for the process ID; written when the proxy is ready, removed when it exits',
		candidates: 'file',
		parse: parseFileName,
	},
	workers: {
		flag: 'workers',
		env: 'PROXY_WORKERS',
		placeholder: 'N|auto',
		fallback: 'auto',
		about: `worker threads; auto: one for each core; at most ${WORKERS_PER_CORE} for each core`,
		candidates: ['auto'],
		parse: parseWorkers,
	},
	logFormat: {
		flag: 'log-format',
		env: 'PROXY_LOG_FORMAT',
		placeholder: 'json|pretty',
		fallback: 'json',
		about: 'json: one JSON object per line; pretty: lines for people',
		candidates: LOG_FORMATS,
		parse: parseLogFormat,
	},
	rustLog: {
		env: 'RUST_LOG',
		placeholder: 'FILTER',
		fallback: 'info',
		about: 'log level: error, warn, info, debug, trace or off; also by target, as in warn,proxy::health=debug',
		// Never stops a start: the filter reports what it cannot parse.
		parse: (text: string) => text,
	},
} as const satisfies ValueOptions;

export const RUN_SWITCHES = {
	noStatus: { flag: 'no-status', about: 'no status page on the metrics listener' },
	forceWorkers: { flag: 'force-workers', about: `allow more than ${WORKERS_PER_CORE} worker threads for each core` },
} as const satisfies Switches;

export type RunValues = Values<typeof RUN_OPTIONS, typeof RUN_SWITCHES>;

export function addressConflicts({ bind, metricsBind }: Pick<RunValues, 'bind' | 'metricsBind'>): string[] {
	if (!overlap(bind, metricsBind)) return [];
	return [`--metrics-bind: is the address of --bind (port ${bind.port}); give one of them another port`];
}

/** Whether the second `listen` would fail; names are not resolved. */
function overlap(a: Address, b: Address): boolean {
	if (a.port !== b.port || a.port === 0) return false;
	return a.host === b.host || [a.host, b.host].some((host) => host === '0.0.0.0' || host === '::');
}

export function threads(workers: RunValues['workers'], cores: number): number {
	return workers === 'auto' ? cores : workers;
}

/** No machine has more cores, so more threads are a typo, and each would cost memory. */
const MAX_WORKERS = 1024;

function parseWorkers(text: string): number | 'auto' {
	if (text === 'auto') return text;
	const workers = /^\d{1,5}$/.test(text) ? Number(text) : 0;
	if (workers >= 1 && workers <= MAX_WORKERS) return workers;
	throw new Malformed(
		`must be a whole number from 1 to ${MAX_WORKERS} (got ${quote(text)}); write auto for one thread per core`,
	);
}

function parseLogFormat(text: string): (typeof LOG_FORMATS)[number] {
	const format = LOG_FORMATS.find((candidate) => candidate === text);
	if (format !== undefined) return format;
	throw new Malformed(`must be json or pretty (got ${quote(text)}); write one of the two`);
}
