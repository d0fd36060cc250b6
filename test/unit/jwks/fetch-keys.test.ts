import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { fetchKeys, maxAgeOf, metadataAddresses } from '../../../src/jwks/fetch-keys.ts';
import type { RemoteIssuer } from '../../../src/jwks/remote-issuer.ts';
import { type Publish, startIssuer, type TestIssuer } from '../../fixtures/issuer.ts';
import { jwkOf, jwks, keyFor } from '../../fixtures/issuer-keys.ts';
import { testPki } from '../../fixtures/pki.ts';

const pki = await testPki();
const SET = jwks(jwkOf(keyFor('RS256'), { kid: 'one' }));

describe('a fetch of keys', { concurrency: 1 }, () => {
	let issuer: TestIssuer;
	let elsewhere: TestIssuer;
	before(async () => {
		[issuer, elsewhere] = await Promise.all([startIssuer(), startIssuer()]);
	});
	after(() => Promise.all([issuer.close(), elsewhere.close()]));
	beforeEach(() => {
		issuer.publish = SET;
		issuer.other = (_, response) => response.writeHead(404).end();
		elsewhere.publish = SET;
		issuer.asked.length = 0;
		elsewhere.asked.length = 0;
	});

	const remote = (changes: Partial<RemoteIssuer> = {}): RemoteIssuer => ({
		issuer: issuer.url,
		url: issuer.jwksUrl,
		ca: pki.ca.certPem,
		algorithms: ['RS256'],
		refreshMs: 300_000,
		maxStaleMs: 86_400_000,
		...changes,
	});
	const fetched = (changes: Partial<RemoteIssuer> = {}) => fetchKeys(remote(changes), new AbortController().signal);
	const fails = async (cause: RegExp, changes: Partial<RemoteIssuer> = {}) => {
		await assert.rejects(fetched(changes), (error: Error) => {
			assert.equal(error.name, 'FetchError');
			assert.match(error.message, cause);
			return true;
		});
	};

	it('gives the set, what it leaves out, and how long the issuer says it lasts', async () => {
		issuer.publish = (_, response) => response.writeHead(200, { 'cache-control': 'public, max-age=60' }).end(SET);
		const { seed, text, maxAgeMs, skipped } = await fetched();
		assert.deepEqual([seed.keys[0]!.kid, text, maxAgeMs, skipped], ['one', SET, 60_000, []]);
	});

	it('asks with the validators of the last set, and takes a 304 for that set with a new age', async () => {
		const MODIFIED = 'Mon, 23 Nov 2026 10:00:00 GMT';
		const headers = { etag: 'W/"one"', 'last-modified': MODIFIED, date: 'Mon, 23 Nov 2026 10:00:01 GMT' };
		issuer.publish = (_, response) => response.writeHead(200, headers).end(SET);
		const first = await fetched();
		const seen: unknown[] = [];
		issuer.publish = ({ headers: asked }, response) => {
			seen.push([asked['if-none-match'], asked['if-modified-since']]);
			response.writeHead(304, { 'cache-control': 'max-age=30' }).end();
		};
		const again = await fetchKeys(remote(), new AbortController().signal, first);
		assert.deepEqual(again, { ...first, maxAgeMs: 30_000 });
		await fetchKeys(remote(), new AbortController().signal, again);
		assert.deepEqual(seen, [
			['W/"one"', MODIFIED],
			['W/"one"', MODIFIED],
		]);
		await fails(/^status 304/);
	});

	it('sends no validator to another address, none that is malformed, and no date younger than a second', async () => {
		for (const [headers, sent] of [
			[{ etag: 'unquoted' }, undefined],
			[{ etag: '"\u00e9"' }, undefined],
			[{ 'last-modified': 'yesterday' }, undefined],
			[{ 'last-modified': 'Mon, 23 Nov 2026 10:00:00 GMT', date: 'Mon, 23 Nov 2026 10:00:00 GMT' }, undefined],
			[{ etag: '"one"' }, '"one"'],
		] as const) {
			issuer.publish = (_, response) => response.writeHead(200, headers).end(SET);
			const last = await fetched();
			let seen: unknown;
			issuer.publish = ({ headers: asked }, response) => {
				seen = asked['if-none-match'] ?? asked['if-modified-since'];
				response.writeHead(200).end(SET);
			};
			await fetchKeys(remote(), new AbortController().signal, last);
			assert.equal(seen, sent);
			elsewhere.publish = issuer.publish;
			await fetchKeys(remote({ url: elsewhere.jwksUrl }), new AbortController().signal, last);
			assert.equal(seen, undefined);
		}
	});

	it('believes the bundle it was given, and otherwise what Node trusts', async () => {
		await fails(/certificate is not trusted \([A-Z_]+\)/, { ca: undefined });
		await fails(/certificate is not trusted/, { ca: pki.otherCa.certPem });
	});

	it('takes a set whatever its type is called, and no other text', async () => {
		for (const type of ['text/html', 'application/octet-stream', 'image/png']) {
			issuer.publish = (_, response) => response.writeHead(200, { 'content-type': type }).end(SET);
			await fetched();
		}
		issuer.publish = (_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('<html>');
		await fails(/^the answer is no JWK Set: no JSON object$/);
		issuer.publish = '{"keys":[]}';
		await fails(/empty JWK Set/);
		issuer.publish = (_, response) => response.end(Buffer.from([0x7b, 0xff]));
		await fails(/no UTF-8/);
	});

	const publications: readonly [what: string, cause: RegExp, publish: Publish][] = [
		['a 500', /status 500$/, (_, response) => response.writeHead(500).end(SET)],
		['a 204', /status 204$/, (_, response) => response.writeHead(204).end()],
		[
			'a compressed answer, which may be a bomb',
			/compressed/,
			(_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(SET)),
		],
		[
			'an answer that breaks off',
			/no HTTP answer|connection reset/,
			(_, response) => {
				response.writeHead(200, { 'content-length': 1000 }).write('{');
				setImmediate(() => response.destroy());
			},
		],
		['no answer', /no HTTP answer|connection reset/, (request) => request.socket.destroy()],
	];
	for (const [what, cause, publish] of publications) {
		it(`takes ${what} for a failure`, async () => {
			issuer.publish = publish;
			await fails(cause);
		});
	}

	it('follows no redirect, and sends no other request', async () => {
		for (const status of [301, 302, 307, 308]) {
			issuer.publish = (_, response) => response.writeHead(status, { location: elsewhere.jwksUrl }).end();
			await fails(/redirects are not followed/);
		}
		assert.deepEqual(elsewhere.asked, []);
	});

	it('reads no more than a mebibyte of 200', async () => {
		let written = 0;
		const closed = Promise.withResolvers<void>();
		const chunk = Buffer.alloc(64 * 1024, ' ');
		issuer.publish = (_, response) => {
			response.on('close', closed.resolve);
			const write = () => {
				while (written < 200 * 1024 * 1024 && !response.destroyed) {
					written += chunk.length;
					if (!response.write(chunk)) return void response.once('drain', write);
				}
			};
			response.writeHead(200);
			write();
		};
		await fails(/larger than 1048576 bytes/);
		await closed.promise;
		assert.ok(written < 20 * 1024 * 1024, `${written} bytes were written`);
	});

	it('ends when it is aborted, also while the issuer stalls', async () => {
		const asked = Promise.withResolvers<void>();
		issuer.publish = (_, response) => {
			response.writeHead(200).write('{"keys":');
			asked.resolve();
		};
		const abandon = new AbortController();
		const fetching = fetchKeys(remote(), abandon.signal);
		await asked.promise;
		abandon.abort();
		await assert.rejects(fetching, /FetchError|no answer/);
	});

	it('finds the set by the metadata of RFC 8414, and by that of OpenID Connect', async () => {
		const metadata = JSON.stringify({ issuer: issuer.url, jwks_uri: issuer.jwksUrl });
		issuer.other = (_, response) => response.end(metadata);
		await fetched({ url: undefined });
		assert.deepEqual(issuer.asked, ['/.well-known/oauth-authorization-server', '/jwks.json']);
		issuer.asked.length = 0;
		issuer.other = ({ url }, response) => {
			if (url === '/.well-known/openid-configuration') response.end(metadata);
			else response.writeHead(404).end();
		};
		await fetched({ url: undefined });
		assert.deepEqual(issuer.asked.slice(1), ['/.well-known/openid-configuration', '/jwks.json']);
		assert.deepEqual(metadataAddresses('https://host.test/tenant/'), [
			'https://host.test/.well-known/oauth-authorization-server/tenant',
			'https://host.test/tenant/.well-known/openid-configuration',
		]);
	});

	it('uses no metadata of another issuer, and none that leads away from TLS', async () => {
		const cases: readonly [cause: RegExp, metadata: string][] = [
			[/another issuer/, JSON.stringify({ issuer: elsewhere.url, jwks_uri: issuer.jwksUrl })],
			[/another issuer/, JSON.stringify({ issuer: `${issuer.url}/`, jwks_uri: issuer.jwksUrl })],
			[/no jwks_uri/, JSON.stringify({ issuer: issuer.url })],
			[/no jwks_uri/, JSON.stringify({ issuer: issuer.url, jwks_uri: 'jwks.json' })],
			[/no https:\/\/ address/, JSON.stringify({ issuer: issuer.url, jwks_uri: 'http://127.0.0.1:1/jwks.json' })],
			[/no https:\/\/ address/, JSON.stringify({ issuer: issuer.url, jwks_uri: 'file:///etc/passwd' })],
			// Both places say the same, and it is told once.
			[/^no metadata: the metadata is no JSON object$/, '[]'],
		];
		for (const [cause, metadata] of cases) {
			issuer.other = (_, response) => response.end(metadata);
			await fails(cause, { url: undefined });
		}
		assert.equal(issuer.asked.includes('/jwks.json'), false);
	});

	it('says in words what went wrong with the connection', async () => {
		await using gone = await startIssuer('http', SET);
		await fetched({ url: gone.jwksUrl });
		await gone.close();
		await fails(/connection refused/, { url: gone.jwksUrl });
	});
});

describe('Cache-Control', () => {
	it('says how long a set lasts, or nothing', () => {
		const cases: readonly [string | undefined, number | undefined][] = [
			[undefined, undefined],
			['', undefined],
			['max-age=60', 60_000],
			['public, MAX-AGE=60, must-revalidate', 60_000],
			['max-age="60"', 60_000],
			['max-age=0', undefined],
			['max-age=60, no-cache', undefined],
			['no-store', undefined],
			['max-age=-1', undefined],
			['max-age=abc', undefined],
			['max-age=99999999999', undefined],
		];
		for (const [header, ms] of cases) assert.equal(maxAgeOf(header), ms, `${header}`);
	});
});
