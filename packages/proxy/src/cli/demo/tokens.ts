/** RS256 access tokens for the demo and the tests (RFC 7519, RFC 7515 compact serialization). */
import { generateKeyPairSync, type KeyObject, sign, X509Certificate } from 'node:crypto';

export interface TokenKey {
	readonly privateKey: KeyObject;
	/** SPKI, PEM: the file behind `[jwt] jwks_path`. */
	readonly publicKeyPem: string;
}

/** The part of a `TokenKey` that signs. */
type SigningKey = Pick<TokenKey, 'privateKey'>;

/** The claims of a token. Times are seconds since the epoch. */
export interface TokenClaims {
	readonly sub?: unknown;
	readonly exp?: unknown;
	readonly nbf?: unknown;
	readonly iss?: unknown;
	readonly aud?: unknown;
	readonly scope?: unknown;
	readonly [claim: string]: unknown;
}

/** Creates an RSA key pair. Takes about 100 ms; the search for two 1024-bit primes varies. */
export function createTokenKey(): TokenKey {
	const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
	return { privateKey, publicKeyPem: publicKey.export({ type: 'spki', format: 'pem' }) as string };
}

/**
 * Mints a token with exactly these claims. Adds and checks nothing, because tests mint bad tokens on purpose.
 * `header` replaces or adds members of the protected header.
 */
export function mintToken(
	key: SigningKey,
	claims: TokenClaims,
	header: Readonly<Record<string, unknown>> = {},
): string {
	const protectedHeader = JSON.stringify({ alg: 'RS256', typ: 'JWT', ...header });
	return signToken(key, protectedHeader, JSON.stringify(claims));
}

/** Like `mintToken`, but from JSON text, for claims that `JSON.stringify` cannot write: duplicate members, `1e400`. */
export function signToken(key: SigningKey, protectedHeader: string, payload: string): string {
	const signed = `${base64url(protectedHeader)}.${base64url(payload)}`;
	return `${signed}.${sign('sha256', Buffer.from(signed), key.privateKey).toString('base64url')}`;
}

/** What binds a token to a certificate: SHA-256 of its DER encoding (RFC 8705 section 3.1). @param pem the first certificate counts. */
export function thumbprint(pem: string): Buffer {
	return Buffer.from(new X509Certificate(pem).fingerprint256.replaceAll(':', ''), 'hex');
}

function base64url(text: string): string {
	return Buffer.from(text).toString('base64url');
}
