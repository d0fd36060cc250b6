import { type Rejection, TOKEN_INVALID } from './rejection.ts';

export type ClaimValue = string | number | boolean;

/** A claim that the tokens of an issuer must have. */
export interface RequiredClaim {
	readonly name: string;
	/** One of these must be the claim's value, or one of its values where it is a list; `undefined`: any but `null` will do. */
	readonly values: readonly ClaimValue[] | undefined;
}

/** @returns why the token will not do. The reason names the claim as the configuration does, never its value. */
export function refuseClaims(
	payload: Readonly<Record<string, unknown>>,
	required: readonly RequiredClaim[],
): Rejection | undefined {
	for (const { name, values } of required) {
		const claim = Object.hasOwn(payload, name) ? payload[name] : undefined;
		if (claim === undefined || claim === null) return TOKEN_INVALID.because(`no required claim "${name}"`);
		if (values === undefined) continue;
		const said: readonly unknown[] = Array.isArray(claim) ? claim : [claim];
		if (!said.some((value) => values.includes(value as ClaimValue))) {
			return TOKEN_INVALID.because(`required claim "${name}" has another value`);
		}
	}
	return undefined;
}
