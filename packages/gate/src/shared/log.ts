import { suggest } from '../words/suggest.ts';
import { LOG_TARGETS } from './log-targets.ts';

/**
 * Logging without I/O: records, the filter (`RUST_LOG`) and the format of a line. Callers never pass a token, a key or a raw
 * header.
 */

/** From the most severe to the most verbose. */
const LEVELS = ['error', 'warn', 'info', 'debug', 'trace'] as const;
export type Level = (typeof LEVELS)[number];

export type LogFields = Readonly<Record<string, unknown>>;

export interface LogRecord {
	readonly time: Date;
	readonly level: Level;
	/** Where it comes from, for filters: `proxy::reload`. */
	readonly target: string;
	readonly message: string;
	/** Data that can be posted to another thread. Fields that are `undefined` are left out. */
	readonly fields?: LogFields | undefined;
}

export interface Logger {
	error(target: string, message: string, fields?: LogFields): void;
	warn(target: string, message: string, fields?: LogFields): void;
	info(target: string, message: string, fields?: LogFields): void;
	debug(target: string, message: string, fields?: LogFields): void;
}

/**
 * @param write gets the records that the filter lets through, in order; it must not throw.
 * @param now wall-clock time for the records.
 */
export function createLogger(filter: LogFilter, write: (record: LogRecord) => void, now: () => Date): Logger {
	const log = (level: Level, target: string, message: string, fields: LogFields | undefined) => {
		if (filter.enabled(level, target)) write({ time: now(), level, target, message, fields });
	};
	return {
		error: (target, message, fields) => log('error', target, message, fields),
		warn: (target, message, fields) => log('warn', target, message, fields),
		info: (target, message, fields) => log('info', target, message, fields),
		debug: (target, message, fields) => log('debug', target, message, fields),
	};
}

interface LogFilter {
	/** Cheap enough to ask for every record: a few string comparisons, mostly none. */
	enabled(level: Level, target: string): boolean;
	/** Messages about unreadable directives and unknown targets; such directives have no effect. */
	readonly problems: readonly string[];
}

/**
 * Reads a filter as `RUST_LOG` has it: directives separated by commas, each a level for everything (`info`), a level
 * for a target and its children (`proxy::health=debug`), or a target without a level for all of its levels. The longest
 * target that fits decides, the last one among equals. Levels are in either case; `off` silences.
 *
 * Targets that no directive fits are silent, as usual, unless the text is empty or has a mistake in it: then they log
 * `info`, because a slip in a variable must not cost anybody their logs.
 */
export function parseLogFilter(rustLog: string): LogFilter {
	const problems: string[] = [];
	const ranks = new Map<string, number>();
	for (const directive of rustLog.split(',').map((part) => part.trim())) {
		if (directive === '') continue;
		const parsed = parseDirective(directive);
		const problem = typeof parsed === 'string' ? parsed : targetProblem(parsed.target);
		if (problem !== undefined) problems.push(problem);
		if (typeof parsed !== 'string') ranks.set(parsed.target, parsed.rank);
	}
	const fallback = ranks.get('') ?? (ranks.size === 0 || problems.length > 0 ? rankOf('info') : OFF);
	ranks.delete('');
	const byLength = [...ranks].sort(([a], [b]) => b.length - a.length);
	const highest = Math.max(fallback, ...ranks.values());
	return {
		problems,
		enabled(level, target) {
			const rank = rankOf(level);
			if (rank > highest) return false;
			for (const [prefix, limit] of byLength) if (isWithin(target, prefix)) return rank <= limit;
			return rank <= fallback;
		},
	};
}

const OFF = -1;

function rankOf(level: Level): number {
	return LEVELS.indexOf(level);
}

/** @returns the target, `''` for all of them, and the last rank that is logged; or in words the fault. */
function parseDirective(directive: string): { target: string; rank: number } | string {
	const equals = directive.indexOf('=');
	const wanted = parseLevel(directive.slice(equals + 1));
	if (equals === -1) {
		if (wanted !== undefined) return { target: '', rank: wanted };
		// A lone word is far more often a mistyped level than the name of a library that this program does not have.
		if (/^proxy(?:::\w+)*$/.test(directive)) return { target: directive, rank: LEVELS.length };
		return `${JSON.stringify(directive)} is neither a level (off, ${LEVELS.join(', ')}) nor a target of the proxy`;
	}
	const target = directive.slice(0, equals).trim();
	if (!/^\w[\w-]*(?:::[\w-]+)*$/.test(target)) return `${JSON.stringify(target)} is not a target such as proxy::health`;
	if (wanted !== undefined) return { target, rank: wanted };
	return `${JSON.stringify(directive)} does not end in a level (off, ${LEVELS.join(', ')})`;
}

