import { createPublicKey, KeyObject, type webcrypto } from 'node:crypto';
import { types } from 'node:util';
import { type Algorithm, fitsAlgorithm } from '../gates/algorithm.ts';
import { checkPublicKey, readPublicKey, UnfitKey } from '../gates/public-key.ts';
import { GateError } from './error.ts';

/**
 * An RSA public key of at least 2048 bits with a public exponent of at least 65537: PEM text (SPKI or PKCS#1), the bytes of
 * such a text or of a DER SPKI, a public `KeyObject`, an extractable `CryptoKey` for RSASSA-PKCS1-v1_5 with SHA-256, or
 * a JWK (the parsed object, not a JWK Set).
 */
export type VerificationKey = string | Uint8Array | KeyObject | webcrypto.CryptoKey | webcrypto.JsonWebKey;

/**
 * @param name of the option, for messages.
 * @param algorithms it must fit one of these.
 * @param remedy ends the message about a key for other algorithms.
 * @throws {GateError} `ERR_GATE_PUBLIC_KEY`, which says what was found and what is wanted.
 *
 * @internal
 */
export function readKey(name: string, key: VerificationKey, algorithms: readonly Algorithm[], remedy = ''): KeyObject {
	try {
		if (typeof key === 'string') return readPublicKey(key, algorithms);
		if (types.isUint8Array(key)) return readBytes(key, algorithms);
		if (types.isKeyObject(key)) return checkPublicKey(key, algorithms);
		if (types.isCryptoKey(key)) return readCryptoKey(key, algorithms);
		if (typeof key === 'object' && key !== null) return readJwk(key, algorithms);
	} catch (error) {
		const end = error instanceof UnfitKey ? remedy : '';
		throw new GateError('ERR_GATE_PUBLIC_KEY', `${name} ${(error as Error).message}${end}`);
	}
	throw new GateError('ERR_GATE_PUBLIC_KEY', `${name} is ${typeof key}; ${WANTED}`);
}

const WANTED = 'give PEM text, its bytes, DER (SPKI), a KeyObject, a CryptoKey or a JWK';

/** DER begins with the tag of a sequence; PEM and JSON never do. */
function readBytes(bytes: Uint8Array, algorithms: readonly Algorithm[]): KeyObject {
	if (bytes[0] !== 0x30) return readPublicKey(Buffer.from(bytes).toString('utf8'), algorithms);
	let key: KeyObject;
	try {
		key = createPublicKey({ key: Buffer.from(bytes), format: 'der', type: 'spki' });
	} catch {
		throw new Error('is not a readable DER public key (SPKI); private keys and certificates are not accepted');
	}
	return checkPublicKey(key, algorithms);
}

function readCryptoKey(key: webcrypto.CryptoKey, algorithms: readonly Algorithm[]): KeyObject {
	const { name, hash } = key.algorithm as webcrypto.RsaHashedKeyAlgorithm;
	// The `KeyObject` would not show the hash or the RSA padding of the CryptoKey.
	if (!algorithms.some((algorithm) => isFor(key, algorithm))) {
		const found = [name, hash?.name].join(' ').trim();
		throw new Error(`is a CryptoKey for ${found}; ${needed(algorithms)}`);
	}
	if (key.type !== 'public') throw new Error(`contains a ${key.type} key; give the publicKey of the pair`);
	// Node has deprecated these (DEP0204), and a public key has nothing to hide.
	if (!key.extractable) throw new Error('is a CryptoKey that is not extractable; import it with extractable: true');
	return checkPublicKey(KeyObject.from(key), algorithms);
}

/** A JWK whose members name another purpose (RFC 7517 section 4) is refused: it is the wrong key. */
function readJwk(jwk: webcrypto.JsonWebKey, algorithms: readonly Algorithm[]): KeyObject {
	const { kty, use, alg, key_ops: operations } = jwk;
	if ('keys' in jwk) throw new Error('is a JWK Set; give the single key that verifies, such as keys[0]');
	if (kty === undefined) throw new Error(`is an object without "kty", so it is not a JWK; ${WANTED}`);
	if (kty !== 'RSA' && algorithms.every(isRsa)) {
		throw new UnfitKey(`is a JWK whose kty is not RSA; ${algorithms.join(', ')} needs an RSA key`);
	}
	if ('d' in jwk) throw new Error('is a private JWK; give only its public members: kty, n and e');
	if (alg !== undefined && !algorithms.includes(alg as Algorithm)) {
		throw new Error(`is a JWK whose alg is not ${algorithms.join(' or ')}`);
	}
	if (use !== undefined && use !== 'sig') throw new Error('is a JWK whose use is not sig');
	if (operations !== undefined && !operations.includes('verify')) {
		throw new Error('is a JWK whose key_ops does not include verify');
	}
	let key: KeyObject;
	try {
		key = createPublicKey({ key: jwk, format: 'jwk' });
	} catch {
		throw new Error('is a JWK that cannot be read: its numbers must be base64url');
	}
	return checkPublicKey(key, algorithms);
}

/** Whether WebCrypto would verify the algorithm with this key. */
function isFor(key: webcrypto.CryptoKey, algorithm: Algorithm): boolean {
	const { name, hash } = key.algorithm as webcrypto.RsaHashedKeyAlgorithm;
	if (NAMES[algorithm.slice(0, 2)] !== name) return false;
	return isRsa(algorithm) ? hash.name === `SHA-${algorithm.slice(2)}` : fitsAlgorithm(KeyObject.from(key), algorithm);
}

const NAMES: Readonly<Record<string, string>> = {
	RS: 'RSASSA-PKCS1-v1_5',
	PS: 'RSA-PSS',
	ES: 'ECDSA',
	Ed: 'Ed25519',
};

function isRsa(algorithm: Algorithm): boolean {
	return /^[RP]S/.test(algorithm);
}

function needed(algorithms: readonly Algorithm[]): string {
	if (algorithms.length === 1 && algorithms[0] === 'RS256') return 'RS256 is RSASSA-PKCS1-v1_5 with SHA-256';
	return `it must be for ${algorithms.join(' or ')}`;
}
