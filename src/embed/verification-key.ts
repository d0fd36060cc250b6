import { createPublicKey, KeyObject, type webcrypto } from 'node:crypto';
import { types } from 'node:util';
import { checkPublicKey, readPublicKey } from '../gates/public-key.ts';
import { GateError } from './error.ts';

/**
 * An RSA public key of at least 2048 bits with a public exponent of at least 65537: PEM text (SPKI or PKCS#1), the bytes of
 * such a text or of a DER SPKI, a public `KeyObject`, an extractable `CryptoKey` for RSASSA-PKCS1-v1_5 with SHA-256, or
 * a JWK (the parsed object, not a JWK Set).
 */
export type VerificationKey = string | Uint8Array | KeyObject | webcrypto.CryptoKey | webcrypto.JsonWebKey;

/**
 * @throws {GateError} `ERR_GATE_PUBLIC_KEY`, which says what was found and what is wanted.
 *
 * @internal
 */
export function readVerificationKey(key: VerificationKey): KeyObject {
	try {
		if (typeof key === 'string') return readPublicKey(key);
		if (types.isUint8Array(key)) return readBytes(key);
		if (types.isKeyObject(key)) return checkPublicKey(key);
		if (types.isCryptoKey(key)) return readCryptoKey(key);
		if (typeof key === 'object' && key !== null) return readJwk(key);
	} catch (error) {
		throw new GateError('ERR_GATE_PUBLIC_KEY', `jwtPublicKey ${(error as Error).message}`);
	}
	throw new GateError('ERR_GATE_PUBLIC_KEY', `jwtPublicKey is ${typeof key}; ${WANTED}`);
}

const WANTED = 'give PEM text, its bytes, DER (SPKI), a KeyObject, a CryptoKey or a JWK';

/** A DER key begins with the tag of a sequence, which no PEM text and no JSON does. */
function readBytes(bytes: Uint8Array): KeyObject {
	if (bytes[0] !== 0x30) return readPublicKey(Buffer.from(bytes).toString('utf8'));
	let key: KeyObject;
	try {
		key = createPublicKey({ key: Buffer.from(bytes), format: 'der', type: 'spki' });
	} catch {
		throw new Error('is not a readable DER public key (SPKI); a private key or a certificate is none');
	}
	return checkPublicKey(key);
}

function readCryptoKey(key: webcrypto.CryptoKey): KeyObject {
	const { name, hash } = key.algorithm as webcrypto.RsaHashedKeyAlgorithm;
	if (name !== 'RSASSA-PKCS1-v1_5' || hash.name !== 'SHA-256') {
		throw new Error(
			`is a CryptoKey for ${[name, hash?.name].join(' ').trim()}; RS256 is RSASSA-PKCS1-v1_5 with SHA-256`,
		);
	}
	if (key.type !== 'public') throw new Error(`holds a ${key.type} key; give the publicKey of the pair`);
	// Node is about to refuse these (DEP0204), and a public key has nothing to hide.
	if (!key.extractable) throw new Error('is a CryptoKey that is not extractable; import it with extractable: true');
	return checkPublicKey(KeyObject.from(key));
}

/** What a JWK says about its purpose is believed (RFC 7517 section 4): a key for another one is a mix-up. */
function readJwk(jwk: webcrypto.JsonWebKey): KeyObject {
	const { kty, use, alg, key_ops: operations } = jwk;
	if ('keys' in jwk) throw new Error('is a JWK Set; give the one key of it that verifies, as keys[0]');
	if (kty === undefined) throw new Error(`is an object without "kty", and so no JWK; ${WANTED}`);
	if (kty !== 'RSA') throw new Error(`is a JWK with another kty than RSA; RS256 needs an RSA key`);
	if ('d' in jwk) throw new Error('is a private JWK; give its public members alone: kty, n and e');
	if (alg !== undefined && alg !== 'RS256') throw new Error('is a JWK whose alg is not RS256');
	if (use !== undefined && use !== 'sig') throw new Error('is a JWK whose use is not sig');
	if (operations !== undefined && !operations.includes('verify')) {
		throw new Error('is a JWK whose key_ops lack verify');
	}
	let key: KeyObject;
	try {
		key = createPublicKey({ key: jwk, format: 'jwk' });
	} catch {
		throw new Error('is a JWK that cannot be read: n and e must be base64url');
	}
	return checkPublicKey(key);
}
