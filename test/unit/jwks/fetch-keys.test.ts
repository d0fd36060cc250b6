import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import {
	type Fetch,
	type FetchedKeys,
	fetchKeys,
	maxAgeOf,
	metadataAddresses,
	systemFetch,
} from '../../../packages/gate/src/jwks/fetch-keys.ts';
import type { RemoteIssuer } from '../../../packages/gate/src/jwks/remote-issuer.ts';
import { fetchByUndici } from '../../../packages/proxy/src/control/jwks/fetch-by-undici.ts';
import { type Publish, startIssuer, type TestIssuer } from '../../fixtures/issuer.ts';
import { jwkOf, jwks, keyFor } from '../../fixtures/issuer-keys.ts';
import { testPki } from '../../fixtures/pki.ts';

const pki = await testPki();
const SET = jwks(jwkOf(keyFor('RS256'), { kid: 'one' }));

const ISSUER: RemoteIssuer = {
	issuer: 'https://issuer.test',
	url: 'https://issuer.test/jwks.json',
	algorithms: ['RS256'],
	refreshMs: 300_000,
	maxStaleMs: 86_400_000,
};

type Ask = (issuer: RemoteIssuer, abandoned: AbortSignal, last?: FetchedKeys) => Promise<FetchedKeys>;

const WAYS: readonly [name: string, scheme: 'http' | 'https', ask: Ask][] = [
	['undici, as the proxy', 'https', fetchByUndici],
	["Node's fetch, as the embedded gate", 'http', (issuer, ...rest) => fetchKeys(issuer, systemFetch, ...rest)],
];

