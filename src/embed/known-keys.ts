import { suggest } from '../shared/suggest.ts';
import { GateError, type GateErrorCode } from './error.ts';

/**
 * What is spelled wrong would be left out without a word: a limit that does not hold, a list that revokes nobody.
 *
 * @param place of the options, for the message; empty for those of the gate itself.
 * @throws {GateError} with `code` for a key that there is not, and for what has no keys at all.
 *
 * @internal
 */
export function refuseUnknownKeys(
	code: GateErrorCode,
	place: string,
	options: unknown,
	known: readonly string[],
): void {
	if (typeof options !== 'object' || options === null || Array.isArray(options)) {
		throw new GateError(code, `${place || 'the options'} must be an object with ${known.join(', ')}`);
	}
	for (const key of Object.keys(options)) {
		if (known.includes(key)) continue;
		const meant = suggest(key, known);
		const remedy = meant === undefined ? `there are ${known.join(', ')}` : `did you mean ${meant}?`;
		throw new GateError(code, `${place === '' ? key : `${place}.${key}`} is unknown; ${remedy}`);
	}
}
