import { type Rejection, TOKEN_INVALID } from './rejection.ts';

/** Longest tenant in a token, in characters. */
const MAX_TENANT_LENGTH = 256;

const NO_SUB = TOKEN_INVALID.because('no sub');
const BAD_SUB = TOKEN_INVALID.because('bad sub');
const NO_TENANT = TOKEN_INVALID.because('no tenant claim');
const BAD_TENANT = TOKEN_INVALID.because('bad tenant claim');

/** The default path to the tenant. */
export const SUB: readonly string[] = ['sub'];

/** @param path member names, starting at the payload; at least one. */
export function readTenant(payload: Readonly<Record<string, unknown>>, path: readonly string[]): string | Rejection {
	const isSub = path.length === 1 && path[0] === 'sub';
	const tenant = memberAt(payload, path);
	if (tenant === undefined) return isSub ? NO_SUB : NO_TENANT;
	// A tenant that cannot be passed on in a header is not a tenant.
	if (typeof tenant === 'string' && isHeaderValue(tenant)) return tenant;
	return isSub ? BAD_SUB : BAD_TENANT;
}

function isHeaderValue(tenant: string): boolean {
	return tenant.length <= MAX_TENANT_LENGTH && /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(tenant);
}

/** Own members only: inherited members of an object are not claims. */
function memberAt(payload: Readonly<Record<string, unknown>>, path: readonly string[]): unknown {
	let value: unknown = payload;
	for (const name of path) {
		if (typeof value !== 'object' || value === null || Array.isArray(value) || !Object.hasOwn(value, name))
			return undefined;
		value = (value as Record<string, unknown>)[name];
	}
	return value;
}