for (const [name, scheme, ask] of WAYS) {
	describe(`keys fetched by ${name}`, { concurrency: 1 }, () => {
		let issuer: TestIssuer;
		let elsewhere: TestIssuer;
		before(async () => {
			[issuer, elsewhere] = await Promise.all([startIssuer(scheme), startIssuer(scheme)]);
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
			...ISSUER,
			issuer: issuer.url,
			url: issuer.jwksUrl,
			ca: pki.ca.certPem,
			...changes,
		});
		const fetched = (changes: Partial<RemoteIssuer> = {}) => ask(remote(changes), new AbortController().signal);
		const fails = async (cause: RegExp, changes: Partial<RemoteIssuer> = {}) => {
			await assert.rejects(fetched(changes), (error: Error) => {
				assert.equal(error.name, 'FetchError');
				assert.match(error.message, cause);
				return true;
			});
		};

		it('returns the set, the skipped entries, and the lifetime that the issuer gives', async () => {
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
			const again = await ask(remote(), new AbortController().signal, first);
			assert.deepEqual(again, { ...first, maxAgeMs: 30_000 });
			await ask(remote(), new AbortController().signal, again);
			assert.deepEqual(seen, [
				['W/"one"', MODIFIED],
				['W/"one"', MODIFIED],
			]);
			await fails(/^status 304$/);
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
				await ask(remote(), new AbortController().signal, last);
				assert.equal(seen, sent);
				elsewhere.publish = issuer.publish;
				await ask(remote({ url: elsewhere.jwksUrl }), new AbortController().signal, last);
				assert.equal(seen, undefined);
			}
		});

		it('accepts a set with any content type, and no other text', async () => {
			for (const type of ['text/html', 'application/octet-stream', 'image/png']) {
				issuer.publish = (_, response) => response.writeHead(200, { 'content-type': type }).end(SET);
				await fetched();
			}
			issuer.publish = (_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('<html>');
			await fails(/^the response is not a JWK Set: it is not a JSON object$/);
			issuer.publish = '{"keys":[]}';
			await fails(/empty JWK Set/);
			issuer.publish = (_, response) => response.end(Buffer.from([0x7b, 0xff]));
			await fails(/not UTF-8/);
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
				/no HTTP response|connection reset/,
				(_, response) => {
					response.writeHead(200, { 'content-length': 1000 }).write('{');
					setImmediate(() => response.destroy());
				},
			],
			['no answer', /no HTTP response|connection reset/, (request) => request.socket.destroy()],
		];
		for (const [what, cause, publish] of publications) {
			it(`treats ${what} as a failure`, async () => {
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
			const fetching = ask(remote(), abandon.signal);
			await asked.promise;
			abandon.abort();
			await assert.rejects(fetching, /FetchError|no response/);
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

		it('refuses metadata of another issuer, and metadata with a URL without TLS', async () => {
			const cases: readonly [cause: RegExp, metadata: string][] = [
				[/another issuer/, JSON.stringify({ issuer: elsewhere.url, jwks_uri: issuer.jwksUrl })],
				[/another issuer/, JSON.stringify({ issuer: `${issuer.url}/`, jwks_uri: issuer.jwksUrl })],
				[/no jwks_uri/, JSON.stringify({ issuer: issuer.url })],
				[/no jwks_uri/, JSON.stringify({ issuer: issuer.url, jwks_uri: 'jwks.json' })],
				[/not an https:\/\/ address/, JSON.stringify({ issuer: issuer.url, jwks_uri: 'http://127.0.0.1:1/jwks.json' })],
				[/not an https:\/\/ address/, JSON.stringify({ issuer: issuer.url, jwks_uri: 'file:///etc/passwd' })],
				// Both addresses have the same fault, which is reported once.
				[/^no metadata: the metadata is not a JSON object$/, '[]'],
			];
			for (const [cause, metadata] of cases) {
				issuer.other = (_, response) => response.end(metadata);
				await fails(cause, { url: undefined });
			}
			assert.equal(issuer.asked.includes('/jwks.json'), false);
		});

		it('reports the failure of the connection in words', async () => {
			await using gone = await startIssuer('http', SET);
			await fetched({ url: gone.jwksUrl });
			await gone.close();
			await fails(/connection refused/, { url: gone.jwksUrl });
		});
	});
}

describe('the certificate of an issuer', () => {
	let issuer: TestIssuer;
	before(async () => {
		issuer = await startIssuer('https', SET);
	});
	after(() => issuer.close());
	const remote = (ca?: string): RemoteIssuer => ({ ...ISSUER, issuer: issuer.url, url: issuer.jwksUrl, ca });

	it("is verified against the configured bundle, otherwise against Node's CAs", async () => {
		const { signal } = new AbortController();
		await fetchByUndici(remote(pki.ca.certPem), signal);
		for (const ca of [undefined, pki.otherCa.certPem])
			await assert.rejects(fetchByUndici(remote(ca), signal), /FetchError: the certificate is not trusted \([A-Z_]+\)/);
	});

	it('is judged by what Node trusts in the embedded gate, whatever the environment says', async (t) => {
		const { signal } = new AbortController();
		await assert.rejects(
			fetchKeys(remote(), systemFetch, signal),
			/FetchError: the certificate is not trusted \([A-Z_]+\)/,
		);
		const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED;
		t.after(() => {
			if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
			else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before;
		});
		issuer.asked.length = 0;
		process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
		await assert.rejects(fetchKeys(remote(), systemFetch, signal), /NODE_TLS_REJECT_UNAUTHORIZED=0 .* unset it$/);
		assert.deepEqual(issuer.asked, []);
		await fetchByUndici(remote(pki.ca.certPem), signal);
		await assert.rejects(fetchByUndici(remote(), signal), /certificate is not trusted/);
	});
});

describe('a fetch that the user of the gate has given', () => {
	const response = (body: AsyncIterable<Uint8Array> | null, changes = {}) => {
		return { status: 200, redirected: false, headers: new Headers(), body, ...changes };
	};
	const bytes = async function* () {
		yield Buffer.from(SET);
	};
	const failing = async function* () {
		yield Buffer.from('{');
		throw 'the wire';
	};
	const fetched = (fetch: unknown, signal = new AbortController().signal) => fetchKeys(ISSUER, fetch as Fetch, signal);

	it('is asked with the address, not to follow redirects, and with a signal', async () => {
		const asked: unknown[] = [];
		const { seed } = await fetched(async (address: string, { redirect, signal, headers }: RequestInit) => {
			asked.push(address, redirect, signal instanceof AbortSignal, new Headers(headers).get('accept-encoding'));
			return response(bytes());
		});
		assert.deepEqual(asked, [ISSUER.url, 'manual', true, 'identity']);
		assert.equal(seed.keys[0]!.kid, 'one');
	});

	const misdeeds: readonly [what: string, fetch: unknown, cause: RegExp][] = [
		['throws', () => assert.fail('at once'), /^connection failed/],
		['rejects with no error', () => Promise.reject(undefined), /^connection failed/],
		[
			'rejects as fetch does',
			() => Promise.reject(new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } })),
			/^connection refused$/,
		],
		['gives nothing', () => undefined, /^fetch did not return a Response$/],
		['gives a text', async () => SET, /^fetch did not return a Response$/],
		['follows a redirect', async () => response(bytes(), { redirected: true }), /redirects are not followed$/],
		['has a body that fails', async () => response(failing()), /^connection failed/],
		['has no body', async () => response(null), /not a JWK Set: it is not a JSON object$/],
	];
	for (const [what, fetch, cause] of misdeeds) {
		it(`fails if it ${what}`, async () => {
			await assert.rejects(fetched(fetch), (error: Error) => {
				assert.equal(error.name, 'FetchError');
				assert.match(error.message, cause);
				return true;
			});
		});
	}

	for (const [what, fetch] of [
		['never settles', () => new Promise(() => {})],
		[
			'has a body that never ends',
			async () => response({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) }),
		],
	] as const) {
		it(`is abandoned if it ${what} and ignores the signal`, async () => {
			const abandon = new AbortController();
			const fetching = fetched(fetch, abandon.signal);
			setImmediate(() => abandon.abort());
			await assert.rejects(fetching, /FetchError: no response within/);
		});
	}
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
