/** Issuers and keys: real issuers, real tokens, the real command. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { JWTPayload } from 'jose';
import { ALGORITHMS } from '../../packages/gate/src/gates/algorithm.ts';
import { type Connection, connect, PROTOCOLS, request } from '../fixtures/clients.ts';
import { headerValues } from '../fixtures/http1-message.ts';
import { startIssuer, type TestIssuer } from '../fixtures/issuer.ts';
import { jwkOf, jwks, keyFor, sign } from '../fixtures/issuer-keys.ts';
import { temporaryFolder, testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { type ProxyOptions, type ProxyProcess, spawnProxy, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const pki = await testPki();
const pairs = new Map(ALGORITHMS.map((algorithm) => [algorithm, keyFor(algorithm)]));
const [first, second, third] = [pairs.get('RS256')!, pairs.get('RS384')!, pairs.get('RS512')!];
const FIRST = jwks(jwkOf(first, { kid: 'first', use: 'sig' }));
const BOTH = jwks(jwkOf(first, { kid: 'first' }), jwkOf(second, { kid: 'second' }));
const SECOND = jwks(jwkOf(second, { kid: 'second' }));
const ALL = jwks(...ALGORITHMS.map((alg) => jwkOf(pairs.get(alg)!, { alg, kid: alg })));

type Value = string | number | boolean | readonly string[];

/** The whole file, with these issuers in place of `[jwt]`. */
function configWith(upstream: Upstream, issuers: readonly Readonly<Record<string, Value>>[], top = ''): string {
	const tables = issuers.map((issuer) => {
		const keys = Object.entries(issuer).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
		return `[[issuers]]\n${keys.join('\n')}`;
	});
	return `
		tenant_rps = 0
		${top}
		[tls]
		cert_path = "${pki.server.certPath}"
		key_path = "${pki.server.keyPath}"
		client_ca_path = "${pki.caPath}"
		${tables.join('\n')}
		[[routes]]
		prefix = "/"
		upstream = "${upstream.url}"
		health = false
	`;
}

function tokenOf(
	iss: string,
	signer = first,
	kid: string | undefined = 'first',
	claims: JWTPayload = {},
	alg = 'RS256',
) {
	const payload = { iss, aud: 'edge', sub: 'alice', exp: Math.floor(Date.now() / 1000) + 3600, ...claims };
	return sign(signer, payload, { alg, ...(kid !== undefined && { kid }) });
}

/** Over each protocol: the status, and whom the upstream was told of. */
async function asked(proxy: ProxyProcess, token: string): Promise<string[]> {
	const answers = await Promise.all(PROTOCOLS.map((protocol) => request(protocol, proxy, { token })));
	return answers.map(({ status, text }) => `${status} ${text}`);
}

const passes = (tenant: string) => PROTOCOLS.map(() => `200 ${tenant}`);
const REFUSED = PROTOCOLS.map(() => '401 unauthorized');

async function readiness(metricsPort: number): Promise<string> {
	const response = await fetch(`http://127.0.0.1:${metricsPort}/readyz`);
	return `${response.status} ${await response.text()}`;
}

function lines(proxy: ProxyProcess, fits: RegExp): LogLine[] {
	return proxy.logs.filter(({ target, message }) => target === 'proxy::jwks' && fits.test(message));
}

