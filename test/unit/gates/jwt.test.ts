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
const YEAR = 365 * 24 * 3600;
const ISSUER = 'https://issuer.test';
const AUDIENCE = 'edge';

const key = createTokenKey();
const strangersKey = createTokenKey();
const publicKey = readPublicKey(key.publicKeyPem);
const policy: TokenPolicy = { publicKey, issuer: ISSUER, audience: AUDIENCE };
const lax: TokenPolicy = { publicKey, issuer: undefined, audience: undefined };
const good = { sub: 'tenant-a', iss: ISSUER, aud: AUDIENCE, exp: NOW + 3600 };
const goodToken = mintToken(key, good);
const [header, payload, signature] = goodToken.split('.') as [string, string, string];

function accepts(token: string, under: TokenPolicy = policy, now = NOW): Claims {
	const claims = verifyToken(token, under, now);
	assert.ok(!(claims instanceof Rejection), `refused: ${token.slice(0, 300)}`);
	return claims;
}

function refuses(token: string, reason: string, under: TokenPolicy = policy, now = NOW): void {
	const refusal = verifyToken(token, under, now);
	assertRefusal(refusal, TOKEN_INVALID, token.slice(0, 300), reason);
	assert.deepEqual((refusal as Rejection).response, TOKEN_INVALID.response);
}

/** The good claims with some replaced; `undefined` leaves one out. */
const withClaims = (claims: TokenClaims) => mintToken(key, { ...good, ...claims });
/** The good claims, after a header with more or other members. */
const withHeader = (members: object) => withHeaderText(JSON.stringify({ alg: 'RS256', ...members }));
const withHeaderText = (text: string) => signToken(key, text, JSON.stringify(good));
/** A payload as text, for values that `JSON.stringify` cannot write. */
const withPayload = (text: string) => signToken(key, '{"alg":"RS256"}', text);

describe('a token', () => {
	it('signed by jose is accepted, and its claims are returned', async () => {
		const token = await new SignJWT({ ...good, scope: 'read write', team: ['x'] })
			.setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid: '2026-01', cty: 'x' })
			.sign(key.privateKey);
		const claims = accepts(token);
		assert.deepEqual([claims.sub, claims.scope, claims.exp], ['tenant-a', 'read write', NOW + 3600]);
		assert.deepEqual(claims.payload, { ...good, scope: 'read write', team: ['x'] });
	});

	it('has an empty scope if the claim is absent or not a string', () => {
		for (const scope of [undefined, null, 1, ['read'], { a: 1 }])
			assert.equal(accepts(withClaims({ scope })).scope, '');
	});
});

