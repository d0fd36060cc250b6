import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { describe, it } from 'node:test';
import { ALGORITHMS } from '../../../packages/gate/src/gates/algorithm.ts';
import { Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import { KeySet, MAX_KEYS, MAX_TRIES, readJwks, readKeySet } from '../../../packages/gate/src/identity/key-set.ts';
import { jwkOf, jwks, keyFor } from '../../fixtures/issuer-keys.ts';

const rsa = keyFor('RS256');
const p256 = keyFor('ES256');
const p384 = keyFor('ES384');
const ed = keyFor('EdDSA');
const RS256 = ['RS256'] as const;

const reasonOf = (found: unknown) => (found instanceof Rejection ? found.reason : 'found');

describe('the keys of an issuer', () => {
	it('are read from one PEM key or a JWK Set, detected by the content', () => {
		const pem = rsa.publicKey.export({ type: 'pkcs1', format: 'pem' }) as string;
		const spki = rsa.publicKey.export({ type: 'spki', format: 'pem' }) as string;
		const key = { kid: undefined, pem: spki, algorithms: ['RS256'] };
		assert.deepEqual(readKeySet(pem, RS256), { seed: { named: false, keys: [key] }, skipped: [] });
		assert.deepEqual(readKeySet(` \n${jwks(jwkOf(rsa, { kid: 'a' }))}`, RS256).seed, {
			named: true,
			keys: [{ ...key, kid: 'a' }],
		});
		assert.throws(() => readKeySet('nothing', RS256), /is not a PEM public key/);
		assert.throws(() => readKeySet(`${pem}-----BEGIN PUB`, RS256), /truncated or damaged/);
	});

	it('verify only what their type and curve, their JWK and the issuer allow', () => {
		const algorithmsOf = (jwk: object, allowed: readonly (typeof ALGORITHMS)[number][] = ALGORITHMS) =>
			readJwks(jwks(jwk), allowed).seed.keys[0]!.algorithms;
		assert.deepEqual(algorithmsOf(jwkOf(rsa)), ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512']);
		assert.deepEqual(algorithmsOf(jwkOf(rsa), ['ES256', 'PS256']), ['PS256']);
		assert.deepEqual(algorithmsOf(jwkOf(rsa, { alg: 'PS384' })), ['PS384']);
		assert.deepEqual(algorithmsOf(jwkOf(p256)), ['ES256']);
		assert.deepEqual(algorithmsOf(jwkOf(p384)), ['ES384']);
		assert.deepEqual(algorithmsOf(jwkOf(ed)), ['EdDSA']);
		assert.deepEqual(algorithmsOf(jwkOf(rsa, { use: 'sig', key_ops: ['verify'] }), RS256), ['RS256']);
	});

	it('skip entries of another kind or for another use (RFC 7517 section 5), and report them', () => {
		const good = jwkOf(rsa, { kid: 'good' });
		const others: readonly [reason: RegExp, entry: unknown][] = [
			[/no object/, null],
			[/no object/, [good]],
			[/kid is not a string/, { ...good, kid: 1 }],
			[/use is not "sig"/, { ...good, use: 'enc' }],
			[/use is not "sig"/, { ...good, use: ['sig'] }],
			[/key_ops does not include "verify"/, { ...good, key_ops: ['encrypt'] }],
			[/key_ops does not include "verify"/, { ...good, key_ops: 'verify' }],
			[/alg is not one of RS256/, { ...good, alg: 'RSA-OAEP' }],
			[/alg is not one of RS256/, { ...good, alg: 'none' }],
			[/alg is not one of RS256/, { ...good, alg: 'HS256' }],
			[/cannot be read/, { kty: 'AKP', kid: 'x' }],
			[/cannot be read/, { kty: 'RSA', e: 'AQAB' }],
			[/cannot be read/, { kty: ['RSA'] }],
			[/key of type ec/, jwkOf(p256)],
			[/1024 bits/, generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' })],
			[/public exponent 3/, { ...good, e: 'Aw' }],
			[/key of type ed448/, generateKeyPairSync('ed448').publicKey.export({ format: 'jwk' })],
			[/alg is not one of RS256/, jwkOf(p256, { alg: 'ES256' })],
		];
		for (const [reason, entry] of others) {
			const { seed, skipped } = readJwks(jwks(entry, good), RS256);
			assert.deepEqual([seed.keys.length, seed.keys[0]?.kid, skipped.length], [1, 'good', 1]);
			assert.match(skipped[0]!, reason);
			assert.match(skipped[0]!, /^keys\[0\]: /);
			assert.throws(() => readJwks(jwks(entry), RS256), /without a key that can be used for RS256/);
		}
		// The key may be on a curve that its `alg` is not for.
		assert.match(readJwks(jwks(jwkOf(p384, { alg: 'ES256' }), jwkOf(p256)), ['ES256']).skipped[0]!, /P-256/);
	});

	it('are refused as a whole if one of them is secret', () => {
		const good = jwkOf(rsa);
		const secrets = [
			rsa.privateKey.export({ format: 'jwk' }),
			p256.privateKey.export({ format: 'jwk' }),
			ed.privateKey.export({ format: 'jwk' }),
			{ kty: 'oct', k: 'c2VjcmV0' },
			{ kty: 'oct' },
			{ ...good, use: 'enc', d: 'AQAB' },
		];
		for (const secret of secrets)
			assert.throws(() => readJwks(jwks(good, secret), RS256), /keys\[1\]\), which is (?:a|no longer) secret/);
	});

	it('are refused if the JSON is invalid, without quoting the text', () => {
		const cases: readonly [text: string, message: RegExp][] = [
			['{', /not a JSON object/],
			['[]', /not a JSON object/],
			['{}', /no list "keys"/],
			['{"keys":{}}', /no list "keys"/],
			['{"keys":[]}', /empty JWK Set/],
			['{"keys":[],"keys":[{}]}', /duplicate name/],
			[JSON.stringify(jwkOf(rsa)), /single JWK/],
			[jwks(...Array.from({ length: MAX_KEYS + 1 }, () => jwkOf(rsa))), /65 keys; at most 64/],
		];
		for (const [text, message] of cases) assert.throws(() => readJwks(text, RS256), message);
	});
});

describe('the key for a token', () => {
	const set = (...entries: object[]) => new KeySet(readJwks(jwks(...entries), ALGORITHMS).seed);
	const pair = set(jwkOf(rsa, { kid: 'a' }), jwkOf(p256, { kid: 'b' }), jwkOf(ed));

	it('is the one that its kid names', () => {
		assert.deepEqual([...(pair.candidates('RS256', 'a') as [])].length, 1);
		assert.equal(reasonOf(pair.candidates('RS256', 'b')), 'alg');
		assert.equal(reasonOf(pair.candidates('RS256', 'c')), 'unknown kid');
		assert.equal(reasonOf(pair.candidates('RS256', '__proto__')), 'unknown kid');
		assert.equal(reasonOf(pair.candidates('EdDSA', '')), 'unknown kid', 'a key without a name is not named ""');
		for (const kid of [1, null, ['a'], {}]) assert.equal(reasonOf(pair.candidates('RS256', kid)), 'bad kid');
	});

	it('is any matching key if the token has no kid, up to a bound', () => {
		assert.equal((pair.candidates('EdDSA', undefined) as []).length, 1);
		assert.equal(reasonOf(pair.candidates('PS512', undefined)), 'found');
		assert.equal(reasonOf(pair.candidates('ES384', undefined)), 'alg');
		const many = (count: number) => set(...Array.from({ length: count }, (_, i) => jwkOf(rsa, { kid: `${i}` })));
		assert.equal((many(MAX_TRIES).candidates('RS256', undefined) as []).length, MAX_TRIES);
		assert.match(reasonOf(many(MAX_TRIES + 1).candidates('RS256', undefined))!, /too many keys/);
		assert.equal(reasonOf(many(MAX_TRIES + 1).candidates('RS256', '3')), 'found');
	});

	it('of a PEM file is tried whatever the token calls it', () => {
		const pem = rsa.publicKey.export({ type: 'spki', format: 'pem' }) as string;
		const keys = new KeySet(readKeySet(pem, RS256).seed);
		for (const kid of [undefined, 'a', 1, null]) assert.equal(reasonOf(keys.candidates('RS256', kid)), 'found');
		assert.equal(reasonOf(keys.candidates('PS256', undefined)), 'alg');
	});
});
