import { SCOPE_TOKEN } from '../gates/scopes.ts';
import { suggest } from '../words/suggest.ts';
import { GateError, type GateErrorCode } from './error.ts';

/** The kind of value that an option takes. By default `undefined` means that the option is left out. */
export interface Kind {
	/** The rest of the message after the option's name, such as `must be a function`. */
	readonly wanted: string;
	/** Called for values other than `undefined`. */
	readonly holds: (value: unknown) => boolean;
	/** Whether the option may not be left out. */
	readonly isRequired?: boolean;
	/** Whether an explicit `undefined` is refused; see `narrowing`. */
	readonly refusesUndefined?: boolean;
}

/** One kind for each option: an option that is added without a kind does not compile. */
export type Kinds<Options> = Readonly<Record<keyof Options, Kind>>;

/** @internal */
export const BOOLEAN = kind('must be true or false', (value) => typeof value === 'boolean');
/** @internal */
export const FUNCTION = kind('must be a function', (value) => typeof value === 'function');
/** @internal */
export const NAME = kind('must be a non-empty string', isName);
/** An empty list requires no scope. @internal */
export const SCOPES = narrowing(
	'must be a list of scopes (RFC 6749 section 3.3), such as ["orders:read"]',
	(value) => Array.isArray(value) && value.every((one) => typeof one === 'string' && SCOPE_TOKEN.test(one)),
);
/** Checked by the code that reads the option, which has its own message. @internal */
export const ANY = kind('', () => true);
/** As `ANY`, for an option whose default admits more than a value may. @internal */
export const NARROWING = narrowing('', () => true);

/** @internal */
export function kind(wanted: string, holds: Kind['holds']): Kind {
	return { wanted, holds };
}

/** @internal */
export function required(one: Kind): Kind {
	return { ...one, isRequired: true };
}

/**
 * An option whose default admits more than a value may. It may be left out, but its value may not be `undefined`: with
 * `tenants: settings.tennants` a misspelt setting would switch a check off.
 *
 * @internal
 */
export function narrowing(wanted: string, holds: Kind['holds']): Kind {
	return { wanted, holds, refusesUndefined: true };
}

/**
 * Checks options at construction. A misspelt option would otherwise be ignored in silence, and a route would lack its scopes, or a
 * drain its limit.
 *
 * @param place where the options stand, for the message; empty for the options of the function itself.
 * @returns a copy of the options and their lists, which later changes do not reach. Each option was read once; inherited ones are left out.
 * @throws {GateError} with `code`. The message names the option, the value that it takes, and the option that may be meant.
 *
 * @internal
 */
export function checkOptions<Options>(
	code: GateErrorCode,
	place: string,
	options: unknown,
	kinds: Kinds<Options>,
): Options {
	refuseUnknownKeys(code, place, options, Object.keys(kinds));
	const copy: Record<string, unknown> = Object.create(null);
	for (const [key, { wanted, holds, isRequired, refusesUndefined }] of Object.entries<Kind>(kinds)) {
		const isGiven = Object.hasOwn(options as object, key);
		const given = isGiven ? (options as Record<string, unknown>)[key] : undefined;
		const value = Array.isArray(given) ? [...given] : given;
		const isUndefined = value === undefined && refusesUndefined && isGiven;
		if (isUndefined || (value === undefined ? isRequired : !holds(value))) {
			throw new GateError(code, `${nameOf(place, key)} ${isUndefined ? UNDEFINED : wanted}`);
		}
		if (isGiven) copy[key] = value;
	}
	return copy as Options;
}

/** @internal */
export const UNDEFINED = 'is undefined, as the value of a misspelt setting is; give it a value, or leave it out';

/** The name of an option, for messages. */
function nameOf(place: string, key: string): string {
	return place === '' ? key : `${place}.${key}`;
}

/** @internal */
export function checkHandler(code: GateErrorCode, handler: unknown): void {
	if (typeof handler !== 'function') throw new GateError(code, 'handler must be a function');
}

/** Refuses an unknown key, and a value that is not a plain object. */
function refuseUnknownKeys(code: GateErrorCode, place: string, options: unknown, known: readonly string[]): void {
	if (!isPlainObject(options)) {
		throw new GateError(code, `${place || 'the options'} must be an object with ${known.join(', ')}`);
	}
	// Includes symbols and properties that are not enumerable.
	for (const key of Reflect.ownKeys(options).map(String)) {
		if (known.includes(key)) continue;
		throw new GateError(code, `${nameOf(place, key)} is unknown; ${remedyFor(key, known)}`);
	}
}

function remedyFor(key: string, known: readonly string[]): string {
	// The proxy's configuration and earlier versions have seconds; all options here are in milliseconds.
	const inMs = key.replace(/_(.)/g, (_, first: string) => first.toUpperCase()).replace(/Secs$/, 'Ms');
	if (/secs$/i.test(key) && known.includes(inMs)) return `write ${inMs}, in milliseconds`;
	const meant = suggest(key, known);
	return meant === undefined ? `there are ${known.join(', ')}` : `did you mean ${meant}?`;
}

/** The longest delay that Node's timers take. */
const LONGEST_MS = 2_147_483_647;

/** @internal */
export function milliseconds(least: number): Kind {
	return kind(
		`must be a number of ms from ${least} to ${LONGEST_MS}`,
		(value) => typeof value === 'number' && value >= least && value <= LONGEST_MS,
	);
}

/** @internal */
export function isName(value: unknown): value is string {
	return typeof value === 'string' && value !== '';
}

/**
 * Whether the value is a plain object, with all its members as own keys. A promise, a `Map` or an object with a prototype of its own has
 * no own keys for them; read as options, it would require nothing.
 *
 * @internal
 */
export function isPlainObject(value: unknown): value is object {
	if (typeof value !== 'object' || value === null) return false;
	const prototype = Object.getPrototypeOf(value);
	// `Object.prototype` of any realm has no prototype itself.
	return prototype === null || Object.getPrototypeOf(prototype) === null;
}
