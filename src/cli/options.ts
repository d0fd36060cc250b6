import { parseHostPort } from '../config/authority.ts';
import { quote } from '../config/wording.ts';

/**
 * Every option of the command (specification 2.2, decisions "Threads"): parsing, the environment and the help text all
 * come from these tables.
 */

export interface Address {
	/** Host name or IP literal as `listen` takes it (IPv6 without brackets). */
	readonly host: string;
	/** 0 to 65535; 0 lets the system choose. */
	readonly port: number;
}

export type LogFormat = 'json' | 'pretty';

/** An option that takes a value, from its flag or from its environment variable. */
export interface ValueOption<T> {
	/** Without the dashes; absent for what only the environment can set. */
	readonly flag?: string;
	readonly env?: string;
	/** Stands for the value in the help text. */
	readonly placeholder: string;
	/** Read by `parse` when nothing else is given. */
	readonly fallback: string;
	readonly about: string;
	/** @throws Malformed */
	readonly parse: (text: string) => T;
}

/** An option that is there or not. */
export interface Switch {
	readonly flag: string;
	readonly short?: string;
	readonly about: string;
}

/** A value that its option cannot take: what it must be, and what to write. */
export class Malformed extends Error {}

export const RUN_OPTIONS = {
	config: {
		flag: 'config',
		env: 'PROXY_CONFIG',
		placeholder: 'FILE',
		fallback: 'config.toml',
		about: 'configuration file, TOML',
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
	workers: {
		flag: 'workers',
		env: 'PROXY_WORKERS',
		placeholder: 'N|auto',
		fallback: 'auto',
		about: 'worker threads, auto for one a core',
		parse: parseWorkers,
	},
	logFormat: {
		flag: 'log-format',
		env: 'PROXY_LOG_FORMAT',
		placeholder: 'json|pretty',
		fallback: 'json',
		about: 'json for machines, one object a line; pretty for people',
		parse: parseLogFormat,
	},
	rustLog: {
		env: 'RUST_LOG',
		placeholder: 'FILTER',
		fallback: 'info',
		about: 'what is logged: error, warn, info, debug, trace or off, also by target, as in warn,proxy::health=debug',
		// Never wrong enough to stop a start: the filter reports what it cannot read.
		parse: (text: string) => text,
	},
} satisfies Record<string, ValueOption<unknown>>;

export const CHECK_SWITCHES = {
	json: { flag: 'json', about: 'print one JSON object: ok, errors, warnings' },
} satisfies Record<string, Switch>;

export const DEMO_OPTIONS = {
	dir: {
		flag: 'dir',
		placeholder: 'DIR',
		fallback: '.demo',
		about: 'where certificates, keys and the configuration are written',
		parse: parseFileName,
	},
} satisfies Record<string, ValueOption<unknown>>;

export const DEMO_SWITCHES = {
	once: { flag: 'once', about: 'send the example requests, print the answers and exit' },
} satisfies Record<string, Switch>;

export const COMMON_SWITCHES = {
	help: { flag: 'help', short: 'h', about: 'print this text' },
	version: { flag: 'version', short: 'V', about: 'print the version and the body mode' },
} satisfies Record<string, Switch>;

function parseFileName(text: string): string {
	if (text === '' || text.includes('\0')) throw new Malformed(`must be a path (got ${quote(text)}); name one`);
	return text;
}

function parseAddress(text: string): Address {
	if (/^unix:|^[./]/.test(text)) {
		throw malformedAddress(text, 'the listener is TCP, Unix sockets are not supported', 'for example 127.0.0.1:8443');
	}
	const [, inUrl] = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(text) ?? [];
	if (inUrl !== undefined) {
		const isAddress = typeof parseHostPort(inUrl) !== 'string' && /:\d+$/.test(inUrl);
		throw malformedAddress(text, 'it is a URL, not an address', isAddress ? inUrl : 'for example 0.0.0.0:8443');
	}
	const parsed = parseHostPort(text);
	if (typeof parsed === 'string') throw malformedAddress(text, parsed, 'for example 0.0.0.0:8443');
	if (parsed.port === undefined) throw malformedAddress(text, 'it has no port', `${text}:PORT`);
	return { host: parsed.host, port: parsed.port };
}

function malformedAddress(text: string, reason: string, suggestion: string): Malformed {
	// `8443` and `:8443` are the usual short cuts for "on all interfaces"; that is better said aloud.
	const port = /^:?(\d{1,5})$/.exec(text)?.[1];
	const remedy = port === undefined ? suggestion : `0.0.0.0:${port}`;
	return new Malformed(`must be HOST:PORT (got ${quote(text)}): ${reason}; write ${remedy}`);
}

/** More threads than any machine has cores are a slip of the keyboard, and each would cost memory. */
const MAX_WORKERS = 1024;

function parseWorkers(text: string): number | 'auto' {
	if (text === 'auto') return text;
	const workers = /^\d{1,5}$/.test(text) ? Number(text) : 0;
	if (workers >= 1 && workers <= MAX_WORKERS) return workers;
	throw new Malformed(
		`must be a whole number from 1 to ${MAX_WORKERS} (got ${quote(text)}); write auto for one thread a core`,
	);
}

function parseLogFormat(text: string): LogFormat {
	if (text === 'json' || text === 'pretty') return text;
	throw new Malformed(`must be json or pretty (got ${quote(text)}); write one of the two`);
}
