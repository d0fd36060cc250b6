import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MAX_HEADER_LENGTH } from '../../../packages/gate/src/gates/jwt.ts';
import { readPublicKey } from '../../../packages/gate/src/gates/public-key.ts';
import { BAD_PATH, BAD_REQUEST, Rejection, TOKEN_INVALID } from '../../../packages/gate/src/gates/rejection.ts';
import { createTokenKey, mintToken, signToken, type TokenClaims } from '../../../packages/proxy/src/cli/demo/tokens.ts';
import { readHttp1Head } from '../../../packages/proxy/src/gates/headers.ts';
import { cleanTarget } from '../../../packages/proxy/src/gates/path.ts';
import { readHttp2Head } from '../../fixtures/http2-head.ts';
import { assertRefusal } from '../../fixtures/refusal.ts';
import { verifyToken } from '../../fixtures/token-policy.ts';

/** Reasons are for operators, who look for them in their logs: each check has its own, and it stays the same. */

const NOW = 1_800_000_000;
const key = createTokenKey();
const policy = { publicKey: readPublicKey(key.publicKeyPem), issuer: 'me', audience: 'edge' };
const good = { sub: 'tenant-a', iss: 'me', aud: 'edge', exp: NOW + 3600 };
const withClaims = (claims: TokenClaims) => mintToken(key, { ...good, ...claims });
const withHeader = (header: object) =>
	signToken(key, JSON.stringify({ alg: 'RS256', ...header }), JSON.stringify(good));
const withPayload = (payload: string) => signToken(key, '{"alg":"RS256"}', payload);

describe('why a token is refused', () => {
	const goodToken = withClaims({});
	const [header, payload, signature] = goodToken.split('.') as [string, string, string];
	const reasons: readonly [reason: string, token: string][] = [
		['malformed', 'x'],
		['malformed', `${header}.${payload}`],
		['malformed', `${goodToken}.x`],
		['malformed', `${header}=.${payload}.${signature}`],
		['malformed', `${Buffer.from('[]').toString('base64url')}.${payload}.${signature}`],
		['malformed', `${header}.${payload}.`],
		['malformed', withPayload('{')],
		['duplicate member', signToken(key, '{"alg":"RS256","alg":"RS256"}', JSON.stringify(good))],
		['duplicate member', withPayload('{"sub":"a","sub":"b","exp":9e9}')],
		['header too long', withHeader({ kid: 'x'.repeat(MAX_HEADER_LENGTH) })],
		['alg', withHeader({ alg: 'HS256' })],
		['alg', withHeader({ alg: undefined })],
		['typ', withHeader({ typ: 'logout+jwt' })],
		['crit', withHeader({ crit: ['exp'] })],
		['crit', withHeader({ b64: false })],
		['signature', mintToken(createTokenKey(), good)],
		['no exp', withClaims({ exp: undefined })],
		['bad exp', withClaims({ exp: '1' })],
		['bad exp', withPayload('{"sub":"a","exp":1e400}')],
		['expired 61 s ago', withClaims({ exp: NOW - 61 })],
		['expired 86400 s ago', withClaims({ exp: NOW - 86_400 })],
		['expired over a year ago', withClaims({ exp: 1 })],
		['expired over a year ago', withPayload('{"sub":"a","exp":-1e300}')],
		['bad nbf', withClaims({ nbf: null })],
		['bad nbf', withClaims({ nbf: -1 })],
		['not valid for another 90 s', withClaims({ nbf: NOW + 90 })],
		['not valid for over a year', withPayload('{"sub":"a","exp":9e9,"nbf":1e300}')],
		['iss', withClaims({ iss: 'you' })],
		['iss', withClaims({ iss: undefined })],
		['aud', withClaims({ aud: ['other'] })],
		['no sub', withClaims({ sub: undefined })],
		['bad sub', withClaims({ sub: '' })],
		['bad sub', withClaims({ sub: 'zo\u00eb' })],
		['bad sub', withClaims({ sub: 'x'.repeat(257) })],
	];
	for (const [i, [reason, token]] of reasons.entries()) {
		it(`${reason} (${i})`, () => assertRefusal(verifyToken(token, policy, NOW), TOKEN_INVALID, token, reason));
	}

	it('the signature is looked at before any claim', () => {
		const [header, , signature] = goodToken.split('.');
		const forged = Buffer.from(JSON.stringify({ ...good, exp: 1 })).toString('base64url');
		assertRefusal(verifyToken(`${header}.${forged}.${signature}`, policy, NOW), TOKEN_INVALID, '', 'signature');
	});

	it('never quotes the token', () => {
		for (const [reason, token] of reasons) {
			if (token.length > 20) assert.ok(token.split('.').every((part) => part === '' || !reason.includes(part)));
		}
	});

	it('stays internal: the client gets the same answer for all reasons', () => {
		for (const [, token] of reasons) {
			const refusal = verifyToken(token, policy, NOW) as Rejection;
			const { status, body, headers, closes } = TOKEN_INVALID;
			assert.deepEqual(
				[refusal.status, refusal.body, refusal.headers, refusal.closes],
				[status, body, headers, closes],
			);
		}
	});
});

