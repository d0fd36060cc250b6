import type { KeyObject } from 'node:crypto';
import { type Algorithm, hasSigned } from './algorithm.ts';
import { parseUniqueObject, peekText } from './json-members.ts';
import { Rejection, TOKEN_INVALID } from './rejection.ts';
import { type RequiredClaim, refuseClaims } from './required-claims.ts';
import { readScopes } from './scopes.ts';
import { readTenant } from './tenant-claim.ts';

/** Default leeway for `exp` and `nbf`, in seconds. */
export const LEEWAY_SECONDS = 60;
/**
 * Longest header, in characters of base64url. It is parsed before anything is verified, so parsing must cost less than
 * verification. An algorithm, a type and a key's name need a hundred characters.
 */
export const MAX_HEADER_LENGTH = 1024;

/** The claims of a verified token. */
export interface Claims {
	/** Empty if the token has none, which is allowed only if the tenant comes from another claim. */
	readonly sub: string;
	/** `sub` by default. 1 to 256 printable ASCII characters, safe in a header line, without the issuer's prefix. */
	readonly tenant: string;
	/** `scope`; empty if the token has none. */
	readonly scope: string;
	/** See `readScopes`; computed on first use. */
	readonly scopes: ReadonlySet<string>;
	/** Expiry, seconds since the epoch. */
	readonly exp: number;
	/** The whole payload, as signed. */
	readonly payload: Readonly<Record<string, unknown>>;
}

/** The operator's requirements for a token's claims. */
export interface ClaimRules {
	/** Required `iss`; `undefined`: not checked. */
	readonly issuer: string | undefined;
	/** `aud` must contain one of them; `undefined`: tokens with any `aud` are refused. */
	readonly audience: readonly string[] | undefined;
	/** Leeway for `exp` and `nbf`. */
	readonly leewaySeconds: number;
	/** The path to the tenant: member names, starting at the payload. */
	readonly tenantClaim: readonly string[];
	readonly requiredClaims: readonly RequiredClaim[];
}

/** A key that verifies signatures. */
export interface TokenKey {
	readonly key: KeyObject;
}

/** The keys of an issuer. The key determines the algorithm, never the token (RFC 8725 section 3.1). */
export interface TokenKeys<Key extends TokenKey = TokenKey> {
	/**
	 * The few keys to try; each fits the algorithm.
	 *
	 * @param alg from the header, of any type.
	 * @param kid from the header, of any type.
	 */
	candidates(alg: unknown, kid: unknown): readonly Key[] | Rejection;
}

type Payload = Readonly<Record<string, unknown>>;

/** The parts of a token, all unverified. */
export interface ParsedToken {
	readonly alg: unknown;
	readonly kid: unknown;
	readonly encodedPayload: string;
	readonly signed: Buffer;
	readonly signature: Buffer;
}

/**
 * Parses a JSON Web Token (RFC 7519, RFC 7515 compact form) and checks its header. The issuer checks the algorithm and chooses the
 * key.
 */
export function parseToken(token: string): ParsedToken | Rejection {
	const parts = token.split('.', 4);
	if (parts.length !== 3) return MALFORMED;
	const [encodedHeader, encodedPayload, encodedSignature] = parts as [string, string, string];
	if (encodedHeader.length > MAX_HEADER_LENGTH) return HEADER_TOO_LONG;
	const header = decodeObject(encodedHeader);
	if (header instanceof Rejection) return header;
	const signature = decodeBase64url(encodedSignature);
	if (!signature) return MALFORMED;
	// `crit` lists extensions that must be understood (RFC 7515 section 4.1.11); we understand none. `b64: false` is forbidden
	// in JWTs (RFC 7797 section 7).
	if (Object.hasOwn(header, 'crit') || header.b64 === false) return CRITICAL_EXTENSION;
	if (!isAccessTokenType(header.typ)) return WRONG_TYP;
	const signed = Buffer.from(`${encodedHeader}.${encodedPayload}`, 'latin1');
	return { alg: header.alg, kid: header.kid, encodedPayload, signed, signature };
}

/**
 * The unverified `iss`, only for choosing whose keys to try. It is read without the checks of `readPayload`, because unauthenticated
 * clients can trigger this read. `checkClaims` checks `iss` again after verification.
 */
export function peekIssuer({ encodedPayload }: ParsedToken): string | undefined {
	return peekText(Buffer.from(encodedPayload, 'base64url'), 'iss');
}

/** Parses the claims. Call it only after the signature has been verified. */
export function readPayload({ encodedPayload }: ParsedToken): Record<string, unknown> | Rejection {
	return decodeObject(encodedPayload);
}

/** @returns the key that verifies the signature. */
export function verifySignature<Key extends TokenKey>(
	{ alg, kid, signed, signature }: ParsedToken,
	keys: TokenKeys<Key>,
): Key | Rejection {
	const candidates = keys.candidates(alg, kid);
	if (candidates instanceof Rejection) return candidates;
	return candidates.find(({ key }) => hasSigned(alg as Algorithm, key, signed, signature)) ?? WRONG_SIGNATURE;
}

const MALFORMED = TOKEN_INVALID.because('malformed');
const DUPLICATE_MEMBER = TOKEN_INVALID.because('duplicate member');
const HEADER_TOO_LONG = TOKEN_INVALID.because('header too long');
export const WRONG_ALG = TOKEN_INVALID.because('alg');
const WRONG_TYP = TOKEN_INVALID.because('typ');
const CRITICAL_EXTENSION = TOKEN_INVALID.because('crit');
const WRONG_SIGNATURE = TOKEN_INVALID.because('signature');
const NO_EXP = TOKEN_INVALID.because('no exp');
const BAD_EXP = TOKEN_INVALID.because('bad exp');
const EXPIRED_LONG_AGO = TOKEN_INVALID.because('expired over a year ago');
const BAD_NBF = TOKEN_INVALID.because('bad nbf');
const NOT_VALID_FOR_LONG = TOKEN_INVALID.because('not valid for over a year');
export const WRONG_ISS = TOKEN_INVALID.because('iss');
const WRONG_AUD = TOKEN_INVALID.because('aud');

