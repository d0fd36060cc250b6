import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { SignJWT } from 'jose';
import { type Claims, isExpired } from '../../../packages/gate/src/gates/jwt.ts';
import { readPublicKey } from '../../../packages/gate/src/gates/public-key.ts';
import { Rejection, TOKEN_INVALID } from '../../../packages/gate/src/gates/rejection.ts';
import { createTokenKey, mintToken, signToken, type TokenClaims } from '../../../packages/proxy/src/cli/demo/tokens.ts';
import { assertRefusal } from '../../fixtures/refusal.ts';
import { type TokenPolicy, verifyByJose, verifyToken } from '../../fixtures/token-policy.ts';

const NOW = 1_800_000_000;
const ISSUER = 'https://issuer.test';
const AUDIENCE = 'edge';

const key = createTokenKey();
const strangersKey = createTokenKey();
const publicKey = readPublicKey(key.publicKeyPem);
const policy: TokenPolicy = { publicKey, issuer: ISSUER, audience: AUDIENCE };
const lax: TokenPolicy = { publicKey, issuer: undefined, audience: undefined };
const good = { sub: 'tenant-a', iss: ISSUER, aud: AUDIENCE, exp: NOW + 3600 };
const goodToken = mintToken(key, good);

function accepts(token: string, under: TokenPolicy = policy, now = NOW): Claims {
	const claims = verifyToken(token, under, now);
	assert.ok(!(claims instanceof Rejection), `refused: ${token.slice(0, 300)}`);
	return claims;
}

function refuses(token: string, under: TokenPolicy = policy, now = NOW): void {
	assertRefusal(verifyToken(token, under, now), TOKEN_INVALID, token.slice(0, 300));
}

/** The good claims with some replaced; `undefined` leaves one out. */
const withClaims = (claims: TokenClaims) => mintToken(key, { ...good, ...claims });
/** A payload given as text, for what `JSON.stringify` cannot say. */
const withPayload = (payload: string) => signToken(key, '{"alg":"RS256"}', payload);

describe('the JWT gate', () => {
	it('accepts a token signed by jose, and returns its claims', async () => {
		const token = await new SignJWT({ ...good, scope: 'read write', team: ['x'] })
			.setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid: '2026-01' })
			.sign(key.privateKey);
		const claims = accepts(token);
		assert.deepEqual([claims.sub, claims.scope, claims.exp], ['tenant-a', 'read write', NOW + 3600]);
		assert.deepEqual(claims.payload, { ...good, scope: 'read write', team: ['x'] });
	});

	it('returns the empty string for a scope that is absent or not a string', () => {
		for (const scope of [undefined, null, 1, ['read'], { a: 1 }])
			assert.equal(accepts(withClaims({ scope })).scope, '');
	});

	it('refuses a token signed by another key', () => {
		refuses(mintToken(strangersKey, good));
	});

	it('reads claims by their exact names only', () => {
		const claims = { edition: 1, 'http://x.test/role': 'user', ...good };
		const spelled = JSON.stringify(claims).replaceAll('/', '\\/');
		// A header is read before the signature is checked.
		refuses(
			signToken(strangersKey, spelled.replace('"http:\\/\\/x.test\\/role"', '"http:\\\\/\\\\/x.test\\\\/r"'), '{}'),
		);
		assert.deepEqual(accepts(withPayload(spelled)).payload, claims);
	});

	it('ignores cty and kid', () => {
		for (const header of [{ cty: 'x' }, { kid: 'k1' }]) {
			accepts(mintToken(key, good, header));
		}
	});
});

