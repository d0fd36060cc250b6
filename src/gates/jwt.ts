import { type KeyObject, verify } from 'node:crypto';
import { parseUniqueObject } from './json-members.ts';
import { Rejection, TOKEN_INVALID } from './rejection.ts';

/** Seconds by which `exp` and `nbf` may be missed (specification 2.3). */
export const LEEWAY_SECONDS = 60;
/** Longest `sub`, in characters (decisions "JWT"). */
export const MAX_SUB_LENGTH = 256;
/**
 * Longest header, in characters of base64url. It is parsed before anything is verified: what a stranger can have parsed for
 * nothing is to cost less than the verification. An algorithm, a type and a key's name need a hundred characters.
 */
export const MAX_HEADER_LENGTH = 1024;

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
	if (parts.length !== 3) return MALFORMED;
	const [encodedHeader, encodedPayload, encodedSignature] = parts as [string, string, string];
	if (encodedHeader.length > MAX_HEADER_LENGTH) return HEADER_TOO_LONG;
	const header = decodeObject(encodedHeader);
	if (header instanceof Rejection) return header;
	const signature = decodeBase64url(encodedSignature);
	if (!signature) return MALFORMED;
	// The key decides the algorithm, never the token: RFC 8725 section 3.1.
	if (header.alg !== 'RS256') return WRONG_ALG;
	// `crit` names extensions that must be understood, and we understand none: RFC 7515 section 4.1.11. `b64: false` is
	// forbidden in JWTs: RFC 7797 section 7.
	if (Object.hasOwn(header, 'crit') || header.b64 === false) return CRITICAL_EXTENSION;
	if (!isAccessTokenType(header.typ)) return WRONG_TYP;
	const signed = Buffer.from(`${encodedHeader}.${encodedPayload}`, 'latin1');
	if (!verify('RSA-SHA256', signed, policy.publicKey, signature)) return WRONG_SIGNATURE;
	const payload = decodeObject(encodedPayload);
	if (payload instanceof Rejection) return payload;
	return checkClaims(payload, policy, nowSeconds);
}

const MALFORMED = TOKEN_INVALID.because('malformed');
const DUPLICATE_MEMBER = TOKEN_INVALID.because('duplicate member');
const HEADER_TOO_LONG = TOKEN_INVALID.because('header too long');
const WRONG_ALG = TOKEN_INVALID.because('alg');
const WRONG_TYP = TOKEN_INVALID.because('typ');
const CRITICAL_EXTENSION = TOKEN_INVALID.because('crit');
const WRONG_SIGNATURE = TOKEN_INVALID.because('signature');
const NO_EXP = TOKEN_INVALID.because('no exp');
const BAD_EXP = TOKEN_INVALID.because('bad exp');
const EXPIRED_LONG_AGO = TOKEN_INVALID.because('expired over a year ago');
const BAD_NBF = TOKEN_INVALID.because('bad nbf');
const NOT_VALID_FOR_LONG = TOKEN_INVALID.because('not valid for over a year');
const WRONG_ISS = TOKEN_INVALID.because('iss');
const WRONG_AUD = TOKEN_INVALID.because('aud');
const NO_SUB = TOKEN_INVALID.because('no sub');
const BAD_SUB = TOKEN_INVALID.because('bad sub');

/** The 60 s leeway holds on the first use and on every use of a cached verdict. */
export function isExpired(exp: number, nowSeconds: number): boolean {
	return nowSeconds >= exp + LEEWAY_SECONDS;
}

function checkClaims(payload: Record<string, unknown>, policy: TokenPolicy, nowSeconds: number): Claims | Rejection {
	const { exp, nbf, sub, scope } = payload;
	if (exp === undefined) return NO_EXP;
	if (!isFiniteNumber(exp)) return BAD_EXP;
	if (isExpired(exp, nowSeconds)) return expired(nowSeconds - exp);
	if (nbf !== undefined) {
		if (!isFiniteNumber(nbf) || nbf < 0) return BAD_NBF;
		if (nowSeconds < nbf - LEEWAY_SECONDS) return notYetValid(nbf - nowSeconds);
	}
	if (policy.issuer !== undefined && payload.iss !== policy.issuer) return WRONG_ISS;
	if (!isForAudience(payload.aud, policy.audience)) return WRONG_AUD;
	if (sub === undefined) return NO_SUB;
	// An identity that cannot be passed on in a header is not an identity.
	if (
		typeof sub !== 'string' ||
		sub.length > MAX_SUB_LENGTH ||
		!/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(sub)
	) {
		return BAD_SUB;
	}
	return { sub, scope: typeof scope === 'string' ? scope : '', exp, payload };
}

/** @param seconds since `exp`; the leeway is over. */
function expired(seconds: number): Rejection {
	return seconds > YEAR ? EXPIRED_LONG_AGO : TOKEN_INVALID.because(`expired ${Math.floor(seconds)} s ago`);
}

/** @param seconds until `nbf`; the leeway does not reach so far. */
function notYetValid(seconds: number): Rejection {
	return seconds > YEAR ? NOT_VALID_FOR_LONG : TOKEN_INVALID.because(`not valid for another ${Math.ceil(seconds)} s`);
}

/** Seconds. Beyond it the exact number says nothing, and it may have 300 digits. */
const YEAR = 365 * 24 * 3600;

/**
 * RFC 8725 section 3.11: a signed JWT that was made for something else (a logout, an ID document, a DPoP proof) names that in
 * `typ`, and is no credential here. RFC 7515 section 4.1.9: a media type, in any case, `application/` left out or not.
 */
function isAccessTokenType(typ: unknown): boolean {
	if (typ === undefined || typ === 'JWT') return true;
	return typeof typ === 'string' && /^(?:application\/)?(?:at\+)?jwt$/i.test(typ);
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

function decodeObject(encoded: string): Record<string, unknown> | Rejection {
	const bytes = decodeBase64url(encoded);
	if (!bytes) return MALFORMED;
	let text: string;
	try {
		text = UTF8.decode(bytes);
	} catch {
		return MALFORMED;
	}
	const object = parseUniqueObject(text);
	return object ?? (object === null ? DUPLICATE_MEMBER : MALFORMED);
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