/** Operators search their logs for these reasons: each check has its own, and it stays the same. */
const REASONS: readonly [reason: string, what: string, token: string][] = [
	['malformed', 'not a token', 'x'],
	['malformed', 'an empty token', ''],
	['malformed', 'two segments', `${header}.${payload}`],
	['malformed', 'four segments', `${goodToken}.x`],
	['malformed', 'an empty fourth segment', `${goodToken}.`],
	['malformed', 'an empty signature', `${header}.${payload}.`],
	['malformed', 'an empty payload', signSegments(header, '')],
	['malformed', 'an empty header', signSegments('', payload)],
	['malformed', 'padding behind the signature', `${goodToken}==`],
	['malformed', 'a header that is an array', withHeaderText('[{"alg":"RS256"}]')],
	['malformed', 'a header with text behind it', withHeaderText('{"alg":"RS256"} x')],
	['malformed', 'a header behind a byte order mark', withHeaderText('\ufeff{"alg":"RS256"}')],
	['malformed', 'a header that is not UTF-8', signBytes(withByte('{"alg":"RS256","x":"?"}'), Buffer.from('{}'))],
	['malformed', 'a payload that ends early', withPayload('{')],
	['malformed', 'a payload that is null', withPayload('null')],
	['malformed', 'a payload with NUL behind it', withPayload(`${JSON.stringify(good)}\0`)],
	['malformed', 'a payload that is not UTF-8', signBytes(Buffer.from('{"alg":"RS256"}'), withByte('{"x":"?"}'))],
	['duplicate member', 'two alg', withHeaderText('{"alg":"none","alg":"RS256"}')],
	['duplicate member', 'two alg, one escaped', withHeaderText('{"alg":"RS256","\\u0061lg":"none"}')],
	['duplicate member', 'two sub, one escaped', withPayload('{"sub":"a","s\\u0075b":"a","exp":9e9}')],
	['duplicate member', 'two members of a claim', withPayload('{"sub":"a","exp":9e9,"x":{"y":1,"y":2}}')],
	['alg', 'alg only in __proto__', withHeaderText('{"__proto__":{"alg":"RS256"}}')],
	...['["exp"]', '["b64"]', '[]', 'null'].map((crit): [string, string, string] => {
		return ['crit', `crit ${crit}`, withHeaderText(`{"alg":"RS256","cr\\u0069t":${crit},"b64":true,"exp":1}`)];
	}),
	['crit', 'an unencoded payload (RFC 7797 section 7)', withHeader({ b64: false })],
	['signature', 'another key', mintToken(strangersKey, good)],
	['signature', 'expired claims with the signature of others', forged({ ...good, exp: 1 })],
	['no exp', 'no exp', withClaims({ exp: undefined })],
	['bad exp', 'exp is infinite', withPayload('{"sub":"a","exp":1e400}')],
	['expired over a year ago', 'exp is as low as possible', withPayload('{"sub":"a","exp":-1e300}')],
	['bad nbf', 'nbf is infinite', withPayload('{"sub":"a","exp":9e9,"nbf":1e400}')],
	['not valid for over a year', 'nbf is as high as possible', withPayload('{"sub":"a","exp":9e9,"nbf":1e300}')],
	['iss', 'iss only in the header', mintToken(key, { ...good, iss: undefined }, { iss: ISSUER })],
	['no sub', 'sub only in the header', mintToken(key, { ...good, sub: undefined }, { sub: 'tenant-a' })],
	['no exp', 'claims only in __proto__', withPayload(`{"__proto__":${JSON.stringify(good)}}`)],
	['aud', 'aud of another service', withClaims({ aud: ['other'] })],
	['bad sub', 'sub is empty', withClaims({ sub: '' })],
];

describe('a refused token has a reason, which clients do not see', () => {
	for (const [reason, what, token] of REASONS) it(`${reason}: ${what}`, () => refuses(token, reason));

	it('expired, or not yet valid: the seconds are whole', () => {
		refuses(withClaims({ exp: NOW }), 'expired 60 s ago', policy, NOW + 60.9);
		refuses(withClaims({ nbf: NOW }), 'not valid for another 61 s', policy, NOW - 60.1);
		refuses(withClaims({ exp: NOW }), `expired ${YEAR} s ago`, policy, NOW + YEAR);
		refuses(withClaims({ exp: NOW }), 'expired over a year ago', policy, NOW + YEAR + 1);
		refuses(withClaims({ nbf: NOW + YEAR, exp: 9e9 }), `not valid for another ${YEAR} s`);
		refuses(withClaims({ nbf: NOW + YEAR + 1, exp: 9e9 }), 'not valid for over a year');
	});
});