describe('the algorithm of a token', () => {
	const header = (alg: unknown) => JSON.stringify({ alg, typ: 'JWT' });

	it('is never "none"', () => {
		const [, payload] = goodToken.split('.');
		for (const alg of ['none', 'None', 'NONE', '']) {
			const encoded = Buffer.from(header(alg)).toString('base64url');
			for (const signature of ['', 'AA', goodToken.split('.')[2]]) refuses(`${encoded}.${payload}.${signature}`);
			refuses(signToken(key, header(alg), JSON.stringify(good)));
		}
	});

	it('is not HS256 with any form of the public key as the secret', async () => {
		const forms = [
			key.publicKeyPem,
			key.publicKeyPem.trim(),
			publicKey.export({ type: 'pkcs1', format: 'pem' }),
			publicKey.export({ type: 'spki', format: 'der' }),
			publicKey.export({ type: 'pkcs1', format: 'der' }),
		];
		for (const form of forms) {
			for (const alg of ['HS256', 'HS384', 'HS512']) {
				refuses(await new SignJWT(good).setProtectedHeader({ alg }).sign(Buffer.from(form)));
			}
		}
	});

	it('is not another one, even if the key could have made the signature', async () => {
		const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
		const ed = generateKeyPairSync('ed25519').privateKey;
		const signers: [string, KeyObject][] = [
			...['RS384', 'RS512', 'PS256', 'PS384', 'PS512'].map((alg): [string, KeyObject] => [alg, key.privateKey]),
			['ES256', ec],
			['EdDSA', ed],
		];
		for (const [alg, signer] of signers) {
			refuses(await new SignJWT(good).setProtectedHeader({ alg }).sign(signer));
			refuses(signToken(key, header(alg), JSON.stringify(good)));
		}
	});

	it('is not another one under the name RS256', () => {
		const signed = goodToken.slice(0, goodToken.lastIndexOf('.'));
		const { privateKey } = key;
		for (const hash of ['sha1', 'sha384', 'sha512']) {
			refuses(`${signed}.${sign(hash, Buffer.from(signed), privateKey).toString('base64url')}`);
		}
		const pss = sign('sha256', Buffer.from(signed), { key: privateKey, padding: 6 /* RSA_PKCS1_PSS_PADDING */ });
		refuses(`${signed}.${pss.toString('base64url')}`);
	});

	it('is the string "RS256" and nothing that resembles it', () => {
		for (const alg of [
			'rs256',
			'Rs256',
			' RS256',
			'RS256 ',
			'RS256\0',
			['RS256'],
			{ RS256: 1 },
			256,
			null,
			true,
			undefined,
		]) {
			refuses(signToken(key, header(alg), JSON.stringify(good)));
		}
		refuses(signToken(key, '{"__proto__":{"alg":"RS256"}}', JSON.stringify(good)));
	});
});

describe('the protected header', () => {
	const protectedBy = (text: string) => signToken(key, text, JSON.stringify(good));

	it('must not ask for extensions', () => {
		for (const crit of ['["exp"]', '["b64"]', '[]', 'null', '""', '{}', '["kid"]']) {
			refuses(protectedBy(`{"alg":"RS256","crit":${crit},"b64":true,"exp":1}`));
			refuses(protectedBy(`{"alg":"RS256","kid":"1","cr\\u0069t":${crit}}`));
		}
	});

	it('must not declare the payload unencoded (RFC 7797 section 7)', () => {
		const payload = JSON.stringify(good);
		for (const text of ['{"alg":"RS256","b64":false,"crit":["b64"]}', '{"alg":"RS256","b64":false}']) {
			refuses(signToken(key, text, payload));
			const encoded = Buffer.from(text).toString('base64url');
			const raw = sign('sha256', Buffer.from(`${encoded}.${payload}`), key.privateKey).toString('base64url');
			refuses(`${encoded}.${payload}.${raw}`);
			refuses(`${encoded}.${Buffer.from(payload).toString('base64url')}.${raw}`);
		}
	});

	it('cannot provide or reference the key', async () => {
		const jwk = createPublicKey(strangersKey.publicKeyPem).export({ format: 'jwk' });
		for (const header of [
			{ jwk },
			{ jku: 'https://evil.test/jwks.json' },
			{ x5u: 'https://evil.test/cert.pem' },
			{ x5c: ['AAAA'] },
			{ kid: '../../../../dev/null' },
			{ kid: "' OR 1=1 --" },
		]) {
			refuses(mintToken(strangersKey, good, header));
		}
		// An empty file as the key would make HMAC secrets out of nothing.
		refuses(await new SignJWT(good).setProtectedHeader({ alg: 'HS256', kid: '/dev/null' }).sign(new Uint8Array(32)));
	});

	it('is one JSON object in UTF-8 with each member once', () => {
		for (const text of [
			'',
			'null',
			'"RS256"',
			'["RS256"]',
			'{"alg":"RS256"',
			'{"alg":"RS256"} x',
			'{"alg":"none","alg":"RS256"}',
			'{"alg":"RS256","alg":"RS256"}',
			'{"alg":"RS256","\\u0061lg":"none"}',
			'\ufeff{"alg":"RS256"}',
			"{'alg':'RS256'}",
		]) {
			refuses(protectedBy(text));
		}
		const invalid = Buffer.from('{"alg":"RS256","x":"?"}');
		invalid[invalid.indexOf('?')] = 0xff;
		refuses(signBytes(invalid, Buffer.from(JSON.stringify(good))));
	});
});

