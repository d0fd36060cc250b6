import { type Rejection, TOKEN_INVALID, TOKEN_MISSING } from './rejection.ts';

/** Length of the longest token that is read, in characters. */
export const MAX_TOKEN_LENGTH = 8192;

/**
 * The token of an `Authorization: Bearer <token>` header (RFC 6750 section 2.1): split at the first space, scheme in
 * any case, token not empty.
 *
 * @param authorization the header's value; `undefined` if there is none; `null` if there are several, because a later reader
 *   might believe another one.
 */
export function bearerToken(authorization: string | null | undefined): string | Rejection {
	if (authorization === undefined) return TOKEN_MISSING;
	if (authorization === null) return TWO_HEADERS;
	const space = authorization.indexOf(' ');
	if (space !== 6 || authorization.slice(0, 6).toLowerCase() !== 'bearer') return NO_BEARER_SCHEME;
	const length = authorization.length - 7;
	if (length === 0) return EMPTY_TOKEN;
	if (length > MAX_TOKEN_LENGTH) return TOKEN_TOO_LONG;
	return authorization.slice(7);
}

const TWO_HEADERS = TOKEN_INVALID.because('two authorization headers');
const NO_BEARER_SCHEME = TOKEN_INVALID.because('no bearer scheme');
const EMPTY_TOKEN = TOKEN_INVALID.because('empty token');
const TOKEN_TOO_LONG = TOKEN_INVALID.because('token too long');
