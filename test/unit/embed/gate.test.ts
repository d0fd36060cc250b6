import assert from 'node:assert/strict';
import {
	createHash,
	createPublicKey,
	createSecretKey,
	generateKeyPairSync,
	webcrypto,
	X509Certificate,
} from 'node:crypto';
import { describe, it } from 'node:test';
import { inspect } from 'node:util';
import fc from 'fast-check';
import { GateError, RefusedError, type Verdict } from '../../../packages/gate/src/embed/gate.ts';
import { refused } from '../../../packages/gate/src/embed/refusal.ts';
import { TOKEN_INVALID, TOKEN_MISSING } from '../../../packages/gate/src/gates/rejection.ts';
import { FakeClock } from '../../conformance/subject.ts';
import { testPki } from '../../fixtures/pki.ts';
import { bearer, TOKEN_KEY as key, newGate } from './new-gate.ts';

describe('a gate', () => {
	it('returns the whole payload, with sub and scope as strings', () => {
		const verdict = newGate().check(bearer({ scope: 7, tid: { plan: 'gold' } }));
		assert.ok(verdict.ok);
		const { exp, ...rest } = verdict.claims;
		assert.equal(typeof exp, 'number');
		assert.deepEqual(rest, { sub: 'tenant', scope: '', tid: { plan: 'gold' } });
	});

	it('gives every request with one token the same, frozen claims', () => {
		const gate = newGate();
		const token = bearer({ groups: ['user'] });
		const verdict = gate.check(token);
		assert.ok(verdict.ok);
		assert.throws(() => Object.assign(verdict.claims, { sub: 'root' }), TypeError);
		assert.throws(() => (verdict.claims.groups as string[]).push('admin'), TypeError);
		assert.equal(gate.check(token), verdict);
	});

	it('distinguishes a missing token from an invalid one only by the code', () => {
		const gate = newGate();
		const refusal = (authorization: Parameters<typeof gate.check>[0]) => {
			const verdict = gate.check(authorization);
			assert.ok(!verdict.ok);
			return verdict.refusal;
		};
		for (const missing of [undefined, null, []]) assert.equal(refusal(missing).code, 'token-missing');
		for (const invalid of ['', 'Bearer', ['a', 'b']]) assert.equal(refusal(invalid).code, 'token-invalid');
		assert.deepEqual({ ...refusal(undefined), code: 0 }, { ...refusal(''), code: 0 });
	});

	it('refuses anything that is not a header value, and never throws', () => {
		const value = bearer();
		const throwing = new Proxy([value], {
			get: () => {
				throw new Error('no');
			},
		});
		const revoked = Proxy.revocable([value], {});
		revoked.revoke();
		const getter = Object.defineProperty([value], 0, { get: () => assert.fail() });
		const odd: unknown[] = [
			...[Symbol('s'), () => value, { length: 1, 0: value }, new String(value), [[value]], [new String(value)]],
			...[new Array(1), new Array(2 ** 32 - 1), throwing, revoked.proxy, getter, Buffer.from(value)],
			...['\0', '\ud800', `Bearer ${'\ud800'.repeat(100)}`, `Bearer ${'['.repeat(8000)}`, 'x'.repeat(10_000_000)],
		];
		const gate = newGate();
		for (const authorization of odd) {
			const verdict = gate.check(authorization as string);
			assert.ok(!verdict.ok && verdict.refusal.code === 'token-invalid', typeof authorization);
		}
		assert.ok(gate.check(value).ok);
	});

	it('refuses every value except the token, and a list of one header with it', () => {
		const gate = newGate();
		const anything = fc.anything({
			withBigInt: true,
			withBoxedValues: true,
			withDate: true,
			withMap: true,
			withNullPrototype: true,
			withSparseArray: true,
			withTypedArray: true,
		});
		fc.assert(fc.property(anything, (value) => !gate.check(value as string).ok));
		fc.assert(
			fc.property(fc.array(fc.oneof(fc.string(), fc.constant(bearer()))), (values) => {
				return gate.check(values).ok === (values.length === 1 && values[0]!.length > 200);
			}),
		);
	});

	it('refuses everything while its clock returns no finite number, or throws', () => {
		const broken: unknown[] = [
			Number.NaN,
			Number.POSITIVE_INFINITY,
			Number.NEGATIVE_INFINITY,
			undefined,
			null,
			'1',
			1n,
		];
		const clock = new FakeClock();
		let wall: () => unknown = () => clock.wall;
		let ms: () => unknown = () => clock.ms;
		const gate = newGate({ tenantRps: 5, clock: { wallSeconds: () => wall() as number, now: () => ms() as number } });
		const tokens = [clock.wall + 60, clock.wall - 3600].map((exp) => bearer({ exp }));
		const code = (token = tokens[0]!) => {
			const verdict = gate.check(token);
			return verdict.ok ? 'admitted' : verdict.refusal.code;
		};
		const dies = () => {
			throw new Error('no clock');
		};
		for (const warm of [false, true]) {
			for (const nothing of [...broken.map((value) => () => value), dies]) {
				wall = nothing;
				for (const token of tokens) assert.equal(code(token), 'token-invalid', String(nothing));
				wall = () => clock.wall;
				ms = nothing;
				if (warm) assert.equal(code(), nothing === dies ? 'token-invalid' : 'rate-limited');
				ms = () => clock.ms;
			}
			assert.equal(code(), 'admitted');
			assert.equal(code(tokens[1]), 'token-invalid');
		}
	});

	it('reads the key in every form that keys of Node and of the web come in', async () => {
		const object = createPublicKey(key.publicKeyPem);
		const jwk = object.export({ format: 'jwk' });
		const der = object.export({ type: 'spki', format: 'der' });
		const rs256 = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
		for (const jwtPublicKey of [
			key.publicKeyPem,
			object.export({ type: 'pkcs1', format: 'pem' }) as string,
			object,
			Buffer.from(key.publicKeyPem),
			new TextEncoder().encode(key.publicKeyPem),
			der,
			new Uint8Array(der),
			jwk,
			{ ...jwk, alg: 'RS256', use: 'sig', key_ops: ['verify'], kid: '1' },
			await webcrypto.subtle.importKey('spki', der, rs256, true, ['verify']),
		]) {
			assert.ok(newGate({ jwtPublicKey }).check(bearer()).ok);
		}
	});
});

