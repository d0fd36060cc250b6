import { z } from 'zod';
import { quote, show, showWithType } from '../wording.ts';

/**
 * The kinds of values in the tables of this folder: types, ranges, and messages that say what is wrong with a value and what to
 * write instead.
 *
 * `optional(…)`, `.describe()` or `.meta({ description: … })` documents each key for the JSON Schema and docs/reference/configuration.md. It is
 * the last call of the chain: zod keeps metadata by instance, and each call creates a new one.
 */

declare module 'zod' {
	/** Facts about a key or a table that zod does not know. */
	interface GlobalMeta {
		/** The effect of leaving the key out, if it has no default. In Markdown, as the description is. */
		readonly unset?: string;
		readonly read?: ReadAt;
		/** What a value is, in the documentation. */
		readonly noun?: string | undefined;
		/** The schema of the short form of a value; `one`: a single element of the list. */
		readonly or?: 'one' | object;
	}
}

/** When a key is read; on a table: the default for its keys. Without it, each reload applies the key. */
export type ReadAt = 'at startup' | 'at startup, unless `reload`' | 'by each reload';

/** A key without a default. @param unset the behaviour without the key. @param read see `ReadAt`. */
export function optional<Type extends z.ZodType>(type: Type, description: string, unset: string, read?: ReadAt) {
	return type.optional().meta({ description, unset, ...(read !== undefined && { read }) });
}

/** Node's timers fire at once when asked to wait for more than 2³¹ - 1 ms. */
export const MAX_SECONDS = 2_147_483;
/** Budgets are counted in KiB in 32-bit words; half their range leaves room for all threads to overshoot. */
export const MAX_BYTES = 2 ** 40;

export function table<Shape extends z.ZodRawShape>(header: string, shape: Shape) {
	return z.strictObject(shape, { error: expected('a table', `write ${header} on a line of its own above its keys`) });
}

/** An absent table is read as an empty one, so that each of its required keys is named as missing. */
export function emptyIfAbsent<Table extends z.ZodObject>(table: Table) {
	return table.prefault({} as z.input<Table>);
}

export function tables<Table extends z.ZodObject>(name: string, table: Table) {
	return z.array(table, { error: expected('a list of tables', `write [[${name}]], with two brackets`) }).default([]);
}

/** A type without its optional and default wrappers, and the `read` of its innermost metadata. */
export function withoutWrappers(schema: z.core.$ZodType): { type: z.core.$ZodType; read: ReadAt | undefined } {
	const { read } = z.globalRegistry.get(schema) ?? {};
	const isWrapped =
		schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault;
	if (!isWrapped) return { type: schema, read };
	const inner = withoutWrappers(schema.unwrap());
	return { type: inner.type, read: inner.read ?? read };
}

/** @param pattern without flags, in syntax that other engines share: it goes into the JSON Schema. */
export function text(wanted: string, remedy: string, pattern?: RegExp) {
	const error = expected(wanted, remedy);
	return pattern === undefined ? z.string({ error }) : z.string({ error }).regex(pattern, { error });
}

export function nonEmpty(wanted: string, remedy: string) {
	const error = expected(wanted, remedy);
	return z.string({ error }).min(1, { error });
}

/** A text that `parse` turns into a value. @param parse returns the value, or the fault in words. @param pattern approximates `parse`. */
export function parsed<Value extends object>(
	type: z.ZodString,
	pattern: string,
	parse: (text: string) => Value | string,
) {
	const read = type.transform((text, context): Value => {
		const value = parse(text);
		if (typeof value !== 'string') return value;
		context.addIssue(value);
		return z.NEVER;
	});
	return read.meta({ pattern });
}

/** `http://…` or `https://…`, in its canonical spelling. @param parse returns it, or the fault in words that do not quote the text. */
export function url(wanted: string, remedy: string, parse: (text: string) => URL | string) {
	return parsed(text(wanted, remedy), '^[Hh][Tt][Tt][Pp][Ss]?://[^/]', (written) => {
		const found = parse(written);
		// A password must not end up in a log.
		const shown = quote(written.replace(/\/\/.*@/s, '//***@'));
		return typeof found === 'string' ? `must be ${wanted} (got ${shown}): ${found}` : found;
	}).transform(({ href }) => href);
}

/** A text that `problemOf` finds nothing wrong with. @param pattern approximates `problemOf`. */
export function checked(type: z.ZodString, pattern: string, problemOf: (text: string) => string | undefined) {
	const judged = type.superRefine((written, context) => {
		const problem = problemOf(written);
		if (problem !== undefined) context.addIssue(problem);
	});
	return judged.meta({ pattern });
}

/**
 * How zod reads input. Messages quote the input, which it omits by default. The functions that it would compile for each table cost a start
 * more than they save: a file is read once.
 */
export const READING = { reportInput: true, jitless: true } as const;

/** A list; a single text counts as a list of one. */
export function oneOrSeveral<List extends z.ZodArray>(list: List) {
	return z.preprocess((value) => (typeof value === 'string' ? [value] : value), list).meta({ or: 'one' });
}

/** A value of one of two types. @param json their JSON Schema, which zod cannot derive. */
export function either<Value>(choose: (value: unknown) => z.ZodType<Value>, json: object) {
	const read = z.unknown().transform((value, context): Value => {
		const { data, error } = choose(value).safeParse(value, READING);
		if (error === undefined) return data as Value;
		for (const issue of error.issues) {
			const path = issue.code === 'unrecognized_keys' ? [...issue.path, issue.keys[0]!] : [...issue.path];
			context.issues.push({ code: 'custom', path, message: issue.message, input: value });
		}
		return z.NEVER;
	});
	return read.meta({ ...json });
}

