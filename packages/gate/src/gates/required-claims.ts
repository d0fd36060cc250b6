import { type Rejection, TOKEN_INVALID } from './rejection.ts';

export type ClaimValue = string | number | boolean;

/** A claim that the tokens of an issuer must have. */
export interface RequiredClaim {
	readonly name: string;
	/** The claim, or an element of it if it is a list, must equal one of these; `undefined`: any value except `null` passes. */
	readonly values: readonly ClaimValue[] | undefined;
}

/** @returns why the token is refused. The reason has the name of the claim as configured, never its value. */
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