describe('the algorithm of a token', () => {
	const named = (alg: unknown) => JSON.stringify({ alg, typ: 'JWT' });

	it('is never "none"', () => {
		for (const alg of ['none', 'None', 'NONE', '']) {
			const encoded = Buffer.from(named(alg)).toString('base64url');
			refuses(`${encoded}.${payload}.`, 'malformed');
			for (const end of ['AA', signature]) refuses(`${encoded}.${payload}.${end}`, 'alg');
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
				refuses(await new SignJWT(good).setProtectedHeader({ alg }).sign(Buffer.from(form)), 'alg');
			}
		}
		const empty = new SignJWT(good).setProtectedHeader({ alg: 'HS256', kid: '/dev/null' });
		refuses(await empty.sign(new Uint8Array(32)), 'alg');
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
			refuses(await new SignJWT(good).setProtectedHeader({ alg }).sign(signer), 'alg');
			refuses(withHeader({ alg }), 'alg');
		}
	});

	it('is not another one under the name RS256', () => {
		const signed = `${header}.${payload}`;
		for (const hash of ['sha1', 'sha384', 'sha512']) {
			refuses(`${signed}.${sign(hash, Buffer.from(signed), key.privateKey).toString('base64url')}`, 'signature');
		}
		const pss = sign('sha256', Buffer.from(signed), { key: key.privateKey, padding: 6 /* RSA_PKCS1_PSS_PADDING */ });
		refuses(`${signed}.${pss.toString('base64url')}`, 'signature');
	});

	it('is the string "RS256" and nothing that resembles it', () => {
		for (const alg of ['rs256', ' RS256', 'RS256\0', ['RS256'], { RS256: 1 }, 256, null, true, undefined]) {
			refuses(withHeader({ alg }), 'alg');
		}
	});
});

describe('the protected header', () => {
	it('cannot provide or reference the key', () => {
		const jwk = createPublicKey(strangersKey.publicKeyPem).export({ format: 'jwk' });
		for (const members of [
			{ jwk },
			{ jku: 'https://evil.test/jwks.json' },
			{ x5u: 'https://evil.test/cert.pem' },
			{ x5c: ['AAAA'] },
			{ kid: '../../../../dev/null' },
			{ kid: "' OR 1=1 --" },
		]) {
			refuses(mintToken(strangersKey, good, members), 'signature');
		}
	});

	it('has the type of an access token, or none (RFC 8725 section 3.11)', () => {
		for (const typ of [undefined, 'JWT', 'jwt', 'AT+jwt', 'application/jwt', 'application/at+JWT']) {
			accepts(withHeader({ typ }));
		}
		for (const typ of ['logout+jwt', 'JWT ', '', 'text/jwt', 'application/', 'xjwt', 'at+jwt\n', null, 1, ['JWT']]) {
			refuses(withHeader({ typ }), 'typ');
		}
	});

	it('is at most 1 KiB long, which is checked before anything is parsed', () => {
		const frame = '{"alg":"RS256","kid":""}'.length;
		/** A header of that many characters of base64url, a multiple of four. */
		const headerOf = (length: number) => `{"alg":"RS256","kid":"${'x'.repeat((length / 4) * 3 - frame)}"}`;
		const longest = withHeaderText(headerOf(1024));
		assert.equal(longest.indexOf('.'), 1024);
		accepts(longest);
		for (const text of [headerOf(1028), '['.repeat(5000)]) refuses(withHeaderText(text), 'header too long');
	});
});

