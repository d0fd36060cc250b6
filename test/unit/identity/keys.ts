/** Keys of every kind for the tests of issuers. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { type JWTPayload, SignJWT } from 'jose';
import type { Algorithm } from '../../../src/gates/algorithm.ts';
import { DEFAULT_RULES, type IssuerSeed } from '../../../src/identity/issuer.ts';
import { readJwks } from '../../../src/identity/key-set.ts';

export interface KeyPair {
	readonly publicKey: KeyObject;
	readonly privateKey: KeyObject;
}

/** Makes a pair that fits the algorithm. */
export function keyFor(algorithm: string): KeyPair {
	if (algorithm === 'ES256') return generateKeyPairSync('ec', { namedCurve: 'P-256' });
	if (algorithm === 'ES384') return generateKeyPairSync('ec', { namedCurve: 'P-384' });
	if (algorithm === 'EdDSA') return generateKeyPairSync('ed25519');
	return generateKeyPairSync('rsa', { modulusLength: 2048 });
}

/** The public half as a JWK, with members of one's own. */
export function jwkOf({ publicKey }: KeyPair, members: object = {}): Record<string, unknown> {
	return { ...publicKey.export({ format: 'jwk' }), ...members };
}

export function jwks(...keys: readonly unknown[]): string {
	return JSON.stringify({ keys });
}

export function sign(
	{ privateKey }: KeyPair,
	payload: JWTPayload,
	header: { readonly alg: string; readonly kid?: string },
): Promise<string> {
	return new SignJWT(payload).setProtectedHeader(header).sign(privateKey);
}

export const ISSUER = 'https://issuer.test';
export const AUDIENCE = 'edge';

/** An issuer with the keys of a JWK Set. */
export function seedWith(set: string, rules: Partial<IssuerSeed> = {}): IssuerSeed {
	const algorithms: readonly Algorithm[] = rules.algorithms ?? DEFAULT_RULES.algorithms;
	const keys = readJwks(set, algorithms).seed;
	return { ...DEFAULT_RULES, issuer: ISSUER, audience: [AUDIENCE], keys, remote: false, ...rules };
}
