/** Tokens: which are accepted, and what a refused one gets. */
import { deepEqual, equal, match, notEqual, ok } from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { createTokenKey, mintToken, signToken, type TokenClaims } from '../../packages/proxy/src/cli/demo/tokens.ts';
import { type Answer, type Connection, connect, PROTOCOLS, type RequestOptions, request } from '../fixtures/clients.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { AUDIENCE, ISSUER, testPki } from '../fixtures/pki.ts';
import { spawnProxy, startProxy } from '../fixtures/proxy.ts';
import { startLanes } from '../fixtures/stage.ts';
import { until } from '../fixtures/wait.ts';

const pki = await testPki();
const edge = await startLanes();
after(() => edge.close());
const lane = edge.lane();

const now = () => Date.now() / 1000;
const seconds = (offset: number) => Math.floor(now()) + offset;
const GOOD: TokenClaims = { iss: ISSUER, aud: AUDIENCE, sub: 'tenant', exp: seconds(3600) };
const withClaims = (claims: TokenClaims) => mintToken(pki.tokenKey, { ...GOOD, ...claims });

/** One for each step of the judgement. All hostile tokens are refused in test/conformance, by the proxy too. */
const REFUSED = [
	{ what: 'a token in two parts', token: 'x.y' },
	{ what: 'a signature of another key', token: mintToken(createTokenKey(), GOOD) },
	{ what: 'an exp that passed 61 s ago', token: withClaims({ exp: seconds(-61) }) },
	{ what: 'another iss', token: withClaims({ iss: 'https://else.test' }) },
	{ what: 'another aud', token: withClaims({ aud: 'other' }) },
];

const PASSING: [what: string, token: () => string][] = [
	['an exp that passed 30 s ago', () => withClaims({ exp: now() - 30 })],
	['a sub of 256 characters', () => withClaims({ sub: 'a'.repeat(256) })],
	['a sub with spaces and signs inside', () => withClaims({ sub: 'ACME "Inc": a=b; c, <d>' })],
	['exactly 8 KiB', () => padded(8192)],
];
const PROTOTYPES = JSON.stringify({ ...GOOD, constructor: { name: 'x' } }).replace(
	/\}$/,
	',"__proto__":{"sub":"root","exp":0}}',
);

/** A good token of exactly so many characters. */
function padded(length: number): string {
	for (let filler = 4000; ; filler++) {
		const token = withClaims({ filler: 'x'.repeat(filler) });
		if (token.length === length) return token;
		ok(token.length < length, `no token of ${length} characters`);
		filler += Math.max(0, Math.floor(((length - token.length) * 3) / 4) - 3);
	}
}

for (const protocol of PROTOCOLS) {
	describe(`authentication over ${protocol}`, () => {
		let client: Connection;
		before(async () => {
			client = await connect(protocol, edge.proxy);
		});
		after(() => client.close());
		const ask = async (options: RequestOptions): Promise<Answer> =>
			client.request({ path: `${lane.path}/auth`, ...options });

		const refuses = async (reason: 'missing' | 'invalid', options: RequestOptions) => {
			const before = lane.upstream.bytesReceived;
			const counted = await edge.during(async () => assertOwnAnswer(await ask(options), 401, 'unauthorized'));
			deepEqual(counted, { 401: 1, [reason]: 1 });
			equal(lane.upstream.bytesReceived, before, 'the upstream has seen something of it');
		};

		test('a request without Authorization is missing its token', () => refuses('missing', { token: null }));

		for (const authorization of ['', 'Basic dTpw', pki.token()]) {
			const shown = authorization.length > 20 ? `${authorization.slice(0, 12)}…` : authorization;
			test(`the Authorization "${shown}" is invalid`, () =>
				refuses('invalid', { headers: [['authorization', authorization]] }));
		}

		test('two Authorization headers are invalid, be both of them good', () => {
			const line: [string, string] = ['authorization', `Bearer ${pki.token()}`];
			return refuses('invalid', { headers: [line, line] });
		});

		for (const { what, token } of REFUSED) test(`refuses ${what}`, () => refuses('invalid', { token }));

		for (const [what, token] of PASSING) {
			test(`accepts ${what}`, async () => equal((await ask({ token: token() })).status, 200));
		}

		test('members named __proto__ and constructor say nothing of the tenant', async () => {
			equal((await ask({ token: signToken(pki.tokenKey, '{"alg":"RS256"}', PROTOTYPES) })).status, 200);
			equal(lane.upstream.requests.at(-1)!.header('x-proxy-tenant'), GOOD.sub);
		});

		test('a token of a megabyte is refused with its head, and counts as no authentication failure', async () => {
			const before = lane.upstream.bytesReceived;
			const megabyte = [['authorization', `Bearer ${'x'.repeat(2 ** 20)}`]] as [string, string][];
			const counted = await edge.during(async () => {
				await using own = await connect(protocol, edge.proxy);
				const answer = await own.request({ path: `${lane.path}/auth`, headers: megabyte });
				// Over HTTP/2 a head that is so long ends the connection before there is a request.
				if (protocol === 'h1') assertOwnAnswer(answer, 431, 'headers too large');
				else notEqual(answer.ended, 'complete');
			});
			deepEqual(counted, protocol === 'h1' ? { 431: 1 } : {});
			equal(lane.upstream.bytesReceived, before);
		});

		test('a token that passed is refused from the cache, too, once its exp is 60 s ago', async () => {
			const exp = now() - 57.5;
			const token = withClaims({ exp, protocol });
			equal((await ask({ token })).status, 200);
			let lastAccepted = 0;
			const refused = await until(async () => {
				const sentAt = now();
				const answer = await ask({ token });
				if (answer.status === 200) lastAccepted = sentAt;
				return answer.status === 200 ? undefined : answer;
			}, 'the token to expire');
			assertOwnAnswer(refused, 401, 'unauthorized');
			ok(now() >= exp + 60, 'refused before its time');
			ok(lastAccepted < exp + 60, `accepted ${lastAccepted - exp} s after exp`);
		});

		test('a refused token is refused again, and a good one passes in between', async () => {
			const token = withClaims({ aud: 'other' });
			for (const expected of [token, pki.token(), token]) {
				equal((await ask({ token: expected })).status, expected === token ? 401 : 200);
			}
		});

		test('HEAD without a token gets the same head and no body', async () => {
			assertOwnAnswer(await ask({ method: 'HEAD', token: null }), 401, 'unauthorized', 'HEAD');
		});
	});
}

