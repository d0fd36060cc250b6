import assert from 'node:assert/strict';
import crypto, { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { before, describe, it } from 'node:test';
import { createTokenKey, mintToken, type TokenClaims, type TokenKey } from '../../../src/cli/demo/tokens.ts';
import { createGate, GateError, type GateOptions } from '../../../src/embed/gate.ts';
import { FakeClock } from '../../conformance/subject.ts';

let key: TokenKey;

before(() => {
	key = createTokenKey();
});

function options(overrides: Partial<GateOptions> = {}): GateOptions {
	return { jwtPublicKey: key.publicKeyPem, issuer: 'me', audience: 'you', tenantRps: 0, ...overrides };
}

function bearer(claims: TokenClaims = {}): string {
	const exp = Math.floor(Date.now() / 1000) + 60;
	return `Bearer ${mintToken(key, { iss: 'me', aud: 'you', sub: 'tenant', exp, ...claims })}`;
}

describe('a gate', () => {
	it('gives the whole payload, with sub and scope that are strings', () => {
		const verdict = createGate(options()).check(bearer({ scope: 7, tid: { plan: 'gold' } }));
		assert.ok(verdict.ok);
		const { exp, ...rest } = verdict.claims;
		assert.equal(typeof exp, 'number');
		assert.deepEqual(rest, { iss: 'me', aud: 'you', sub: 'tenant', scope: '', tid: { plan: 'gold' } });
	});

	it('gives every request with one token the same claims, which nobody can change', () => {
		const gate = createGate(options());
		const token = bearer({ groups: ['user'] });
		const verdict = gate.check(token);
		assert.ok(verdict.ok);
		assert.throws(() => Object.assign(verdict.claims, { sub: 'root' }), TypeError);
		assert.throws(() => (verdict.claims.groups as string[]).push('admin'), TypeError);
		assert.equal(gate.check(token), verdict);
	});

	it('tells a missing token from an invalid one in the code alone', () => {
		const gate = createGate(options());
		const refusal = (authorization: Parameters<typeof gate.check>[0]) => {
			const verdict = gate.check(authorization);
			assert.ok(!verdict.ok);
			return verdict.refusal;
		};
		for (const missing of [undefined, null, []]) assert.equal(refusal(missing).code, 'token-missing');
		for (const invalid of ['', 'Bearer', ['a', 'b']]) assert.equal(refusal(invalid).code, 'token-invalid');
		assert.deepEqual({ ...refusal(undefined), code: 0 }, { ...refusal(''), code: 0 });
	});

	it('takes a list of one header for that header, and a list of two for none that it can trust', () => {
		const gate = createGate(options());
		const value = bearer();
		assert.ok(gate.check([value]).ok);
		assert.ok(!gate.check([value, value]).ok);
	});

	it('refuses a token of a megabyte without looking into it', (t) => {
		const verify = t.mock.method(crypto, 'verify');
		syncBuiltinESMExports();
		t.after(syncBuiltinESMExports);
		assert.ok(!createGate(options()).check(`Bearer ${'x'.repeat(1_000_000)}`).ok);
		assert.equal(verify.mock.callCount(), 0);
	});

	it('verifies a token once in five minutes', (t) => {
		const verify = t.mock.method(crypto, 'verify');
		syncBuiltinESMExports();
		t.after(() => {
			t.mock.reset();
			syncBuiltinESMExports();
		});
		const clock = new FakeClock();
		const gate = createGate(options({ clock }));
		const token = bearer({ exp: clock.wall + 3600 });
		for (const [second, verified] of [
			[0, 1],
			[299, 1],
			[300, 2],
			[599, 2],
			[600, 3],
		] as const) {
			clock.wall = 1_800_000_000 + second;
			assert.ok(gate.check(token).ok);
			assert.equal(verify.mock.callCount(), verified, `after ${second} s`);
		}
	});

	it('reads the key as PKCS#1, as SPKI and as an object', () => {
		const object = createPublicKey(key.publicKeyPem);
		const pkcs1 = object.export({ type: 'pkcs1', format: 'pem' }) as string;
		for (const jwtPublicKey of [key.publicKeyPem, pkcs1, object]) {
			assert.ok(createGate(options({ jwtPublicKey })).check(bearer()).ok);
		}
	});
});

describe('createGate', () => {
	const refuses = (code: string, overrides: object) => {
		assert.throws(
			() => createGate(options(overrides)),
			(error) => error instanceof GateError && error.code === code,
		);
	};

	it('refuses keys that cannot verify RS256 safely', () => {
		const short = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey;
		const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey;
		const pss = generateKeyPairSync('rsa-pss', { modulusLength: 2048 }).publicKey;
		const pem = (one: KeyObject) => one.export({ type: 'spki', format: 'pem' });
		for (const jwtPublicKey of [short, pem(short), ec, pem(ec), pss, key.privateKey, '', 'text', undefined, 7]) {
			refuses('ERR_GATE_PUBLIC_KEY', { jwtPublicKey });
		}
	});

	it('never does without a check because a variable is not set: only null says so', () => {
		for (const nothing of [undefined, '', 7]) {
			refuses('ERR_GATE_ISSUER', { issuer: nothing });
			refuses('ERR_GATE_AUDIENCE', { audience: nothing });
		}
		assert.ok(createGate(options({ issuer: null, audience: null })).check(bearer({ aud: undefined })).ok);
	});

	it('refuses rates that are no whole number from 0 to 1,000,000', () => {
		for (const tenantRps of [-1, 0.5, 1_000_001, Number.NaN, '5', undefined])
			refuses('ERR_GATE_TENANT_RPS', { tenantRps });
	});
});
