import { type KeyObject, verify } from 'node:crypto';
import { parseUniqueObject } from './json-members.ts';
import { type Rejection, TOKEN_INVALID } from './rejection.ts';

/** Seconds by which `exp` and `nbf` may be missed (specification 2.3). */
export const LEEWAY_SECONDS = 60;
/** Longest `sub`, in characters (decisions "JWT"). */
export const MAX_SUB_LENGTH = 256;

/** What a verified token says. */
export interface Claims {
	/** The tenant: 1 to 256 visible ASCII characters, safe in a header line. */
	readonly sub: string;
	/** `scope`, or the empty string where the token has none. */
	readonly scope: string;
	/** Expiry, seconds since the epoch. */
	readonly exp: number;
	/** The whole payload, as signed. */
	readonly payload: Readonly<Record<string, unknown>>;
}

/** What the operator demands of a token (specification 5). */
export interface TokenPolicy {
	readonly publicKey: KeyObject;
	/** Required `iss`; `undefined`: not checked. */
	readonly issuer: string | undefined;
	/** Required `aud`; `undefined`: tokens that carry any `aud` are refused. */
	readonly audience: string | undefined;
}

/**
 * Verifies an RS256 JSON Web Token (RFC 7519, RFC 7515 compact form).
 *
 * @param nowSeconds wall-clock time, seconds since the epoch.
 */
export function verifyToken(token: string, policy: TokenPolicy, nowSeconds: number): Claims | Rejection {
	const parts = token.split('.', 4);
	if (parts.length !== 3) return TOKEN_INVALID;
	const [encodedHeader, encodedPayload, encodedSignature] = parts as [string, string, string];
	const header = decodeObject(encodedHeader);
	const signature = decodeBase64url(encodedSignature);
	// The key decides the algorithm, never the token: RFC 8725 section 3.1. `crit` names extensions that must be
	// understood, and we understand none: RFC 7515 section 4.1.11. `b64: false` is forbidden in JWTs: RFC 7797 section 7.
	if (!header || !signature || header.alg !== 'RS256') return TOKEN_INVALID;
	if (Object.hasOwn(header, 'crit') || header.b64 === false) return TOKEN_INVALID;
	const signed = Buffer.from(`${encodedHeader}.${encodedPayload}`, 'latin1');
	if (!verify('RSA-SHA256', signed, policy.publicKey, signature)) return TOKEN_INVALID;
	const payload = decodeObject(encodedPayload);
	if (!payload) return TOKEN_INVALID;
	return checkClaims(payload, policy, nowSeconds);
}

/** The 60 s leeway holds on the first use and on every use of a cached verdict. */
export function isExpired(exp: number, nowSeconds: number): boolean {
	return nowSeconds >= exp + LEEWAY_SECONDS;
}

function checkClaims(payload: Record<string, unknown>, policy: TokenPolicy, nowSeconds: number): Claims | Rejection {
	const { exp, nbf, sub, scope } = payload;
	if (!isFiniteNumber(exp) || isExpired(exp, nowSeconds)) return TOKEN_INVALID;
	if (nbf !== undefined && !(isFiniteNumber(nbf) && nbf >= 0 && nowSeconds >= nbf - LEEWAY_SECONDS))
		return TOKEN_INVALID;
	if (policy.issuer !== undefined && payload.iss !== policy.issuer) return TOKEN_INVALID;
	if (!isForAudience(payload.aud, policy.audience)) return TOKEN_INVALID;
	// An identity that cannot be passed on in a header is not an identity.
	if (
		typeof sub !== 'string' ||
		sub.length > MAX_SUB_LENGTH ||
		!/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(sub)
	) {
		return TOKEN_INVALID;
	}
	return { sub, scope: typeof scope === 'string' ? scope : '', exp, payload };
}

/** RFC 7519 section 4.1.3: `aud` is one string or an array of strings; any other shape is no audience of ours. */
function isForAudience(aud: unknown, wanted: string | undefined): boolean {
	if (wanted === undefined) return aud === undefined;
	if (Array.isArray(aud)) return aud.every((one) => typeof one === 'string') && aud.includes(wanted);
	return aud === wanted;
}

// JSON has no NaN or Infinity, but 1e400 parses to Infinity.
function isFiniteNumber(value: unknown): value is number {
	return typeof value === 'number' && Number.isFinite(value);
}

function decodeObject(encoded: string): Record<string, unknown> | undefined {
	const bytes = decodeBase64url(encoded);
	if (!bytes) return undefined;
	let text: string;
	try {
		text = UTF8.decode(bytes);
	} catch {
		return undefined;
	}
	return parseUniqueObject(text);
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Strict base64url (RFC 7515 section 2): alphabet only, no padding, and the unused bits of the last character zero, so
 * that each value has one spelling. Node's decoder skips what it does not know; encoding back shows whether it did.
 */
function decodeBase64url(encoded: string): Buffer | undefined {
	if (encoded === '') return undefined;
	const bytes = Buffer.from(encoded, 'base64url');
	return bytes.toString('base64url') === encoded ? bytes : undefined;
}
