import { constants, type KeyObject, verify } from 'node:crypto';

/** Signature algorithms of tokens (RFC 7518 section 3.1, RFC 8037 section 3.1). "none" and HMAC are missing on purpose. */
export const ALGORITHMS = [
	...(['RS256', 'RS384', 'RS512'] as const),
	...(['PS256', 'PS384', 'PS512'] as const),
	...(['ES256', 'ES384'] as const),
	'EdDSA',
] as const;

export type Algorithm = (typeof ALGORITHMS)[number];

interface Scheme {
	/** `KeyObject.asymmetricKeyType`. An `rsa-pss` key is not an `rsa` key: its parameters restrict its use. */
	readonly keyType: 'rsa' | 'ec' | 'ed25519';
	/** OpenSSL's name of the required curve (RFC 7518 section 3.4). */
	readonly curve?: string;
	/** `null`: the algorithm includes its own hash. */
	readonly hash: string | null;
	readonly options: {
		readonly padding?: number;
		readonly saltLength?: number;
		readonly dsaEncoding?: 'ieee-p1363';
	};
}

const PKCS1 = { padding: constants.RSA_PKCS1_PADDING };
/** RFC 7518 section 3.5: the salt is as long as the digest. */
const PSS = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST };
/** RFC 7518 section 3.4: R and S are concatenated, not in DER. */
const RAW = { dsaEncoding: 'ieee-p1363' } as const;

const SCHEMES: Readonly<Record<Algorithm, Scheme>> = {
	RS256: { keyType: 'rsa', hash: 'RSA-SHA256', options: PKCS1 },
	RS384: { keyType: 'rsa', hash: 'RSA-SHA384', options: PKCS1 },
	RS512: { keyType: 'rsa', hash: 'RSA-SHA512', options: PKCS1 },
	PS256: { keyType: 'rsa', hash: 'RSA-SHA256', options: PSS },
	PS384: { keyType: 'rsa', hash: 'RSA-SHA384', options: PSS },
	PS512: { keyType: 'rsa', hash: 'RSA-SHA512', options: PSS },
	ES256: { keyType: 'ec', curve: 'prime256v1', hash: 'SHA256', options: RAW },
	ES384: { keyType: 'ec', curve: 'secp384r1', hash: 'SHA384', options: RAW },
	EdDSA: { keyType: 'ed25519', hash: null, options: {} },
};

/** Whether the key has the type and curve that the algorithm requires. Its strength is not checked. */
export function fitsAlgorithm(key: KeyObject, algorithm: Algorithm): boolean {
	const { keyType, curve } = SCHEMES[algorithm];
	return key.asymmetricKeyType === keyType && key.asymmetricKeyDetails?.namedCurve === curve;
}

/** @param key must fit the algorithm. */
export function hasSigned(algorithm: Algorithm, key: KeyObject, signed: Buffer, signature: Buffer): boolean {
	const { hash, options } = SCHEMES[algorithm];
	// An RSA signature is as long as the modulus (RFC 8017 sections 8.1.2 and 8.2.2). OpenSSL also accepts RSA-PSS without leading zeros.
	const modulusBits = key.asymmetricKeyDetails?.modulusLength;
	if (modulusBits !== undefined && signature.length !== Math.ceil(modulusBits / 8)) return false;
	return verify(hash, signed, { key, ...options }, signature);
}