describe('the compact form', () => {
	const [header = '', payload = '', signature = ''] = goodToken.split('.');

	it('has three segments, none of them empty', () => {
		for (const token of [
			'',
			'.',
			'..',
			'...',
			header,
			`${header}.${payload}`,
			`${header}.${payload}.`,
			`${header}..${signature}`,
			`.${payload}.${signature}`,
			`${goodToken}.`,
			`${goodToken}.x`,
			`${goodToken}.${signature}.${signature}`,
			`.${goodToken}`,
			`${header}.${payload}..${signature}`,
		]) {
			refuses(token);
		}
	});

	it('has no padding and no white space anywhere', () => {
		for (const stray of ['=', '==', ' ', '\t', '\n', '\r\n', '%3D']) {
			for (const segments of [
				[header + stray, payload, signature],
				[header, payload + stray, signature],
				[header, payload, signature + stray],
				[stray + header, payload, signature],
				[header, stray + payload, signature],
				[header, payload, stray + signature],
				[header, payload, signature.slice(0, 9) + stray + signature.slice(9)],
			]) {
				refuses(segments.join('.'));
			}
		}
		// Signed as it stands, so that only the strict reading of the payload is left to refuse it.
		for (const stray of ['=', '\n', ' ', '!']) refuses(signSegments(header, payload + stray));
		for (const stray of ['=', '\n', ' ', '!']) refuses(signSegments(header + stray, payload));
	});

	it('is in the URL-safe alphabet', () => {
		const text = JSON.stringify({ ...good, x: '???>>>~~~' });
		const standard = Buffer.from(text).toString('base64').replaceAll('=', '');
		assert.match(standard, /[+/]/);
		refuses(signSegments(header, standard));
		accepts(signSegments(header, Buffer.from(text).toString('base64url')));
	});

	it('has one spelling for the signature: the unused bits of its last character are zero', () => {
		const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
		const passed = [...alphabet].filter(
			(last) => !(verifyToken(`${goodToken.slice(0, -1)}${last}`, policy, NOW) instanceof Rejection),
		);
		assert.deepEqual(passed, [signature.at(-1)]);
	});

	it('has one spelling for header and payload, too, even when the other one is what was signed', () => {
		const nextInAlphabet = (char: string) => (char === 'A' ? 'B' : char === 'Q' ? 'R' : char === 'g' ? 'h' : 'x');
		for (const pad of ['', 'p', 'pp']) {
			const encodedHeader = Buffer.from(JSON.stringify({ alg: 'RS256', pad })).toString('base64url');
			const encodedPayload = Buffer.from(JSON.stringify({ ...good, pad })).toString('base64url');
			accepts(signSegments(encodedHeader, encodedPayload));
			for (const [at, encoded] of [encodedHeader, encodedPayload].entries()) {
				if (encoded.length % 4 === 0) continue;
				const twin = encoded.slice(0, -1) + nextInAlphabet(encoded.at(-1)!);
				refuses(at === 0 ? signSegments(twin, encodedPayload) : signSegments(encodedHeader, twin));
			}
		}
	});

	it('has no character that is in the alphabet only without its high byte', () => {
		for (let at = 0; at < goodToken.length; at += 7) {
			const twin = String.fromCharCode(goodToken.charCodeAt(at) + 0x100);
			refuses(goodToken.slice(0, at) + twin + goodToken.slice(at + 1));
		}
	});

	it('carries a signature of exactly the length of the key', () => {
		const bytes = Buffer.from(signature, 'base64url');
		for (const other of [
			bytes.subarray(1),
			bytes.subarray(0, -1),
			Buffer.concat([Buffer.alloc(1), bytes]),
			Buffer.concat([bytes, Buffer.alloc(1)]),
			Buffer.alloc(256),
			Buffer.alloc(256, 0xff),
			Buffer.from([1]),
		]) {
			refuses(`${header}.${payload}.${other.toString('base64url')}`);
		}
	});
});

