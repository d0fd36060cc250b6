import assert from 'node:assert/strict';
import { constants, sign as signOctets } from 'node:crypto';
import { describe, it } from 'node:test';
import { compactVerify, type JWTPayload } from 'jose';
import { ALGORITHMS, type Algorithm } from '../../../packages/gate/src/gates/algorithm.ts';
import { Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import type { VerifiedToken } from '../../../packages/gate/src/gates/token-cache.ts';
import type { IssuerSeed } from '../../../packages/gate/src/identity/issuer.ts';
import { Trust } from '../../../packages/gate/src/identity/trust.ts';
import { signToken } from '../../../packages/proxy/src/cli/demo/tokens.ts';
import { AUDIENCE, ISSUER, jwkOf, jwks, type KeyPair, keyFor, seedWith, sign } from '../../fixtures/issuer-keys.ts';

const NOW = 1_800_000_000;
const GOOD = { iss: ISSUER, aud: AUDIENCE, sub: 'alice', exp: NOW + 60 };
const pairs = new Map<string, KeyPair>(ALGORITHMS.map((algorithm) => [algorithm, keyFor(algorithm)]));
const rsa = pairs.get('RS256')!;
const other = pairs.get('RS384')!;
const tokenKey = { privateKey: rsa.privateKey, publicKeyPem: '' };

function accepted(trust: Trust, token: string, now = NOW): VerifiedToken {
	const verified = trust.verify(token, now);
	assert.ok(!(verified instanceof Rejection), `${(verified as Rejection).reason}`);
	return verified;
}

function refused(trust: Trust, token: string, reason: string): void {
	const verdict = trust.verify(token, NOW);
	assert.ok(verdict instanceof Rejection, 'it was accepted');
	assert.deepEqual([verdict.status, verdict.reason], [401, reason]);
}

const trustIn = (...issuers: IssuerSeed[]) => new Trust({ issuers });

describe('a token of every algorithm', () => {
	for (const algorithm of ALGORITHMS) {
		const pair = pairs.get(algorithm)!;

		it(`${algorithm}: a token signed by jose passes only if the issuer may use it`, async () => {
			const token = await sign(pair, GOOD, { alg: algorithm, kid: 'k' });
			const set = jwks(jwkOf(pair, { kid: 'k' }));
			accepted(trustIn(seedWith(set, { algorithms: ALGORITHMS })), token);
			accepted(trustIn(seedWith(set, { algorithms: [algorithm] })), token);
			const rest = ALGORITHMS.filter((one) => one !== algorithm);
			const fitting = seedWith(jwks(jwkOf(pair, { kid: 'k' })), { algorithms: ALGORITHMS });
			refused(trustIn({ ...fitting, algorithms: rest }), token, 'alg');
		});

		it(`${algorithm}: a signature that was changed, cut, lengthened or emptied does not pass`, async () => {
			const token = await sign(pair, GOOD, { alg: algorithm });
			const trust = trustIn(seedWith(jwks(jwkOf(pair)), { algorithms: [algorithm] }));
			const at = token.lastIndexOf('.') + 1;
			const signature = Buffer.from(token.slice(at), 'base64url');
			const flipped = Buffer.from(signature);
			flipped[5]! ^= 1;
			const forms = [
				flipped,
				signature.subarray(1),
				Buffer.concat([signature, Buffer.alloc(1)]),
				Buffer.alloc(signature.length),
			];
			for (const form of forms) refused(trust, token.slice(0, at) + form.toString('base64url'), 'signature');
		});
	}

	// Such a signature is one of 256, so they are made until there is one.
	for (const [algorithm, options] of Object.entries({
		RS256: { padding: constants.RSA_PKCS1_PADDING },
		PS256: { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 },
	})) {
		it(`${algorithm}: a signature that begins with a zero octet does not pass without it (RFC 8017 section 8)`, () => {
			const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
			const trust = trustIn(seedWith(jwks(jwkOf(rsa)), { algorithms: [algorithm as Algorithm] }));
			for (let jti = 0; ; jti++) {
				const signed = `${encode({ alg: algorithm })}.${encode({ ...GOOD, jti: `${jti}` })}`;
				const signature = signOctets('sha256', Buffer.from(signed), { key: rsa.privateKey, ...options });
				if (signature[0] !== 0) continue;
				accepted(trust, `${signed}.${signature.toString('base64url')}`);
				refused(trust, `${signed}.${signature.subarray(1).toString('base64url')}`, 'signature');
				const longer = Buffer.concat([Buffer.alloc(1), signature]);
				refused(trust, `${signed}.${longer.toString('base64url')}`, 'signature');
				return;
			}
		});
	}

	it('an ECDSA signature in DER form does not pass', async () => {
		const pair = pairs.get('ES256')!;
		const token = await sign(pair, GOOD, { alg: 'ES256' });
		const signed = token.slice(0, token.lastIndexOf('.'));
		const der = signOctets('sha256', Buffer.from(signed), pair.privateKey).toString('base64url');
		refused(trustIn(seedWith(jwks(jwkOf(pair)), { algorithms: ['ES256'] })), `${signed}.${der}`, 'signature');
	});

	it('an RSA-PSS signature with a salt of another length does not pass (RFC 7518 section 3.5)', async () => {
		const signed = (await sign(rsa, GOOD, { alg: 'PS256' })).split('.').slice(0, 2).join('.');
		const trust = trustIn(seedWith(jwks(jwkOf(rsa)), { algorithms: ['PS256'] }));
		for (const saltLength of [0, 20, 32]) {
			const options = { key: rsa.privateKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength };
			const token = `${signed}.${signOctets('sha256', Buffer.from(signed), options).toString('base64url')}`;
			if (saltLength === 32) accepted(trust, token);
			else refused(trust, token, 'signature');
		}
	});

	it('a key never verifies under the name of an algorithm that another key is for', async () => {
		const set = jwks(...ALGORITHMS.map((alg) => jwkOf(pairs.get(alg)!, { alg, kid: alg })));
		const trust = trustIn(seedWith(set, { algorithms: ALGORITHMS }));
		for (const alg of ALGORITHMS) {
			const token = await sign(pairs.get(alg)!, GOOD, { alg });
			accepted(trust, token);
			await compactVerify(token, pairs.get(alg)!.publicKey);
			for (const kid of ALGORITHMS) {
				if (kid === alg) continue;
				refused(trust, await sign(pairs.get(alg)!, GOOD, { alg, kid }), 'alg');
			}
		}
	});
});

describe('the issuer of a token', () => {
	const ours = seedWith(jwks(jwkOf(rsa, { kid: 'k' })), { tenantPrefix: 'a:' });
	const theirs = seedWith(jwks(jwkOf(other, { kid: 'k' })), { issuer: 'https://other.test', tenantPrefix: 'b:' });
	const trust = trustIn(ours, theirs);
	const theirToken = { ...GOOD, iss: 'https://other.test' };

	it('is chosen by iss before any key is tried: no issuer signs for another', async () => {
		assert.equal(accepted(trust, await sign(rsa, GOOD, { alg: 'RS256', kid: 'k' })).tenant, 'a:alice');
		assert.equal(accepted(trust, await sign(other, theirToken, { alg: 'RS256', kid: 'k' })).tenant, 'b:alice');
		refused(trust, await sign(other, GOOD, { alg: 'RS256', kid: 'k' }), 'signature');
		refused(trust, await sign(rsa, theirToken, { alg: 'RS256', kid: 'k' }), 'signature');
	});

	it('must be a configured one', async () => {
		for (const iss of ['https://third.test', `${ISSUER}/`, '', undefined]) {
			refused(trust, await sign(rsa, { ...GOOD, iss } as JWTPayload, { alg: 'RS256', kid: 'k' }), 'iss');
		}
		for (const payload of ['null', '[]', '"x"', '{', `{"__proto__":{"iss":"${ISSUER}"}}`]) {
			refused(trust, signToken(tokenKey, '{"alg":"RS256"}', payload), 'iss');
		}
		const twice = `{"iss":"${ISSUER}","sub":"x","exp":9e9,"aud":"edge","iss":"https://other.test"}`;
		refused(trust, signToken(tokenKey, '{"alg":"RS256"}', twice), 'duplicate member');
		const spelled = `{"\\u0069ss":"${ISSUER}","sub":"x","exp":9e9,"aud":"edge"}`;
		assert.equal(accepted(trust, signToken(tokenKey, '{"alg":"RS256"}', spelled)).tenant, 'a:x');
	});

	it('has separate rules: audiences, leeway, algorithms', async () => {
		const lenient = seedWith(jwks(jwkOf(other)), {
			issuer: 'https://other.test',
			audience: ['x', 'y'],
			leewaySeconds: 5,
		});
		const both = trustIn(ours, lenient);
		for (const aud of ['x', ['y'], ['z', 'x']])
			accepted(both, await sign(other, { ...theirToken, aud }, { alg: 'RS256' }));
		refused(both, await sign(other, theirToken, { alg: 'RS256' }), 'aud');
		const late = await sign(other, { ...theirToken, aud: 'x', exp: NOW - 6 }, { alg: 'RS256' });
		refused(both, late, 'expired 6 s ago');
		assert.equal(accepted(both, late, NOW - 2).leewaySeconds, 5);
		accepted(both, await sign(rsa, { ...GOOD, exp: NOW - 6 }, { alg: 'RS256' }));
	});

	it('without keys has all its tokens refused', async () => {
		refused(
			trustIn({ ...ours, keys: undefined, remote: true }),
			await sign(rsa, GOOD, { alg: 'RS256' }),
			'no keys of the issuer yet',
		);
	});
});

describe('an unknown key', () => {
	const remote = seedWith(jwks(jwkOf(rsa, { kid: 'k' })), { remote: true });
	const theirs = seedWith(jwks(jwkOf(other, { kid: 'k' })), { issuer: 'https://other.test' });

	for (const [count, issuers] of [
		['one issuer', [remote]],
		['several issuers', [remote, theirs]],
	] as const) {
		it(`is fetched if its issuer is configured with keys from the network (${count})`, async () => {
			const asked: string[] = [];
			const trust = new Trust({ issuers }, (issuer) => asked.push(issuer));
			const unknown = { alg: 'RS256', kid: 'new' };
			trust.verify(await sign(rsa, { ...GOOD, iss: 'https://other.test' }, unknown), NOW);
			trust.verify(await sign(rsa, { ...GOOD, iss: 'https://third.test' }, unknown), NOW);
			trust.verify(await sign(rsa, GOOD, { alg: 'PS256', kid: 'new' }), NOW);
			trust.verify(await sign(other, GOOD, { alg: 'RS256', kid: 'k' }), NOW);
			assert.deepEqual(asked, []);
			refused(trust, await sign(rsa, GOOD, unknown), 'unknown kid');
			assert.deepEqual(asked, [ISSUER]);
		});
	}
});

describe('an issuer without keys', () => {
	it('gets a request for keys from each of its tokens, with a kid or without', async () => {
		const asked: string[] = [];
		const trust = new Trust({ issuers: [{ ...seedWith(jwks(jwkOf(rsa))), keys: undefined, remote: true }] }, (name) =>
			asked.push(name),
		);
		for (const kid of [undefined, 'k'])
			refused(trust, await sign(rsa, GOOD, { alg: 'RS256', ...(kid && { kid }) }), 'no keys of the issuer yet');
		assert.deepEqual(asked, [ISSUER, ISSUER]);
	});
});

describe('a verdict that was reached before', () => {
	const set = jwks(jwkOf(rsa, { kid: 'k' }), jwkOf(other, { kid: 'o' }));
	const seed = seedWith(set, { algorithms: ['RS256', 'PS256'] });

	it('stays valid while its key and the rules of its issuer are unchanged', async () => {
		const verified = accepted(trustIn(seed), await sign(rsa, GOOD, { alg: 'RS256', kid: 'k' }));
		const holds = (...issuers: IssuerSeed[]) => trustIn(...issuers).stillVerifies(verified);
		assert.ok(holds(seed));
		assert.ok(holds(seedWith(set, { algorithms: ['RS256', 'PS256'], issuer: 'https://other.test' }), seed));
		assert.ok(
			holds(seedWith(jwks(jwkOf(rsa, { kid: 'k' })), { algorithms: ['RS256', 'PS256'] })),
			'another key has gone',
		);
		const changed: [what: string, IssuerSeed][] = [
			['its key has gone', seedWith(jwks(jwkOf(other, { kid: 'o' })), { algorithms: ['RS256', 'PS256'] })],
			['its key has another name', seedWith(jwks(jwkOf(rsa, { kid: 'z' })), { algorithms: ['RS256', 'PS256'] })],
			['its algorithm', seedWith(set, { algorithms: ['PS256'] })],
			['the keys have gone', { ...seed, keys: undefined }],
			['iss', { ...seed, issuer: 'https://other.test' }],
			['aud', { ...seed, audience: ['other'] }],
			['aud unset', { ...seed, audience: undefined }],
			['leeway', { ...seed, leewaySeconds: 1 }],
			['prefix', { ...seed, tenantPrefix: 'x' }],
			['tenant claim', { ...seed, tenantClaim: ['org'] }],
			['required claims', { ...seed, requiredClaims: [{ name: 'org', values: undefined }] }],
		];
		for (const [what, issuer] of changed) assert.equal(holds(issuer), false, what);
	});
});

describe('the tenant', () => {
	const set = jwks(jwkOf(rsa));
	const token = (claims: object) => sign(rsa, { ...GOOD, ...claims }, { alg: 'RS256' });

	it('is the named claim, or the one at the path of names, after the prefix', async () => {
		const org = trustIn(seedWith(set, { tenantClaim: ['org'], tenantPrefix: 'x/' }));
		assert.equal(accepted(org, await token({ org: 'acme' })).tenant, 'x/acme');
		const nested = trustIn(seedWith(set, { tenantClaim: ['https://x.test/org', 'id'] }));
		const { tenant, claims } = accepted(nested, await token({ 'https://x.test/org': { id: 'a 1' }, sub: 'zo\u00eb' }));
		assert.deepEqual([tenant, claims.tenant, claims.sub], ['a 1', 'a 1', 'zo\u00eb']);
		assert.equal(accepted(org, await token({ org: 'a', sub: undefined })).claims.sub, '');
	});

	it('must exist, and be safe in a header', async () => {
		const org = trustIn(seedWith(set, { tenantClaim: ['org', 'id'] }));
		for (const claims of [{}, { org: 'x' }, { org: null }, { org: ['id'] }, { org: {} }]) {
			refused(org, await token(claims), 'no tenant claim');
		}
		for (const id of ['', ' a', 'a\r\nx: y', 'zo\u00eb', 1, null, ['a'], {}, 'x'.repeat(257)]) {
			refused(org, await token({ org: { id } }), 'bad tenant claim');
		}
		const inherited = trustIn(seedWith(set, { tenantClaim: ['constructor', 'name'] }));
		refused(inherited, await token({}), 'no tenant claim');
	});
});

describe('required claims', () => {
	const rsaSet = jwks(jwkOf(rsa));
	const trust = trustIn(
		seedWith(rsaSet, {
			requiredClaims: [
				{ name: 'org', values: undefined },
				{ name: 'env', values: ['prod', 7, true] },
			],
		}),
	);
	const token = (claims: object) => sign(rsa, { ...GOOD, org: 'x', env: 'prod', ...claims }, { alg: 'RS256' });

	it('must exist, with one of the values if values are configured', async () => {
		for (const claims of [{}, { org: false }, { env: 7 }, { env: true }, { env: ['test', 'prod'] }]) {
			accepted(trust, await token(claims));
		}
		for (const org of [undefined, null]) refused(trust, await token({ org }), 'no required claim "org"');
		refused(trust, await token({ env: undefined }), 'no required claim "env"');
		for (const env of ['test', '7', 1, 'true', false, [], ['x'], { prod: 'prod' }, [['prod']]]) {
			refused(trust, await token({ env }), 'required claim "env" has another value');
		}
	});
});

describe('scopes', () => {
	const trust = trustIn(seedWith(jwks(jwkOf(rsa))));
	const scopesOf = async (claims: object) => {
		const { scopes } = accepted(trust, await sign(rsa, { ...GOOD, ...claims }, { alg: 'RS256' })).claims;
		return [...scopes];
	};

	it('are the words of scope and of scp', async () => {
		assert.deepEqual(await scopesOf({}), []);
		assert.deepEqual(await scopesOf({ scope: 'billing:read  billing:write ' }), ['billing:read', 'billing:write']);
		assert.deepEqual(await scopesOf({ scp: 'a b' }), ['a', 'b']);
		assert.deepEqual(await scopesOf({ scp: ['a', 'b', 1, null] }), []);
		assert.deepEqual(await scopesOf({ scope: 'a', scp: ['b'] }), ['a']);
		assert.deepEqual(await scopesOf({ scope: ['a'], scp: { b: 1 } }), ['a']);
	});

	it('are computed once for a token', async () => {
		const { claims } = accepted(trust, await sign(rsa, { ...GOOD, scope: 'a' }, { alg: 'RS256' }));
		assert.equal(claims.scopes, claims.scopes);
	});
});