describe('a refusal', () => {
	it('has the reason of the failed check, which is not serialized', () => {
		const clock = { now: () => 0, wallSeconds: () => Number.NaN };
		const verdict = newGate({ clock }).check(bearer());
		assert.ok(!verdict.ok);
		const { refusal } = verdict;
		assert.equal(refusal.reason, 'the clock gives no finite number');
		assert.equal(JSON.stringify(refusal).includes('clock'), false);
		assert.ok(Object.isFrozen(refusal) && Object.isFrozen(refusal.headers) && Object.isFrozen(verdict));
	});

	it('a refusal with a reason gives the same response as without one', () => {
		for (const rejection of [TOKEN_MISSING, TOKEN_INVALID]) {
			const [plain, reasoned] = [refused(rejection), refused(rejection.because('expired 12 s ago'))];
			assert.deepEqual({ ...reasoned.refusal }, { ...plain.refusal });
			assert.deepEqual([plain.refusal.reason, reasoned.refusal.reason], [rejection.reason, 'expired 12 s ago']);
			// Kept, since there are two of them; reasons may be as many as requests.
			assert.equal(refused(rejection), plain);
		}
	});

	it('becomes an error with a status for frameworks, and without its reason', () => {
		const { refusal } = refused(TOKEN_INVALID.because('signature'));
		const error = new RefusedError(refusal);
		assert.equal(error.refusal, refusal);
		assert.deepEqual([error.status, error.statusCode, error.message, error.expose], [401, 401, 'unauthorized', true]);
		assert.deepEqual(error.headers, { 'www-authenticate': 'Bearer' });
		assert.equal(/signature|token-invalid/.test(inspect({ ...error }) + JSON.stringify(error)), false);
	});
});