describe('exp and nbf', () => {
	it('require exp, a finite number', () => {
		refuses(withClaims({ exp: undefined }));
		for (const exp of [null, `${NOW + 60}`, '', true, [NOW + 60], { value: NOW + 60 }, -1, 0])
			refuses(withClaims({ exp }));
		for (const exp of ['1e400', '-1e400', '-1', '1e-400', 'NaN', 'Infinity', '0x7fffffff', '09999999999']) {
			refuses(withPayload(`{"sub":"a","exp":${exp}}`), lax);
		}
		for (const exp of ['1.8e9', '1800000000.5', '9e300']) accepts(withPayload(`{"sub":"a","exp":${exp}}`), lax);
	});

	it('accept a missing nbf, but require a finite number', () => {
		accepts(withClaims({ nbf: undefined }));
		accepts(withClaims({ nbf: NOW - 10 }));
		for (const nbf of [null, `${NOW - 60}`, '', true, false, [NOW - 60], {}]) refuses(withClaims({ nbf }));
		for (const nbf of ['1e400', '-1e400', '-1', 'NaN', '9e300']) {
			refuses(withPayload(`{"sub":"a","exp":9e9,"nbf":${nbf}}`), lax);
		}
	});

	it('end the leeway at the same second as jose', async () => {
		for (const delta of [59, 60, 61]) {
			for (const token of [withClaims({ exp: NOW - delta }), withClaims({ nbf: NOW + delta })]) {
				assert.equal(
					!(verifyToken(token, policy, NOW) instanceof Rejection),
					(await verifyByJose(token, policy, NOW)) !== undefined,
				);
			}
		}
	});

	it('do not round the time', () => {
		accepts(withClaims({ exp: NOW }), policy, NOW + 59.999);
		refuses(withClaims({ exp: NOW }), policy, NOW + 60.001);
		refuses(withClaims({ nbf: NOW }), policy, NOW - 60.001);
		accepts(withClaims({ nbf: NOW }), policy, NOW - 59.999);
		assert.equal(isExpired(NOW, NOW + 59.999), false);
		assert.equal(isExpired(NOW, NOW + 60), true);
	});
});

describe('iss and aud', () => {
	const policyFor = (issuer: string | undefined, audience: string | undefined) => ({ publicKey, issuer, audience });

	it('require exactly the issuer that is configured', () => {
		for (const iss of [undefined, null, '', 'https://issuer.test/', 'HTTPS://ISSUER.TEST', [ISSUER], { a: 1 }, 1]) {
			refuses(withClaims({ iss }));
		}
	});

	it('do not look at iss when none is configured', () => {
		for (const iss of [undefined, null, 'anyone', 1]) accepts(withClaims({ iss }), policyFor(undefined, AUDIENCE));
	});

	it('take aud as a string or as an array of strings', () => {
		for (const aud of [AUDIENCE, [AUDIENCE], ['other', AUDIENCE]]) accepts(withClaims({ aud }));
		for (const aud of [
			undefined,
			null,
			'',
			'Edge',
			'edge ',
			'edg',
			[],
			['other'],
			[[AUDIENCE]],
			1,
			true,
			{ edge: 1 },
		]) {
			refuses(withClaims({ aud }));
		}
		for (const aud of [
			[AUDIENCE, 1],
			[null, AUDIENCE],
			[AUDIENCE, [AUDIENCE]],
		])
			refuses(withClaims({ aud }));
	});

	it('refuse any aud at all when none is configured', () => {
		accepts(withClaims({ aud: undefined }), policyFor(ISSUER, undefined));
		for (const aud of [AUDIENCE, '', null, [], [''], 0, false, {}]) {
			refuses(withClaims({ aud }), policyFor(ISSUER, undefined));
		}
	});

	it('are read from the payload and from nowhere else', () => {
		refuses(mintToken(key, { ...good, iss: undefined }, { iss: ISSUER }));
		refuses(mintToken(key, { ...good, sub: undefined }, { sub: 'tenant-a' }));
		refuses(withPayload(`{"__proto__":${JSON.stringify(good)}}`));
	});
});