describe('issuers', { concurrency: 3 }, () => {
	let upstream: Upstream;
	const open = new AsyncDisposableStack();
	before(async () => {
		upstream = open.use(await startUpstream());
		upstream.script = (exchange) =>
			exchange.respond({ body: headerValues(exchange.request.headers, 'x-proxy-tenant').join() });
	});
	after(() => open.disposeAsync());

	const start = (text: string, options: ProxyOptions = {}) => startProxy({ configText: text, ...options });
	const network = (issuer: TestIssuer, keys: Readonly<Record<string, Value>> = {}) => ({
		issuer: issuer.url,
		audience: 'edge',
		jwks_url: issuer.jwksUrl,
		jwks_ca_path: pki.caPath,
		...keys,
	});

	test('keys of every algorithm come over HTTPS, and equal subs of two issuers are different tenants', async () => {
		await using issuer = await startIssuer('https', ALL);
		const filed = 'https://filed.test';
		const text = configWith(upstream, [
			network(issuer, { algorithms: ALGORITHMS, tenant_prefix: 'net/' }),
			{
				issuer: filed,
				audience: ['other', 'edge'],
				jwks_path: pki.writeFile('filed.json', FIRST),
				tenant_prefix: 'file/',
				tenant_claim: ['org', 'id'],
				required_claims: ['email'],
			},
		]);
		await using proxy = await start(text);
		assert.equal(await readiness(proxy.metricsPort), '200 ready');
		for (const alg of ALGORITHMS) {
			const token = await tokenOf(issuer.url, pairs.get(alg)!, alg, {}, alg);
			assert.deepEqual(await asked(proxy, token), passes('net/alice'), alg);
		}
		const claims = { org: { id: 'alice' }, email: 'a@x.test' };
		assert.deepEqual(await asked(proxy, await tokenOf(filed, first, 'first', claims)), passes('file/alice'));
		for (const [reason, token] of [
			['no required claim "email"', await tokenOf(filed, first, 'first', { org: { id: 'alice' } })],
			['iss', await tokenOf('https://third.test', first, 'first', claims)],
		] as const) {
			assert.deepEqual(await asked(proxy, token), REFUSED, reason);
			await proxy.waitForLog((line) => line.target === 'proxy::auth' && line.reason === reason);
		}
		const labels = { issuer: issuer.url };
		assert.equal(await proxy.metric('proxy_jwks_fetches_total', { ...labels, result: 'success' }), 1);
		assert.equal(await proxy.metric('proxy_jwks_keys', labels), ALGORITHMS.length);
		assert.ok((await proxy.metric('proxy_jwks_age_seconds', labels)) < 60);
	});

	test('a rotation: a removed key ends its cached verdicts at once; an invalid set changes nothing', async () => {
		await using issuer = await startIssuer('https', FIRST);
		await using elsewhere = await startIssuer('https', SECOND);
		await using proxy = await start(configWith(upstream, [network(issuer, { refresh_secs: 0.2 })]));
		const [old, fresh] = [await tokenOf(issuer.url), await tokenOf(issuer.url, second, 'second')];
		await using connections = new AsyncDisposableStack();
		const kept: Connection[] = [];
		for (const protocol of [...PROTOCOLS, ...PROTOCOLS]) kept.push(connections.use(await connect(protocol, proxy)));
		const statuses = async (token: string) => {
			const answers = await Promise.all(kept.map((connection) => connection.request({ token })));
			return answers.map(({ status }) => status);
		};
		assert.deepEqual(await statuses(old), [200, 200, 200, 200]);
		assert.deepEqual(await statuses(fresh), [401, 401, 401, 401]);

		const failures: [cause: RegExp, publish: TestIssuer['publish']][] = [
			[/empty JWK Set/, '{"keys":[]}'],
			[/redirects are not followed/, (_, response) => response.writeHead(302, { location: elsewhere.jwksUrl }).end()],
		];
		for (const [cause, publish] of failures) {
			const after = proxy.logs.length;
			issuer.publish = publish;
			const warning = await proxy.waitForLog((line) => cause.test(String(line.cause)), undefined, after);
			assert.deepEqual([warning.level, warning.message], ['warn', 'keys not fetched; keeping old']);
			assert.deepEqual(await statuses(old), [200, 200, 200, 200]);
			// The pause between two failures grows.
			issuer.publish = FIRST;
			const good = await proxy.metric('proxy_jwks_fetches_total', { result: 'success' });
			await until(
				async () => (await proxy.metric('proxy_jwks_fetches_total', { result: 'success' })) > good,
				'the issuer',
			);
		}
		assert.deepEqual(elsewhere.asked, []);

		issuer.publish = BOTH;
		await until(async () => (await statuses(fresh)).every((status) => status === 200), 'the new key');
		assert.deepEqual(await statuses(old), [200, 200, 200, 200]);
		issuer.publish = SECOND;
		await until(async () => (await statuses(old)).every((status) => status === 401), 'the old key to go');
		assert.deepEqual(await statuses(fresh), [200, 200, 200, 200]);
		assert.equal(lines(proxy, /fetched, changed/).length, 3);
	});

	test('an unknown kid brings the keys early, once in 10 s for all threads and strangers; metadata leads to them', async () => {
		await using issuer = await startIssuer('http', FIRST);
		issuer.other = ({ url }, response) => {
			const metadata = JSON.stringify({ issuer: issuer.url, jwks_uri: issuer.jwksUrl });
			if (url === '/.well-known/openid-configuration') response.end(metadata);
			else response.writeHead(404).end();
		};
		const discovered = { issuer: issuer.url, audience: 'edge', discovery: true };
		await using proxy = await start(configWith(upstream, [discovered]));
		const fetches = () => issuer.asked.filter((path) => path === '/jwks.json').length;
		assert.equal(fetches(), 1);
		const since = performance.now();
		issuer.publish = BOTH;
		const fresh = await tokenOf(issuer.url, second, 'second');
		let early = 0;
		await until(async () => {
			for (let i = 0; i < 2; i++) await asked(proxy, await tokenOf(issuer.url, third, `stranger-${i}`));
			early = Math.max(early, fetches() - 1);
			await sleep(400);
			return (await asked(proxy, fresh)).every((answer) => answer === '200 alice');
		}, 'the new key, without a refresh');
		assert.ok(early <= Math.ceil((performance.now() - since) / 10_000), `${early} fetches`);
		assert.deepEqual(await asked(proxy, await tokenOf(issuer.url)), passes('alice'));
	});

	test('/readyz waits for the first keys, and the listener does not; keys in state_dir that cannot be read are no keys', async () => {
		const stateDir = join(temporaryFolder('state'), 'proxy');
		await using issuer = await startIssuer('https', (_, response) => response.writeHead(503).end());
		const text = configWith(upstream, [network(issuer, { refresh_secs: 1 })], `state_dir = "${stateDir}"`);
		const token = await tokenOf(issuer.url);
		{
			await using proxy = await start(text);
			assert.equal(await readiness(proxy.metricsPort), `503 not ready: no keys of ${issuer.url} yet`);
			assert.deepEqual(await asked(proxy, token), REFUSED);
			await proxy.waitForLog(({ reason }) => reason === 'no keys of the issuer yet');
			issuer.publish = FIRST;
			await until(async () => (await readiness(proxy.metricsPort)) === '200 ready', 'the keys');
			assert.deepEqual(await asked(proxy, token), passes('alice'));
			await until(
				() => existsSync(stateDir) && readdirSync(stateDir).some((name) => name.endsWith('.json')),
				'the file',
			);
		}
		const [name] = readdirSync(stateDir);
		assert.equal(statSync(join(stateDir, name!)).mode & 0o777, 0o600);
		issuer.publish = (_, response) => response.writeHead(500).end();
		writeFileSync(join(stateDir, name!), '{');
		await using proxy = await start(text);
		const warning = await proxy.waitForLog(({ message }) => /^keys in state_dir cannot be read/.test(message));
		assert.deepEqual([warning.level, warning.file, warning.cause], ['warn', join(stateDir, name!), 'is not JSON']);
		assert.deepEqual(await asked(proxy, token), REFUSED);
	});

	test('an outage of an hour changes nothing, even across a restart; after max_stale_secs all tokens are refused', async () => {
		const HOUR = 3_600_000;
		const folder = temporaryFolder('outage');
		const clockFile = join(folder, 'ahead');
		const jump = (ms: number) => {
			writeFileSync(`${clockFile}.new`, `${ms}`);
			renameSync(`${clockFile}.new`, clockFile);
		};
		const env = {
			NODE_OPTIONS: `--import=${new URL('../fixtures/time-jump.ts', import.meta.url).href}`,
			TEST_TIME_FILE: clockFile,
		};
		await using issuer = await startIssuer('https', FIRST);
		const keys = network(issuer, { refresh_secs: 1, max_stale_secs: 7200 });
		const text = configWith(upstream, [keys], `state_dir = "${join(folder, 'state')}"`);
		const exp = Math.floor(Date.now() / 1000) + 24 * 3600;
		const cached = await tokenOf(issuer.url, first, 'first', { exp });
		const fresh = (jti: string) => tokenOf(issuer.url, first, 'first', { exp, jti });
		const forged = await tokenOf(issuer.url, second, 'first', { exp });
		const labels = { issuer: issuer.url };
		const timedOut = (error: NodeJS.ErrnoException) => {
			assert.equal(error.code, 'ECONNRESET');
			return ['timed out'];
		};
		jump(0);
		{
			await using proxy = await start(text, { env });
			assert.deepEqual(await asked(proxy, cached), passes('alice'));
			issuer.publish = (_, response) => response.writeHead(500).end();
			await proxy.waitForLog('keys not fetched; keeping old');
			jump(HOUR);
			await until(async () => (await proxy.metric('proxy_jwks_age_seconds', labels)) > 3590, 'the hour to pass');
			// A worker that reads the file in the middle of a handshake or a request takes it for an hour old: it may time out, and is never refused.
			await until(async () => {
				const answers = await asked(proxy, cached).catch(timedOut);
				assert.ok(!answers.includes(REFUSED[0]!), answers.join());
				return answers.join() === passes('alice').join();
			}, 'the workers to have read the file');
			assert.deepEqual(await asked(proxy, await fresh('one')), passes('alice'));
			assert.deepEqual(await asked(proxy, forged), REFUSED);
			assert.equal(await readiness(proxy.metricsPort), '200 ready');
		}
		{
			await using proxy = await start(text, { env });
			const { age_s: age } = await proxy.waitForLog('keys loaded from state_dir');
			assert.ok((age as number) >= 3590, `${age} s old`);
			assert.equal(await readiness(proxy.metricsPort), '200 ready');
			assert.deepEqual(await asked(proxy, cached), passes('alice'));
			assert.deepEqual(await asked(proxy, forged), REFUSED);
			jump(2 * HOUR + 1000);
			const dropped = await proxy.waitForLog(({ message }) => /older than max_stale_secs/.test(message));
			assert.equal(dropped.level, 'error');
			const notReady = `503 not ready: no keys of ${issuer.url}`;
			await until(async () => (await readiness(proxy.metricsPort)) === notReady, '/readyz to say so');
			// A verdict that was reached with a key ends with it.
			await until(async () => {
				const answers = await asked(proxy, cached).catch(timedOut);
				return answers.every((answer) => answer === REFUSED[0]);
			}, 'all threads');
			await proxy.waitForLog(({ reason }) => reason === 'no keys of the issuer yet');
			issuer.publish = FIRST;
			await until(async () => (await asked(proxy, cached)).every((answer) => answer === '200 alice'), 'the issuer');
		}
	});

	test('a reload takes issuers and their files over as a whole, or keeps the old ones', async () => {
		await using issuer = await startIssuer('https', SECOND);
		const path = pki.writeFile('reloaded.json', FIRST);
		const filed = { issuer: 'https://filed.test', audience: 'edge', jwks_path: path, tenant_prefix: 'a:' };
		await using proxy = await start(configWith(upstream, [filed]));
		const [old, fresh] = [await tokenOf(filed.issuer), await tokenOf(issuer.url, second, 'second')];
		assert.deepEqual([await asked(proxy, old), await asked(proxy, fresh)], [passes('a:alice'), REFUSED]);
		const reload = async () => {
			const after = proxy.logs.length;
			await proxy.reload();
			return proxy.waitForLog(({ message }) => /^identity reload/.test(message), undefined, after);
		};

		const both = [filed, network(issuer, { tenant_prefix: 'b:' })];
		proxy.writeConfig(configWith(upstream, both));
		assert.equal((await reload()).message, 'identity reloaded');
		assert.deepEqual([await asked(proxy, old), await asked(proxy, fresh)], [passes('a:alice'), passes('b:alice')]);

		writeFileSync(path, 'nothing');
		const broken = await reload();
		assert.deepEqual([broken.level, broken.message], ['error', 'identity reload failed; keeping old']);
		assert.match(String(broken.cause), /issuers\[0\]\.jwks_path \(.*\): is not a PEM public key/);
		writeFileSync(path, FIRST);
		await using silent = await startIssuer('https', (_, response) => response.writeHead(500).end());
		proxy.writeConfig(configWith(upstream, [...both, network(silent, { tenant_prefix: 'c:' })]));
		assert.match(String((await reload()).cause), /^no keys of https:.*: status 500$/);
		assert.deepEqual([await asked(proxy, old), await asked(proxy, fresh)], [passes('a:alice'), passes('b:alice')]);

		// The key stays, and the rules do not.
		proxy.writeConfig(configWith(upstream, [{ ...filed, tenant_prefix: 'z:' }]));
		assert.equal((await reload()).message, 'identity reloaded');
		assert.deepEqual([await asked(proxy, old), await asked(proxy, fresh)], [passes('z:alice'), REFUSED]);
	});
});

test('a stalled issuer does not hold up the start until its keys are given up, after 10 s', async () => {
	await using upstream = await startUpstream();
	let isGivenUp = false;
	await using issuer = await startIssuer('https', (_, response) => {
		response.on('close', () => {
			isGivenUp = true;
		});
	});
	const keys = { issuer: issuer.url, audience: 'edge', jwks_url: issuer.jwksUrl, jwks_ca_path: pki.caPath };
	await using proxy = await spawnProxy({ configText: configWith(upstream, [keys]) });
	await proxy.ready();
	assert.deepEqual([issuer.asked.length, isGivenUp], [1, false]);
});
