import { SCOPE_TOKEN } from '../gates/scopes.ts';
import { suggest } from '../shared/suggest.ts';
import { GateError, type GateErrorCode } from './error.ts';

/** What an option may be. `undefined` stands for an option that is left out. */
export interface Kind {
	/** Behind the option's name: `must be a function`. */
	readonly wanted: string;
	/** Asked of a value that is not `undefined`. */
	readonly holds: (value: unknown) => boolean;
	/** Whether the option may not be left out. */
	readonly isRequired?: boolean;
}

/** A kind for each option, so that one which is added without its kind does not compile. */
export type Kinds<Options> = Readonly<Record<keyof Options, Kind>>;

/** @internal */
export const BOOLEAN = kind('must be true or false', (value) => typeof value === 'boolean');
/** @internal */
export const FUNCTION = kind('must be a function', (value) => typeof value === 'function');
/** Empty: nothing is needed. @internal */
export const SCOPES = kind(
	'must be a list of scopes (RFC 6749 section 3.3), such as ["orders:read"]',
	// `every` passes over holes, and `new Array(1)` would ask for nothing.
	(value) => Array.isArray(value) && [...value].every((one) => typeof one === 'string' && SCOPE_TOKEN.test(one)),
);
/** Read by its owner, in words of its own. @internal */
export const ANY = kind('', () => true);

/** @internal */
export function kind(wanted: string, holds: (value: unknown) => boolean): Kind {
	return { wanted, holds };
}

/** @internal */
export function required(one: Kind): Kind {
	return { ...one, isRequired: true };
}

/**
 * Judges options at construction. An option that is misspelt or of another type would be left out without a word: a route without its
 * scopes, a drain without its end.
 *
 * @param place of the options, for the message; empty for those of the function itself.
 * @throws {GateError} with `code`, naming the option, what it must be, and which one may be meant.
 *
 * @internal
 */
export function checkOptions<Options>(
	code: GateErrorCode,
	place: string,
	options: unknown,
	kinds: Kinds<Options>,
): void {
	refuseUnknownKeys(code, place, options, Object.keys(kinds));
	for (const [key, { wanted, holds, isRequired = false }] of Object.entries<Kind>(kinds)) {
		const value = (options as Record<string, unknown>)[key];
		if (value === undefined ? !isRequired : holds(value)) continue;
		throw new GateError(code, `${place === '' ? key : `${place}.${key}`} ${wanted}`);
	}
}

/** @internal */
export function checkHandler(code: GateErrorCode, handler: unknown): void {
	if (typeof handler !== 'function') throw new GateError(code, 'handler must be a function');
}

/**
 * @param known the options that there are.
 * @throws {GateError} with `code` for a key that there is not, and for what is no plain object.
 *
 * @internal
 */
export function refuseUnknownKeys(
	code: GateErrorCode,
	place: string,
	options: unknown,
	known: readonly string[],
): void {
	if (!isPlainObject(options)) {
		throw new GateError(code, `${place || 'the options'} must be an object with ${known.join(', ')}`);
	}
	// Also symbols, and what a loop over the object would not see.
	for (const key of Reflect.ownKeys(options).map(String)) {
		if (known.includes(key)) continue;
		throw new GateError(code, `${place === '' ? key : `${place}.${key}`} is unknown; ${remedyFor(key, known)}`);
	}
}

function remedyFor(key: string, known: readonly string[]): string {
	// As the proxy's configuration and earlier versions have it: all options are in milliseconds.
	const inMs = key.replace(/_(.)/g, (_, first: string) => first.toUpperCase()).replace(/Secs$/, 'Ms');
	if (/secs$/i.test(key) && known.includes(inMs)) return `write ${inMs}, in milliseconds`;
	const meant = suggest(key, known);
	return meant === undefined ? `there are ${known.join(', ')}` : `did you mean ${meant}?`;
}

/** Node's timers take no more. */
const LONGEST_MS = 2_147_483_647;

/** @internal */
export function milliseconds(least: number): Kind {
	return kind(
		`must be a number of ms from ${least} to ${LONGEST_MS}`,
		(value) => typeof value === 'number' && value >= least && value <= LONGEST_MS,
	);
}

/**
 * Whether all that a value says is in its own keys. A promise that nobody has awaited, a map, and an object that inherits from another one
 * have no keys of their own: read as options they would ask for nothing.
 *
 * @internal
 */
export function isPlainObject(value: unknown): value is object {
	if (typeof value !== 'object' || value === null) return false;
	const prototype = Object.getPrototypeOf(value);
	// `Object.prototype` of any realm: the one that has none above it.
	return prototype === null || Object.getPrototypeOf(prototype) === null;
}