describe('sub', () => {
	it('is a non-empty string', () => {
		for (const sub of [undefined, null, '', [], ['a'], {}, { toString: 'a' }, 0, 42, true, false])
			refuses(withClaims({ sub }));
	});

	it('is at most 256 characters long', () => {
		assert.equal(accepts(withClaims({ sub: 'x'.repeat(256) })).sub.length, 256);
		refuses(withClaims({ sub: 'x'.repeat(257) }));
	});

	it('has no space at either end, and may have some between', () => {
		for (const sub of ['a b', 'a  b', 'a']) assert.equal(accepts(withClaims({ sub })).sub, sub);
		for (const sub of [' ', ' a', 'a ', ' a ', '  ']) refuses(withClaims({ sub }));
	});

	it('is visible ASCII: every single character from NUL to U+017F is tried at each place, and some beyond', () => {
		for (const code of [...Array(0x180).keys(), 0x2028, 0xd800, 0x1_f600]) {
			const char = String.fromCodePoint(code);
			const visible = code > 0x20 && code < 0x7f;
			const check = (sub: string, good: boolean) =>
				good ? accepts(withClaims({ sub })) : refuses(withClaims({ sub }));
			// A signature takes most of a millisecond; outside ASCII one place has to do.
			if (code <= 0x80) check(`${char}a`, visible);
			if (code <= 0x80) check(`a${char}`, visible);
			check(`a${char}a`, visible || char === ' ');
		}
	});
});

describe('the payload', () => {
	it('has each claim once, in whatever spelling', () => {
		for (const claim of ['"sub":"b"', '"s\\u0075b":"tenant-a"', '"exp":9e9', '"\\u0065xp":1', '"x":{"y":1,"y":2}']) {
			refuses(withPayload(`{"sub":"tenant-a","exp":9e9,${claim}}`), lax);
			refuses(withPayload(`{${claim},"sub":"tenant-a","exp":9e9}`), lax);
		}
		accepts(withPayload('{"sub":"tenant-a","exp":9e9,"x":{"sub":"b","exp":1},"y":["sub"]}'), lax);
	});

	it('is one JSON object in UTF-8', () => {
		const text = '{"sub":"tenant-a","exp":9e9}';
		accepts(withPayload(text), lax);
		for (const bad of [
			`\ufeff${text}`,
			`${text}{}`,
			`[${text}]`,
			`"${'x'.repeat(9)}"`,
			'null',
			'1',
			`${text},`,
			`${text}\0`,
		]) {
			refuses(withPayload(bad), lax);
		}
		const invalid = Buffer.from('{"sub":"tenant-a","exp":9e9,"x":"?"}');
		for (const byte of [0xff, 0xc0, 0x80]) {
			invalid[invalid.length - 3] = byte;
			refuses(signBytes(Buffer.from('{"alg":"RS256"}'), invalid), lax);
		}
	});

	it('may have names of object members, which mean nothing', () => {
		const claims = accepts(withPayload('{"sub":"a","exp":9e9,"__proto__":{"scope":"admin"},"constructor":1}'), lax);
		assert.equal(claims.scope, '');
		assert.equal(({} as Record<string, unknown>).scope, undefined);
	});
});