describe('the compact form', () => {
	it('has neither padding nor other characters, even when they are signed', () => {
		for (const stray of ['=', '\n', ' ', '!']) {
			refuses(signSegments(header, payload + stray), 'malformed');
			refuses(signSegments(header + stray, payload), 'malformed');
		}
	});

	it('is in the URL-safe alphabet', () => {
		const text = JSON.stringify({ ...good, x: '???>>>~~~' });
		const standard = Buffer.from(text).toString('base64').replaceAll('=', '');
		assert.match(standard, /[+/]/);
		refuses(signSegments(header, standard), 'malformed');
		accepts(signSegments(header, Buffer.from(text).toString('base64url')));
	});

	it('has one spelling for the signature: the unused bits of its last character are zero', () => {
		const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
		const passed = [...alphabet].filter(
			(last) => !(verifyToken(`${goodToken.slice(0, -1)}${last}`, policy, NOW) instanceof Rejection),
		);
		assert.deepEqual(passed, [signature.at(-1)]);
	});

	it('has one spelling for header and payload, even when another one is signed', () => {
		const nextInAlphabet = (char: string) => (char === 'A' ? 'B' : char === 'Q' ? 'R' : char === 'g' ? 'h' : 'x');
		for (const pad of ['', 'p', 'pp']) {
			const encodedHeader = Buffer.from(JSON.stringify({ alg: 'RS256', pad })).toString('base64url');
			const encodedPayload = Buffer.from(JSON.stringify({ ...good, pad })).toString('base64url');
			accepts(signSegments(encodedHeader, encodedPayload));
			for (const [at, encoded] of [encodedHeader, encodedPayload].entries()) {
				if (encoded.length % 4 === 0) continue;
				const twin = encoded.slice(0, -1) + nextInAlphabet(encoded.at(-1)!);
				refuses(at === 0 ? signSegments(twin, encodedPayload) : signSegments(encodedHeader, twin), 'malformed');
			}
		}
	});

	it('has no character that is in the alphabet only without its high byte', () => {
		for (let at = 0; at < goodToken.length; at += 7) {
			const twin = String.fromCharCode(goodToken.charCodeAt(at) + 0x100);
			const mutant = goodToken.slice(0, at) + twin + goodToken.slice(at + 1);
			assertRefusal(verifyToken(mutant, policy, NOW), TOKEN_INVALID, mutant);
		}
	});

	it('carries a signature as long as the key', () => {
		const bytes = Buffer.from(signature, 'base64url');
		for (const other of [bytes.subarray(1), Buffer.concat([Buffer.alloc(1), bytes]), Buffer.alloc(256)]) {
			refuses(`${header}.${payload}.${other.toString('base64url')}`, 'signature');
		}
	});
});