describe('the type of a token (RFC 8725 section 3.11)', () => {
	for (const typ of [
		'JWT',
		'jwt',
		'at+jwt',
		'AT+JWT',
		'application/jwt',
		'application/at+jwt',
		'APPLICATION/JWT',
		undefined,
	]) {
		it(`accepts typ ${typ}`, () => assert.ok(!(verifyToken(withHeader({ typ }), policy, NOW) instanceof Rejection)));
	}
	const others = [
		'logout+jwt',
		'secevent+jwt',
		'dpop+jwt',
		'JOSE',
		'JWT ',
		'',
		'text/jwt',
		'application/',
		'xjwt',
		'at+jwt\n',
	];
	for (const typ of [...others, null, 1, ['JWT']]) {
		it(`refuses typ ${JSON.stringify(typ)}`, () => {
			assertRefusal(verifyToken(withHeader({ typ }), policy, NOW), TOKEN_INVALID, '', 'typ');
		});
	}
});

describe('the length of a token header', () => {
	/** A header of exactly that many characters of base64url, a multiple of four. */
	const headerOf = (length: number) => {
		const frame = '{"alg":"RS256","kid":""}'.length;
		return `{"alg":"RS256","kid":"${'x'.repeat((length / 4) * 3 - frame)}"}`;
	};
	it('is at most 1 KiB', () => {
		const token = signToken(key, headerOf(1024), JSON.stringify(good));
		assert.equal(token.indexOf('.'), 1024);
		assert.ok(!(verifyToken(token, policy, NOW) instanceof Rejection));
	});
	it('is checked before anything is parsed', () => {
		for (const header of [headerOf(1028), 'x'.repeat(4000), '['.repeat(5000)]) {
			const token = signToken(key, header, JSON.stringify(good));
			assertRefusal(verifyToken(token, policy, NOW), TOKEN_INVALID, '', 'header too long');
		}
	});
});

describe('why a path is refused', () => {
	for (const [reason, ...targets] of [
		['target is not a path', '*', 'http:/x', '', 'x'],
		['fragment, space or byte outside ASCII', '/a#b', '/a b', '/\xff'],
		['two slashes at the start', '//host/x'],
		['backslash', '/a\\b', '/..\\a'],
		['malformed percent-encoding', '/%', '/a%g0', '/%u002e'],
		['encoded NUL', '/a%00'],
		['double-encoded', '/%252e', '/%25%32%65', '/%255c'],
		['dot segment', '/..', '/a/./b', '/%2e%2e/a', '/a%2f..', '/..;x/a', '/%c0%ae%c0%ae/'],
		['too many readings', `/%${'25'.repeat(70)}`],
	] as const) {
		for (const target of targets) {
			it(`${reason}: ${target}`, () => assertRefusal(cleanTarget(target), BAD_PATH, target, reason));
		}
	}
});

describe('why an HTTP/1.1 head is refused', () => {
	for (const [reason, fields, minor = 1] of [
		['no host', []],
		['malformed host', ['Host', 'a b']],
		['two hosts', ['Host', 'a', 'host', 'a']],
		['malformed content-length', ['Host', 'a', 'Content-Length', '1,1']],
		['malformed content-length', ['Host', 'a', 'Content-Length', '1'.repeat(17)]],
		['two content-lengths', ['Host', 'a', 'Content-Length', '1', 'Content-Length', '1']],
		['two transfer-encodings', ['Host', 'a', 'Transfer-Encoding', 'chunked', 'Transfer-Encoding', 'chunked']],
		['transfer-encoding other than chunked', ['Host', 'a', 'Transfer-Encoding', 'gzip, chunked']],
		['transfer-encoding in HTTP/1.0', ['Transfer-Encoding', 'chunked'], 0],
		['content-length and transfer-encoding', ['Host', 'a', 'Content-Length', '1', 'Transfer-Encoding', 'chunked']],
		['content-length and transfer-encoding', ['Host', 'a', 'Content-Length', '0', 'Transfer-Encoding', 'chunked']],
		// The first fault names it.
		['malformed host', ['Host', '/', 'Content-Length', 'x']],
	] as const) {
		it(`${reason}: ${fields.join(' ')}`, () => {
			assertRefusal(readHttp1Head(fields as readonly string[], minor as number), BAD_REQUEST, '', reason);
		});
	}
});

describe('why an HTTP/2 head is refused', () => {
	const head = [':method', 'GET', ':path', '/', ':scheme', 'https', ':authority', 'a'];
	for (const [reason, raw, endStream = true] of [
		['no host', [':method', 'GET', ':path', '/', ':scheme', 'https']],
		['malformed host', [...head.slice(0, 7), 'a@b']],
		['two hosts', [...head, 'host', 'b']],
		['malformed method', [':method', 'G T', ...head.slice(2)]],
		['scheme other than https', [...head.slice(0, 5), 'ftp', ':authority', 'a']],
		['whitespace around a field value', [...head, 'x', ' y']],
		['transfer-encoding in HTTP/2', [...head, 'transfer-encoding', 'chunked'], false],
		['content-length without a body', [...head, 'content-length', '5']],
		['two content-lengths', [...head, 'content-length', '5', 'content-length', '5'], false],
	] as const) {
		it(`${reason}: ${raw.slice(-2).join(' ')}`, () => {
			assertRefusal(readHttp2Head(raw, endStream as boolean), BAD_REQUEST, '', reason);
		});
	}
});