describe('what we accept, jose accepts', () => {
	it('holds for mutated tokens, of which we accept none but the token itself', async () => {
		const tokens = [goodToken, mintToken(key, { ...good, scope: 'read', n: 1.5 }, { kid: 'abc' })];
		const edit = fc.record({
			at: fc.nat(goodToken.length + 40),
			remove: fc.nat(3),
			insert: fc.oneof(
				fc.string({ unit: fc.constantFrom(...'AQgwBRhx01-_=.+/ \n\u0141'), maxLength: 3 }),
				fc.string({ maxLength: 2 }),
			),
		});
		let accepted = 0;
		await fc.assert(
			fc.asyncProperty(fc.constantFrom(...tokens), fc.array(edit, { maxLength: 2 }), async (token, edits) => {
				const mutant = edits.reduce(
					(text, { at, remove, insert }) => text.slice(0, at) + insert + text.slice(at + remove),
					token,
				);
				if (verifyToken(mutant, policy, NOW) instanceof Rejection) {
					assert.ok(!tokens.includes(mutant), 'a good token is refused');
					return;
				}
				accepted++;
				assert.ok(tokens.includes(mutant), `accepted a mutant: ${mutant}`);
				assert.ok(await verifyByJose(mutant, policy, NOW), mutant);
			}),
			{ numRuns: 3000 },
		);
		assert.ok(accepted > 0);
	});

	it('holds for every single flipped bit of a token', () => {
		const bytes = Buffer.from(goodToken, 'latin1');
		for (let at = 0; at < bytes.length; at++) {
			for (let bit = 0; bit < 8; bit++) {
				bytes[at]! ^= 1 << bit;
				refuses(bytes.toString('latin1'));
				bytes[at]! ^= 1 << bit;
			}
		}
		accepts(bytes.toString('latin1'));
	});

	it('holds for claims of any shape, and we accept exactly those that the model accepts', async () => {
		const date = fc.oneof(
			fc.integer({ min: NOW - 63, max: NOW + 63 }),
			fc.constantFrom(null, undefined, '1', -1, 0, 1e15, [NOW], true, {}),
		);
		const audiences = fc.constantFrom(AUDIENCE, 'other', '', 1, null);
		const claims = fc.record({
			exp: fc.oneof({ weight: 3, arbitrary: fc.constant(NOW + 10) }, date),
			nbf: fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, date),
			iss: fc.constantFrom(ISSUER, ISSUER, 'other', undefined, null, [ISSUER], 1),
			aud: fc.oneof(fc.constant(AUDIENCE), audiences, fc.array(audiences, { maxLength: 3 }), fc.constant(undefined)),
			sub: fc.oneof(
				{ weight: 3, arbitrary: fc.constant('tenant') },
				fc.string({ maxLength: 3 }),
				fc.constantFrom(undefined, null, 1, ['a'], {}, 'x'.repeat(256), 'x'.repeat(257)),
			),
		});
		const policies = fc.constantFrom<TokenPolicy>(
			policy,
			lax,
			{ ...policy, audience: undefined },
			{ ...policy, issuer: undefined },
		);
		let accepted = 0;
		await fc.assert(
			fc.asyncProperty(claims, policies, async (chosen, under) => {
				const token = mintToken(key, chosen);
				const verdict = verifyToken(token, under, NOW);
				assert.equal(!(verdict instanceof Rejection), byTheDecisions(chosen, under));
				if (verdict instanceof Rejection) return;
				accepted++;
				const oracle = await verifyByJose(token, under, NOW);
				assert.ok(oracle, token);
				assert.deepEqual(verdict.payload, oracle);
				assert.equal(verdict.sub, oracle.sub);
			}),
			{ numRuns: 1000 },
		);
		assert.ok(accepted > 20, `the generator is too wild: ${accepted} accepted`);
	});
});

/** A model of the rules on claims, read straight down. */
function byTheDecisions(claims: Record<string, unknown>, { issuer, audience }: TokenPolicy): boolean {
	const { exp, nbf, iss, aud, sub } = claims;
	if (typeof exp !== 'number' || exp + 60 <= NOW) return false;
	if (nbf !== undefined && (typeof nbf !== 'number' || nbf < 0 || nbf - 60 > NOW)) return false;
	if (issuer !== undefined && iss !== issuer) return false;
	const audiences: unknown[] = Array.isArray(aud) ? aud : [aud];
	if (audience === undefined && aud !== undefined) return false;
	if (audience !== undefined) {
		if (audiences.some((one) => typeof one !== 'string')) return false;
		if (!audiences.includes(audience)) return false;
	}
	if (typeof sub !== 'string' || sub.length < 1 || sub.length > 256) return false;
	if (sub.startsWith(' ') || sub.endsWith(' ')) return false;
	return [...sub].every((char) => char >= ' ' && char <= '~');
}

/** Signs two segments as they stand, however they are spelled. */
function signSegments(encodedHeader: string, encodedPayload: string): string {
	const signed = `${encodedHeader}.${encodedPayload}`;
	return `${signed}.${sign('sha256', Buffer.from(signed, 'latin1'), key.privateKey).toString('base64url')}`;
}

function signBytes(header: Buffer, payload: Buffer): string {
	return signSegments(header.toString('base64url'), payload.toString('base64url'));
}