/** The leeway applies to cached verdicts, too. */
export function isExpired(exp: number, nowSeconds: number, leewaySeconds: number = LEEWAY_SECONDS): boolean {
	return nowSeconds >= exp + leewaySeconds;
}

/** @param payload from a token with a verified signature. */
export function checkClaims(
	payload: Payload,
	{ issuer, audience, leewaySeconds, tenantClaim, requiredClaims }: ClaimRules,
	nowSeconds: number,
): Claims | Rejection {
	const refused =
		refuseExpiry(payload, leewaySeconds, nowSeconds) ??
		refuseNotBefore(payload, leewaySeconds, nowSeconds) ??
		refuseIssuer(payload, issuer) ??
		refuseAudience(payload, audience) ??
		refuseClaims(payload, requiredClaims);
	if (refused) return refused;
	const tenant = readTenant(payload, tenantClaim);
	return tenant instanceof Rejection ? tenant : claimsOf(payload, tenant);
}

// The checks are exported one by one: an explanation of a refusal runs all of them, even after the first failure.

export function refuseExpiry({ exp }: Payload, leewaySeconds: number, nowSeconds: number): Rejection | undefined {
	if (exp === undefined) return NO_EXP;
	if (!isFiniteNumber(exp)) return BAD_EXP;
	return isExpired(exp, nowSeconds, leewaySeconds) ? expired(nowSeconds - exp) : undefined;
}

export function refuseNotBefore({ nbf }: Payload, leewaySeconds: number, nowSeconds: number): Rejection | undefined {
	if (nbf === undefined) return undefined;
	if (!isFiniteNumber(nbf) || nbf < 0) return BAD_NBF;
	return nowSeconds < nbf - leewaySeconds ? notYetValid(nbf - nowSeconds) : undefined;
}

export function refuseIssuer({ iss }: Payload, issuer: ClaimRules['issuer']): Rejection | undefined {
	return issuer !== undefined && iss !== issuer ? WRONG_ISS : undefined;
}

export function refuseAudience({ aud }: Payload, audience: ClaimRules['audience']): Rejection | undefined {
	return isForAudience(aud, audience) ? undefined : WRONG_AUD;
}

/** @param payload its `exp` has been checked. */
export function claimsOf(payload: Payload, tenant: string): Claims {
	return new CheckedClaims(payload, tenant);
}

/** A class, because V8 gives every object literal with a getter a shape of its own: 600 bytes for each remembered token. */
class CheckedClaims implements Claims {
	readonly sub: string;
	readonly tenant: string;
	readonly scope: string;
	readonly exp: number;
	readonly payload: Payload;
	#scopes: ReadonlySet<string> | undefined;

	constructor(payload: Payload, tenant: string) {
		const { sub, scope, exp } = payload;
		this.sub = typeof sub === 'string' ? sub : '';
		this.tenant = tenant;
		this.scope = typeof scope === 'string' ? scope : '';
		this.exp = exp as number;
		this.payload = payload;
	}

	get scopes(): ReadonlySet<string> {
		this.#scopes ??= readScopes(this.payload);
		return this.#scopes;
	}
}

/** @param seconds since `exp`, more than the leeway. */
function expired(seconds: number): Rejection {
	return seconds > YEAR ? EXPIRED_LONG_AGO : TOKEN_INVALID.because(`expired ${Math.floor(seconds)} s ago`);
}

/** @param seconds until `nbf`, more than the leeway. */
function notYetValid(seconds: number): Rejection {
	return seconds > YEAR ? NOT_VALID_FOR_LONG : TOKEN_INVALID.because(`not valid for another ${Math.ceil(seconds)} s`);
}

/** Seconds. Beyond a year the exact number is useless, and may have 300 digits. */
const YEAR = 365 * 24 * 3600;

/**
 * RFC 8725 section 3.11: a JWT for another purpose (a logout, an ID document, a DPoP proof) says so in `typ`, and is not a
 * credential here. RFC 7515 section 4.1.9: `typ` is a case-insensitive media type, with or without `application/`.
 */
function isAccessTokenType(typ: unknown): boolean {
	if (typ === undefined || typ === 'JWT') return true;
	return typeof typ === 'string' && /^(?:application\/)?(?:at\+)?jwt$/i.test(typ);
}

/** RFC 7519 section 4.1.3: `aud` is one string or an array of strings; any other type does not match. */
function isForAudience(aud: unknown, wanted: readonly string[] | undefined): boolean {
	if (wanted === undefined) return aud === undefined;
	if (!Array.isArray(aud)) return typeof aud === 'string' && wanted.includes(aud);
	return aud.every((one) => typeof one === 'string') && aud.some((one) => wanted.includes(one));
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
 * Strict base64url (RFC 7515 section 2): only the alphabet, no padding, and the unused bits of the last character are zero, so
 * each value has one spelling. Node's decoder skips invalid characters; encoding the result again reveals that.
 */
function decodeBase64url(encoded: string): Buffer | undefined {
	if (encoded === '') return undefined;
	const bytes = Buffer.from(encoded, 'base64url');
	return bytes.toString('base64url') === encoded ? bytes : undefined;
}
