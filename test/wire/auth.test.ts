/** Tokens: which are accepted, and what a refused one gets. */
import { deepEqual, equal, notEqual } from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createTokenKey, mintToken, type TokenClaims } from '../../packages/proxy/src/cli/demo/tokens.ts';
import { type Answer, type Connection, connect, PROTOCOLS, type RequestOptions } from '../fixtures/clients.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { AUDIENCE, ISSUER, testPki } from '../fixtures/pki.ts';
import { startLanes } from '../fixtures/stage.ts';

const pki = await testPki();
const edge = await startLanes();
after(() => edge.close());
const lane = edge.lane();

const now = () => Date.now() / 1000;
const seconds = (offset: number) => Math.floor(now()) + offset;
const GOOD: TokenClaims = { iss: ISSUER, aud: AUDIENCE, sub: 'tenant', exp: seconds(3600) };
const withClaims = (claims: TokenClaims) => mintToken(pki.tokenKey, { ...GOOD, ...claims });

/** test/unit/gates/jwt.test.ts has all hostile tokens; test/conformance has headers and keys, and the proxy is a subject there. */
const REFUSED = [
	{ what: 'a signature of another key', token: mintToken(createTokenKey(), GOOD) },
	{ what: 'an exp that passed 61 s ago', token: withClaims({ exp: seconds(-61) }) },
];

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

		for (const { what, token } of REFUSED) test(`refuses ${what}`, () => refuses('invalid', { token }));

		test('accepts an exp that passed 30 s ago', async () => {
			equal((await ask({ token: withClaims({ exp: now() - 30 }) })).status, 200);
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

		test('a refused token is refused again, and a good one passes in between', async () => {
			const token = withClaims({ aud: 'other' });
			for (const expected of [token, pki.token(), token]) {
				equal((await ask({ token: expected })).status, expected === token ? 401 : 200);
			}
		});
	});
}