/** Other programs' targets, which a shared setting may name, are no mistakes; those that resemble ours are. */
function targetProblem(target: string): string | undefined {
	if (target === '' || LOG_TARGETS.some((known) => isWithin(known, target))) return undefined;
	const meant = suggest(target, LOG_TARGETS);
	if (meant !== undefined) return `nothing logs to ${JSON.stringify(target)}; did you mean ${meant}?`;
	if (!isWithin(target, 'proxy')) return undefined;
	return `nothing logs to ${JSON.stringify(target)}; the targets are ${LOG_TARGETS.join(', ')}`;
}

function parseLevel(text: string): number | undefined {
	const name = text.trim().toLowerCase();
	if (name === 'off') return OFF;
	const rank = (LEVELS as readonly string[]).indexOf(name);
	return rank === -1 ? undefined : rank;
}

function isWithin(target: string, prefix: string): boolean {
	return target.startsWith(prefix) && (target.length === prefix.length || target.startsWith('::', prefix.length));
}

/**
 * One line of JSON, without the line break: `timestamp`, `level`, `target`, `message`, then the fields. Whatever the
 * fields contain, this does not throw and its result is valid: errors become their message; big integers, and values that
 * JSON cannot express, become strings.
 */
export function formatJson(record: LogRecord): string {
	const { level, target, message } = record;
	const line = { timestamp: timestampOf(record), level, target: plain(target), message: plain(message) };
	// A field cannot pass itself off as the message.
	const fields = plainFields(record).map(([name, value]) => [
		Object.hasOwn(line, name) ? `field.${name}` : name,
		value,
	]);
	return escapeSpecial(JSON.stringify({ ...line, ...Object.fromEntries(fields) }));
}

/**
 * One line for people, without the line break. Control characters, and characters that reverse or break lines, appear as
 * escapes: a client's text can neither forge a line nor steer the terminal.
 *
 * @param colour whether to mark the level with ANSI sequences.
 */
export function formatPretty(record: LogRecord, colour: boolean): string {
	const label = record.level.toUpperCase().padEnd(5);
	const level = colour ? `\x1b[${COLOURS[record.level]}m${label}\x1b[0m` : label;
	const fields = plainFields(record).map(([name, value]) => ` ${visible(name)}=${prettyValue(value)}`);
	const text = `${visible(record.target)}: ${visible(record.message)}${fields.join('')}`;
	return `${timestampOf(record)} ${level} ${text}`;
}

const COLOURS: Readonly<Record<Level, number>> = { error: 31, warn: 33, info: 32, debug: 34, trace: 35 };

/** RFC 3339, UTC, milliseconds. An invalid time must not lose the record. */
function timestampOf({ time }: LogRecord): string | null {
	return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

type Plain = string | number | boolean | null | Plain[] | { [key: string]: Plain };

function plainFields({ fields = {} }: LogRecord): [name: string, value: Plain][] {
	return Object.keys(fields).flatMap((name) => {
		const value = readPlain(fields, name);
		return value === undefined ? [] : [[name.toWellFormed(), value]];
	});
}

function readPlain(fields: LogFields, name: string): Plain | undefined {
	try {
		const value = fields[name];
		return value === undefined ? undefined : plain(value);
	} catch {
		// A getter or a `toJSON` that throws.
		return '[unreadable]';
	}
}

/** Deeper values are not useful in a log line. The limit also ends cycles. */
const MAX_DEPTH = 4;

function plain(value: unknown, depth = 0): Plain {
	switch (typeof value) {
		case 'string':
			// A lone surrogate is valid JSON when escaped, but many readers refuse it.
			return value.toWellFormed();
		case 'number':
			return Number.isFinite(value) ? value : String(value);
		case 'boolean':
			return value;
		case 'object':
			return value === null ? null : plainObject(value, depth);
		case 'function':
			return '[function]';
		default:
			return String(value);
	}
}

function plainObject(value: object, depth: number): Plain {
	if (value instanceof Error) return (value.message || value.name).toWellFormed();
	if (depth === MAX_DEPTH) return '[…]';
	// Bytes may be anything, even a key.
	if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
	if ('toJSON' in value && typeof value.toJSON === 'function') return plain(value.toJSON(), depth + 1);
	if (Array.isArray(value)) return value.map((element) => plain(element, depth + 1));
	const entries = Object.entries(value).filter(([, part]) => part !== undefined);
	return Object.fromEntries(entries.map(([name, part]) => [name.toWellFormed(), plain(part, depth + 1)]));
}

function prettyValue(value: Plain): string {
	return typeof value === 'string' && /^[\w./:@+-]+$/.test(value) ? value : escapeSpecial(JSON.stringify(value));
}

function visible(text: string): string {
	return escapeSpecial(
		text.replace(/[\0-\x1f]/g, (character) => JSON.stringify(character).slice(1, -1)).toWellFormed(),
	);
}

/**
 * Escapes characters that JSON does not escape, and that occur only inside strings: DEL and the C1 controls (terminals
 * act on them), the line separators of Unicode, and the marks that reverse the direction of text.
 */
function escapeSpecial(text: string): string {
	return text.replace(
		/[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
		(character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
	);
}