describe('createGate', () => {
	it('says what was given instead of a key, and quotes none of it', async () => {
		const jwk = createPublicKey(key.publicKeyPem).export({ format: 'jwk' });
		const der = createPublicKey(key.publicKeyPem).export({ type: 'spki', format: 'der' });
		const rs256 = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
		const import_ = (hash: string, name = 'RSASSA-PKCS1-v1_5') =>
			webcrypto.subtle.importKey('spki', der, { name, hash }, true, name === 'RSA-OAEP' ? ['encrypt'] : ['verify']);
		const pair = await webcrypto.subtle.generateKey(
			{ name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256', modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]) },
			false,
			['sign', 'verify'],
		);
		const aes = await webcrypto.subtle.generateKey({ name: 'AES-GCM', length: 256 }, false, ['encrypt']);
		for (const [jwtPublicKey, message] of [
			[undefined, /is undefined; give PEM text/],
			[7, /is number; give PEM text/],
			[null, /is object; give PEM text/],
			[{}, /without "kty", so it is not a JWK/],
			[new URL('https://issuer.test/jwks'), /without "kty"/],
			[{ keys: [jwk] }, /is a JWK Set; give the single key/],
			[{ kty: 'EC', crv: 'P-256' }, /kty is not RSA.*; for other algorithms, give issuers: \[/],
			[
				generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey,
				/type ec; RS256 needs an RSA key; for other algorithms, give issuers: \[/,
			],
			[{ kty: 'oct', k: 'AAAA' }, /kty is not RSA/],
			[key.privateKey.export({ format: 'jwk' }), /is a private JWK/],
			[{ ...jwk, alg: 'RS512' }, /alg is not RS256/],
			[{ ...jwk, use: 'enc' }, /use is not sig/],
			[{ ...jwk, key_ops: ['encrypt'] }, /key_ops does not include verify/],
			[{ ...jwk, n: '*' }, /is a JWK that cannot be read|bits/],
			[{ ...jwk, e: 'Aw' }, /public exponent 3/],
			[key.privateKey, /contains a private key/],
			[createSecretKey(Buffer.alloc(32)), /contains a secret key/],
			[pair.privateKey, /contains a private key/],
			[await import_('SHA-512'), /CryptoKey for RSASSA-PKCS1-v1_5 SHA-512/],
			[await import_('SHA-256', 'RSA-PSS'), /CryptoKey for RSA-PSS SHA-256/],
			[await import_('SHA-256', 'RSA-OAEP'), /CryptoKey for RSA-OAEP SHA-256/],
			[aes, /CryptoKey for AES-GCM;/],
			[await webcrypto.subtle.importKey('spki', der, rs256, false, ['verify']), /not extractable/],
			[Buffer.from(''), /is empty/],
			[Buffer.from('{"keys":[]}'), /contains a JWK Set \(JSON\)/],
			[der.subarray(0, 40), /not a readable DER public key/],
			[key.privateKey.export({ type: 'pkcs8', format: 'der' }), /not a readable DER public key/],
			[new Proxy({}, { get: () => assert.fail('read') }), /read/],
		] as const) {
			assert.throws(
				() => newGate({ jwtPublicKey: jwtPublicKey as string }),
				(error) =>
					error instanceof GateError &&
					error.code === 'ERR_GATE_PUBLIC_KEY' &&
					error.message.startsWith('jwtPublicKey ') &&
					message.test(error.message) &&
					!error.message.includes(String(jwk.n).slice(0, 20)),
				String(message),
			);
		}
	});

	it('limits only tenants with their own rate where tenantRps is unset', () => {
		const clock = { now: () => 0, wallSeconds: () => Date.now() / 1000 };
		const free = newGate({ clock });
		for (let i = 0; i < 20; i++) assert.ok(free.check(bearer()).ok);
		const some = newGate({ clock, tenants: [{ name: 'slow', rps: 1 }] });
		const admitted = (sub: string) => [1, 2].map(() => some.check(bearer({ sub })).ok);
		assert.deepEqual(admitted('slow'), [true, false]);
		assert.deepEqual(admitted('other'), [true, true]);
	});
});

describe('what a gate needs to know about the caller', () => {
	const thumbprint = async () => {
		const { clients } = await testPki();
		const x509 = new X509Certificate(clients.valid.certPem);
		const x5t = createHash('sha256').update(x509.raw).digest('base64url');
		return { x509, other: new X509Certificate(clients.expired.certPem), bound: bearer({ cnf: { 'x5t#S256': x5t } }) };
	};
	const reasonOf = (verdict: Verdict) => (verdict.ok ? 'admitted' : verdict.refusal.reason);

	it('is the certificate, if the token is bound to one', async () => {
		const { x509, other, bound } = await thumbprint();
		const gate = newGate();
		for (const certificate of [x509, x509.raw, () => x509]) assert.ok(gate.check(bound, { certificate }).ok);
		for (const certificate of [other, other.raw, () => undefined, undefined]) {
			assert.equal(reasonOf(gate.check(bound, { certificate })), 'bound to another certificate');
		}
		assert.equal(reasonOf(gate.check(bound)), 'bound to another certificate');
		assert.match(reasonOf(gate.check(bound, { certificate: Buffer.from('none') }))!, /^could not be checked/);
	});

	it('is not needed if the token is not bound', () => {
		const gate = newGate();
		const certificate = () => assert.fail('asked');
		assert.ok(gate.check(bearer(), { certificate }).ok);
		assert.ok(!gate.check('Bearer x', { certificate }).ok);
	});

	it('is whether the token has all scopes that are needed', () => {
		const gate = newGate();
		const scopes = ['billing:read', 'billing:write'];
		for (const claims of [{ scope: 'x billing:write billing:read' }, { scp: scopes }]) {
			assert.ok(gate.check(bearer(claims), { scopes }).ok);
		}
		assert.ok(gate.check(bearer(), { scopes: [] }).ok);
		// A hole names no scope that a token could have.
		assert.ok(!gate.check(bearer(), { scopes: new Array(1) }).ok);
		// As in the proxy: `scp` counts where there is no `scope`.
		assert.ok(!gate.check(bearer({ scope: 'billing:read', scp: 'billing:write' }), { scopes }).ok);
		assert.ok(gate.check(bearer({ scope: scopes }), { scopes }).ok);
		const verdict = gate.check(bearer({ scope: 'billing:read' }), { scopes });
		assert.ok(!verdict.ok);
		const { code, status, headers, body, reason } = verdict.refusal;
		assert.deepEqual([code, status, body, reason], ['insufficient-scope', 403, 'insufficient scope', 'scope']);
		assert.equal(headers['www-authenticate'], 'Bearer error="insufficient_scope", scope="billing:read billing:write"');
	});
});
