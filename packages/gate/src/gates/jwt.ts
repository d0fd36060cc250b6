import type { KeyObject } from 'node:crypto';
import { type Algorithm, hasSigned } from './algorithm.ts';
import { parseUniqueObject, peekText } from './json-members.ts';
import { Rejection, TOKEN_INVALID } from './rejection.ts';
import { type RequiredClaim, refuseClaims } from './required-claims.ts';
import { readScopes } from './scopes.ts';
import { readTenant } from './tenant-claim.ts';

/** Seconds by which `exp` and `nbf` may be missed unless the configuration says otherwise. */
export const LEEWAY_SECONDS = 60;
/**
 * Longest header, in characters of base64url. It is parsed before anything is verified: what a stranger can have parsed for
 * nothing is to cost less than the verification. An algorithm, a type and a key's name need a hundred characters.
 */
export const MAX_HEADER_LENGTH = 1024;

/** What a verified token says. */
export interface Claims {
	/** The empty string where the token has none: allowed only if the tenant comes from another claim. */
	readonly sub: string;
	/** 1 to 256 visible ASCII characters, safe in a header line; without the issuer's prefix. It is `sub` unless the policy says otherwise. */
	readonly tenant: string;
	/** `scope`, or the empty string where the token has none. */
	readonly scope: string;
	/** See `readScopes`; worked out when they are first asked for. */
	readonly scopes: ReadonlySet<string>;
	/** Expiry, seconds since the epoch. */
	readonly exp: number;
	/** The whole payload, as signed. */
	readonly payload: Readonly<Record<string, unknown>>;
}

/** What the operator demands of a token's claims. */
export interface ClaimRules {
	/** Required `iss`; `undefined`: not checked. */
	readonly issuer: string | undefined;
	/** One of them must be an `aud`; `undefined`: tokens that carry any `aud` are refused. */
	readonly audience: readonly string[] | undefined;
	/** By so much `exp` and `nbf` may be missed. */
	readonly leewaySeconds: number;
	/** Names of members, from the payload inwards, that lead to the tenant. */
	readonly tenantClaim: readonly string[];
	readonly requiredClaims: readonly RequiredClaim[];
}

/** The key that verifies signatures of some algorithms. */
export interface TokenKey {
	readonly key: KeyObject;
}

/** The keys of an issuer. The key decides the algorithm, never the token: RFC 8725 section 3.1. */
export interface TokenKeys<Key extends TokenKey = TokenKey> {
	/**
	 * The keys to try, a few at most; each fits the algorithm.
	 *
	 * @param alg as the header has it: of any type.
	 * @param kid likewise.
	 */
	candidates(alg: unknown, kid: unknown): readonly Key[] | Rejection;
}

type Payload = Readonly<Record<string, unknown>>;

/** A token in its parts. Nothing of it has been verified. */
export interface ParsedToken {
	readonly alg: unknown;
	readonly kid: unknown;
	readonly encodedPayload: string;
	readonly signed: Buffer;
	readonly signature: Buffer;
}

/**
 * Reads a JSON Web Token (RFC 7519, RFC 7515 compact form) and judges its header, but for the algorithm and the key: those are
 * the issuer's matter.
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
	// `crit` names extensions that must be understood, and we understand none: RFC 7515 section 4.1.11. `b64: false` is
	// forbidden in JWTs: RFC 7797 section 7.
	if (Object.hasOwn(header, 'crit') || header.b64 === false) return CRITICAL_EXTENSION;
	if (!isAccessTokenType(header.typ)) return WRONG_TYP;
	const signed = Buffer.from(`${encodedHeader}.${encodedPayload}`, 'latin1');
	return { alg: header.alg, kid: header.kid, encodedPayload, signed, signature };
}

/**
 * What `iss` seems to be, before anything is verified: enough to choose whose keys are tried, and nothing else. It is read without the
 * care of `readPayload`, since strangers can have it read for nothing. `checkClaims` looks at `iss` again, read with care.
 */
export function peekIssuer({ encodedPayload }: ParsedToken): string | undefined {
	return peekText(Buffer.from(encodedPayload, 'base64url'), 'iss');
}

/** The claims. Only for tokens whose signature has been verified. */
export function readPayload({ encodedPayload }: ParsedToken): Record<string, unknown> | Rejection {
	return decodeObject(encodedPayload);
}

/** @returns the key that the token was signed with. */
export function verifySignature<Key extends TokenKey>(
	{ alg, kid, signed, signature }: ParsedToken,
	keys: TokenKeys<Key>,
): Key | Rejection {
	const candidates = keys.candidates(alg, kid);
	if (candidates instanceof Rejection) return candidates;
	return candidates.find(({ key }) => hasSigned(alg as Algorithm, key, signed, signature)) ?? WRONG_SIGNATURE;
}

/**
 * Parses and verifies a token in one go, the signature before any claim.
 *
 * @param nowSeconds wall-clock time, seconds since the epoch.
 */
export function verifyToken(
	token: string,
	policy: ClaimRules & { readonly keys: TokenKeys },
	nowSeconds: number,
): Claims | Rejection {
	const parsed = parseToken(token);
	if (parsed instanceof Rejection) return parsed;
	const key = verifySignature(parsed, policy.keys);
	if (key instanceof Rejection) return key;
	const payload = readPayload(parsed);
	return payload instanceof Rejection ? payload : checkClaims(payload, policy, nowSeconds);
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

/** The leeway holds on the first use and on every use of a cached verdict. */
export function isExpired(exp: number, nowSeconds: number, leewaySeconds: number = LEEWAY_SECONDS): boolean {
	return nowSeconds >= exp + leewaySeconds;
}

/** @param payload of a token whose signature has been verified. */
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

// The checks one by one: an explanation of a refusal runs all of them, also behind the first failure.

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

/** @param payload whose `exp` has been judged. */
export function claimsOf(payload: Payload, tenant: string): Claims {
	const { sub, scope, exp } = payload;
	let scopes: ReadonlySet<string> | undefined;
	return {
		sub: typeof sub === 'string' ? sub : '',
		tenant,
		scope: typeof scope === 'string' ? scope : '',
		get scopes() {
			scopes ??= readScopes(payload);
			return scopes;
		},
		exp: exp as number,
		payload,
	};
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
 * Strict base64url (RFC 7515 section 2): alphabet only, no padding, and the unused bits of the last character zero, so
 * that each value has one spelling. Node's decoder skips what it does not know; encoding back shows whether it did.
 */
function decodeBase64url(encoded: string): Buffer | undefined {
	if (encoded === '') return undefined;
	const bytes = Buffer.from(encoded, 'base64url');
	return bytes.toString('base64url') === encoded ? bytes : undefined;
}