describe('exp and nbf', () => {
	it('may have fractions, exponents, and any size', () => {
		for (const exp of ['1.8e9', '1800000000.5', '9e300']) accepts(withPayload(`{"sub":"a","exp":${exp}}`), lax);
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

	it('are compared with a clock that has fractions of a second', () => {
		accepts(withClaims({ exp: NOW }), policy, NOW + 59.999);
		accepts(withClaims({ nbf: NOW }), policy, NOW - 59.999);
		assert.equal(isExpired(NOW, NOW + 59.999), false);
		assert.equal(isExpired(NOW, NOW + 60), true);
	});
});

describe('sub', () => {
	it('is at most 256 characters long', () => {
		assert.equal(accepts(withClaims({ sub: 'x'.repeat(256) })).sub.length, 256);
		refuses(withClaims({ sub: 'x'.repeat(257) }), 'bad sub');
	});

	it('is visible ASCII, with spaces only inside: each character up to U+017F is tried at each place', () => {
		for (const code of [...Array(0x180).keys(), 0x2028, 0xd800, 0x1_f600]) {
			const char = String.fromCodePoint(code);
			const visible = code > 0x20 && code < 0x7f;
			const check = (sub: string, isGood: boolean) =>
				isGood ? assert.equal(accepts(withClaims({ sub })).sub, sub) : refuses(withClaims({ sub }), 'bad sub');
			// A signature takes most of a millisecond, so characters outside ASCII are tried at one place.
			if (code <= 0x80) check(`${char}a`, visible);
			if (code <= 0x80) check(`a${char}`, visible);
			check(`a${char}a`, visible || char === ' ');
		}
	});
});

describe('the payload', () => {
	it('may have the same name at two depths', () => {
		accepts(withPayload('{"sub":"tenant-a","exp":9e9,"x":{"sub":"b","exp":1},"y":["sub"]}'), lax);
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
				assertRefusal(verifyToken(bytes.toString('latin1'), policy, NOW), TOKEN_INVALID, `bit ${bit} of ${at}`);
				bytes[at]! ^= 1 << bit;
			}
		}
		accepts(bytes.toString('latin1'));
	});

	it('holds for claims of any shape, which we refuse for the reason that the model gives', async () => {
		const date = fc.oneof(
			fc.integer({ min: NOW - 63, max: NOW + 63 }),
			fc.constantFrom(null, undefined, '1', '', -1, 0, 1e15, [NOW], true, false, {}),
		);
		const audiences = fc.constantFrom(AUDIENCE, 'other', '', 'Edge', 1, null, false, [AUDIENCE], { edge: 1 });
		const claims = fc.record({
			exp: fc.oneof({ weight: 3, arbitrary: fc.constant(NOW + 10) }, date),
			nbf: fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, date),
			iss: fc.constantFrom(
				ISSUER,
				ISSUER,
				'other',
				`${ISSUER}/`,
				'HTTPS://ISSUER.TEST',
				undefined,
				null,
				'',
				[ISSUER],
				1,
			),
			aud: fc.oneof(fc.constant(AUDIENCE), audiences, fc.array(audiences, { maxLength: 3 }), fc.constant(undefined)),
			sub: fc.oneof(
				{ weight: 3, arbitrary: fc.constant('tenant') },
				fc.string({ maxLength: 3 }),
				fc.constantFrom(undefined, null, '', 0, 1, true, ['a'], {}, ' a', 'a ', 'x'.repeat(256), 'x'.repeat(257)),
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
				assert.equal(verdict instanceof Rejection ? verdict.reason : undefined, reasonByTheModel(chosen, under));
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

/** A model of the rules for claims: why these are refused. */
function reasonByTheModel(claims: Record<string, unknown>, { issuer, audience }: TokenPolicy): string | undefined {
	const { exp, nbf, iss, aud, sub } = claims;
	if (exp === undefined) return 'no exp';
	if (typeof exp !== 'number') return 'bad exp';
	if (exp + 60 <= NOW) return NOW - exp > YEAR ? 'expired over a year ago' : `expired ${NOW - exp} s ago`;
	if (nbf !== undefined) {
		if (typeof nbf !== 'number' || nbf < 0) return 'bad nbf';
		if (nbf - 60 > NOW) return nbf - NOW > YEAR ? 'not valid for over a year' : `not valid for another ${nbf - NOW} s`;
	}
	if (issuer !== undefined && iss !== issuer) return 'iss';
	if (audience === undefined && aud !== undefined) return 'aud';
	if (audience !== undefined) {
		const audiences: unknown[] = Array.isArray(aud) ? aud : [aud];
		if (audiences.some((one) => typeof one !== 'string') || !audiences.includes(audience)) return 'aud';
	}
	if (sub === undefined) return 'no sub';
	return typeof sub === 'string' && isIdentity(sub) ? undefined : 'bad sub';
}

function isIdentity(sub: string): boolean {
	if (sub.length < 1 || sub.length > 256) return false;
	if (sub.startsWith(' ') || sub.endsWith(' ')) return false;
	return [...sub].every((char) => char >= ' ' && char <= '~');
}

/** Signs two segments, in whatever spelling. */
function signSegments(encodedHeader: string, encodedPayload: string): string {
	const signed = `${encodedHeader}.${encodedPayload}`;
	return `${signed}.${sign('sha256', Buffer.from(signed, 'latin1'), key.privateKey).toString('base64url')}`;
}

function signBytes(header: Buffer, payload: Buffer): string {
	return signSegments(header.toString('base64url'), payload.toString('base64url'));
}

/** JSON text in which an invalid byte replaces the question mark. */
function withByte(text: string): Buffer {
	const bytes = Buffer.from(text);
	bytes[text.indexOf('?')] = 0xff;
	return bytes;
}

/** These claims with the signature of the good ones. */
function forged(claims: TokenClaims): string {
	return `${header}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.${signature}`;
}