test('without issuer any iss passes, and without audience only tokens that carry no aud', async () => {
	await using open = await startLanes({ jwt: { issuer: undefined, audience: undefined }, workers: 1 });
	const { path } = open.lane();
	const { aud: _aud, ...rest } = GOOD;
	const expected: [TokenClaims, number][] = [
		[rest, 200],
		[{ ...rest, iss: 'https://else.test' }, 200],
		[{ ...rest, iss: undefined }, 200],
		[{ ...rest, aud: AUDIENCE }, 401],
		[{ ...rest, aud: [] }, 401],
		[{ ...rest, aud: '' }, 401],
		[{ ...rest, aud: null }, 401],
	];
	for (const protocol of PROTOCOLS) {
		for (const [claims, status] of expected) {
			const token = mintToken(pki.tokenKey, claims);
			equal((await request(protocol, open.proxy, { path, token })).status, status, JSON.stringify(claims));
		}
	}
});

test('a new JWT key takes a restart: a reload keeps the one that was read at boot', async () => {
	const next = createTokenKey();
	const jwksPath = pki.writeFile('rotating.pub', pki.tokenKey.publicKeyPem);
	await using rotating = await startLanes({ jwt: { jwks_path: jwksPath } });
	const { path } = rotating.lane();
	writeFileSync(jwksPath, next.publicKeyPem);
	await rotating.proxy.reload();
	for (const protocol of PROTOCOLS) {
		const status = async (token: string) => (await request(protocol, rotating.proxy, { path, token })).status;
		equal(await status(pki.token('tenant', { reloaded: true })), 200, 'the key of the start');
		equal(await status(mintToken(next, GOOD)), 401, 'the key in the file');
	}
});

test('a PKCS#1 key is read like an SPKI one', async () => {
	const pkcs1 = createPublicKey(pki.tokenKey.publicKeyPem).export({ type: 'pkcs1', format: 'pem' }) as string;
	await using proxy = await startProxy({ jwt: { jwks_path: pki.writeFile('pkcs1.pub', pkcs1) }, workers: 1 });
	equal((await request('h1', proxy)).status, 404, 'past authentication, there are no routes');
});

const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey;
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey;
const WRONG_KEYS: [what: string, pem: string, complaint: RegExp][] = [
	['an RSA key of 1024 bits', small.export({ type: 'spki', format: 'pem' }) as string, /1024 bits/],
	['an EC key', ec.export({ type: 'spki', format: 'pem' }) as string, /type ec; .*RSA/],
	[
		'a private key',
		pki.tokenKey.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
		/private key; give the public key/,
	],
	['no key at all', 'hello\n', /not one PEM public key/],
];

describe('the key of [jwt] jwks_path', { concurrency: 2 }, () => {
	for (const [what, pem, complaint] of WRONG_KEYS) {
		test(`${what} stops the start with one clear line that does not quote it`, async () => {
			const jwksPath = pki.writeFile(`${what.replaceAll(' ', '-')}.pem`, pem);
			const proxy = await spawnProxy({ jwt: { jwks_path: jwksPath }, workers: 1 });
			equal(await proxy.exited, 1);
			match(proxy.stderr, complaint);
			match(proxy.stderr, new RegExp(`^proxy: [^\\n]*${jwksPath.replaceAll('.', '\\.')}[^\\n]*\\n$`));
			const secret = pem.split('\n')[1] ?? '';
			ok(secret === '' || !proxy.stderr.includes(secret), 'it prints the key');
			await proxy.kill();
		});
	}
});