/** @param ofUrl the remedy if the value is a URL. */
export function file(
	content: string,
	ofUrl = `nothing is fetched over the network: save ${content} and name the file`,
) {
	const error = expected('the path of a file', `set it to the file with ${content}`);
	const isUrl = expected('the path of a file, not a URL', ofUrl);
	// The operating system would cut the path at a NUL.
	return z.string({ error }).regex(NO_NUL, { error }).regex(NO_URL, { error: isUrl }).meta({ noun: 'path of a file' });
}

export function folder(content: string) {
	const error = expected('the path of a folder', `set it to a folder for ${content}`);
	return z.string({ error }).regex(NO_NUL, { error }).regex(NO_URL, { error }).meta({ noun: 'path of a folder' });
}

// Without flags and in syntax that other engines share, for the JSON Schema.
const NO_NUL = /^[^\x00]+$/;
const NO_URL = /^(?![A-Za-z][A-Za-z0-9+.-]*:\/\/)/;

/** @param without the tokens that are accepted if the key is left out. */
export function claim(name: string, without: string) {
	return nonEmpty(`the "${name}" that tokens must carry`, `leave it out for ${without}`);
}

/** Seconds, with fractions; rounded to whole milliseconds. */
export function seconds(fallback: number) {
	return secondsOr(String(fallback)).default(fallback);
}

/** @param unset the behaviour without the key. */
export function secondsOr(unset: string, most = MAX_SECONDS) {
	const error = expected('a number of seconds above 0', `leave it out for ${unset}`);
	const tooBig = expected(`a number of seconds, at most ${most}`, `leave it out for ${unset}`);
	return z.number({ error }).positive({ error }).max(most, { error: tooBig }).meta({ noun: 'seconds' });
}

/** Seconds; 0 means none. @param unset the behaviour without the key. */
export function secondsOrZero(unset: string) {
	const error = expected('a number of seconds, 0 or more', `leave it out for ${unset}`);
	const tooBig = expected(`a number of seconds, at most ${MAX_SECONDS}`, `leave it out for ${unset}`);
	return z.number({ error }).nonnegative({ error }).max(MAX_SECONDS, { error: tooBig }).meta({ noun: 'seconds' });
}

/** @param unset the behaviour without the key. */
export function flag(unset: string) {
	return z.boolean({ error: expected('true or false', `leave it out for ${unset}`) });
}

export function flagOr(fallback: boolean) {
	return flag(String(fallback)).default(fallback);
}

/** Seconds; 0, the default, means none. */
export function secondsOrNone() {
	return secondsOrZero('0').default(0);
}

/** @param noun `seconds`; `number` for a part of a whole. */
export function fromZeroTo(most: number, fallback: number, noun = 'number') {
	const wanted = noun === 'number' ? 'a number' : `a number of ${noun}`;
	const error = expected(`${wanted} from 0 to ${most}`, `leave it out for ${fallback}`);
	return z.number({ error }).min(0, { error }).max(most, { error }).meta({ noun }).default(fallback);
}

export function wholeNumberOr(fallback: number, least: number, most: number, of?: string) {
	return wholeNumber(least, most, String(fallback), of).default(fallback);
}

/** @param unset the behaviour without the key. */
export function wholeNumber(least: number, most: number, unset: string, of?: string) {
	const wanted = of === undefined ? 'a whole number' : `a whole number ${of}`;
	const tooSmall = expected(`${wanted}, at least ${least}`, `set it to ${least} or more, or leave it out for ${unset}`);
	const tooBig = expected(`${wanted}, at most ${most}`, `set it to ${most} or less, or leave it out for ${unset}`);
	const isTooBig = ({ input }: RawIssue) => typeof input === 'number' && input > most;
	const error = (issue: RawIssue) => (isTooBig(issue) ? tooBig(issue) : tooSmall(issue));
	const inRange = (n: number) => Number.isInteger(n) && n >= least && n <= most;
	const noun = of?.replace(/^of /, '');
	// One check and one message for three mistakes. zod cannot derive a JSON Schema from it.
	return z.number({ error }).refine(inRange, { error }).meta({ type: 'integer', minimum: least, maximum: most, noun });
}

/** @param unset the behaviour without the key. */
export function oneOf<const Values extends readonly [string, ...string[]]>(values: Values, unset: string) {
	return z.enum(values, { error: expected(alternatives(values), `leave it out for ${unset}`) });
}

export function oneOfOr<const Values extends readonly [string, ...string[]]>(values: Values, fallback: Values[number]) {
	return oneOf(values, `"${fallback}"`).default(fallback as z.core.util.NoUndefined<Values[number]>);
}

export function alternatives(values: readonly string[]): string {
	const quoted = values.map((value) => `"${value}"`);
	return `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`;
}

interface RawIssue {
	readonly code?: string | undefined;
	readonly input?: unknown;
}

/** Words a zod issue: what the value must be, what it is, and what to do about it. */
export function expected(wanted: string, remedy: string): (issue: RawIssue) => string {
	return ({ code, input }) => {
		if (input === undefined) return `is missing; ${remedy}`;
		return `must be ${wanted} (got ${code === 'invalid_type' ? showWithType(input) : show(input)}); ${remedy}`;
	};
}
