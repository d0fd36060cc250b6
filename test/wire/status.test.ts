/** The status page of the real command: its heads, its JSON and their limits. What it looks like is test/system/status. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { hostname } from 'node:os';
import { after, before, describe, test } from 'node:test';
import type { StatusPage } from '../../packages/proxy/src/control/status/view.ts';
import { connect, isAccepted, PROTOCOLS, request } from '../fixtures/clients.ts';
import { testPki } from '../fixtures/pki.ts';
import { type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until, within } from '../fixtures/wait.ts';

const pki = await testPki();
const SECRET_TENANT = 'tenant-of-the-test';

async function ask(proxy: ProxyProcess, path: string, headers: Record<string, string> = {}, method = 'GET') {
	const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
	const options = { host: '127.0.0.1', port: proxy.metricsPort, path, method, headers, agent: false };
	httpRequest(options, resolve).on('error', reject).end();
	const response = await within(promise, `the answer to ${path}`);
	return { status: response.statusCode!, headers: response.headers, response };
}

async function read(response: IncomingMessage): Promise<string> {
	let text = '';
	for await (const chunk of response.setEncoding('utf8')) text += chunk;
	return text;
}

async function page(proxy: ProxyProcess, path: string, headers: Record<string, string> = {}, method = 'GET') {
	const answer = await ask(proxy, path, headers, method);
	return { ...answer, body: await read(answer.response) };
}

async function status(proxy: ProxyProcess, query = ''): Promise<StatusPage> {
	return JSON.parse((await page(proxy, `/status.json${query}`)).body);
}

describe('the status page', () => {
	let upstream: Upstream;
	let proxy: ProxyProcess;
	const open = new AsyncDisposableStack();
	before(async () => {
		upstream = open.use(await startUpstream());
		proxy = open.use(
			await startProxy({
				config: { tenant_rps: 0 },
				tenants: [{ name: SECRET_TENANT, concurrency: 3 }],
				status: { hosts: ['edge.example.com'] },
				routes: [{ prefix: '/up', upstream: upstream.url }],
			}),
		);
	});
	after(() => open.disposeAsync());

	test('is one document that asks for nothing else, and runs and styles nothing but its own', async () => {
		const { status, headers, body } = await page(proxy, '/');
		assert.equal(status, 200);
		assert.equal(headers['content-type'], 'text/html; charset=utf-8');
		const policy = headers['content-security-policy'] as string;
		assert.match(policy, /^default-src 'none'; /);
		assert.match(policy, /frame-ancestors 'none'/);
		assert.doesNotMatch(policy, /unsafe|\*|https?:/);
		const blocks = [...body.matchAll(/<(script|style)>([\s\S]*?)<\/\1>/g)].map(([, , text]) => text!);
		assert.equal(blocks.length, 4);
		for (const text of blocks) {
			assert.ok(policy.includes(`'sha256-${createHash('sha256').update(text).digest('base64')}'`), text.slice(0, 60));
		}
		assert.doesNotMatch(
			body.replaceAll(/<(script|style)>[\s\S]*?<\/\1>/g, ''),
			/\b(?:src|srcset|action|poster)="(?!\/)|url\(|style=|\son\w+=/,
		);
	});

	test('is kept to itself: no frame, no cache, no guess at its type, no referrer to others', async () => {
		for (const path of ['/', '/status/page', '/status.json']) {
			const { headers } = await page(proxy, path);
			assert.equal(headers['cache-control'], 'no-store', path);
			assert.equal(headers['x-frame-options'], 'DENY', path);
			assert.equal(headers['x-content-type-options'], 'nosniff', path);
			assert.equal(headers['referrer-policy'], 'no-referrer', path);
			assert.equal(headers['cross-origin-resource-policy'], 'same-origin', path);
			assert.match(String(headers['content-security-policy']), /frame-ancestors 'none'/, path);
		}
	});

	test('says as JSON what has happened: requests, refusals, handshakes, over both protocols', async () => {
		const before = await status(proxy);
		assert.deepEqual([before.schema, before.well, before.problems], [1, true, []]);
		for (const protocol of PROTOCOLS) {
			assert.equal((await request(protocol, proxy, { path: '/up/x' })).status, 200);
			assert.equal((await request(protocol, proxy, { path: '/up/x', token: null })).status, 401);
			assert.equal((await request(protocol, proxy, { path: '/nowhere' })).status, 404);
		}
		assert.equal(await isAccepted(proxy, { cert: pki.clients.expired }), false);
		const now = await until(async () => {
			const now = await status(proxy);
			return now.handshakes.failed_total > 0 && now.refusals.length === 2 ? now : undefined;
		}, 'the counts');
		const total = (reason: string) => now.refusals.find((one) => one.reason === reason);
		assert.deepEqual(total('token missing'), { reason: 'token missing', status: 401, total: 2, last_ten_minutes: 2 });
		assert.deepEqual(total('no route'), { reason: 'no route', status: 404, total: 2, last_ten_minutes: 2 });
		assert.deepEqual(now.handshakes.failures, [{ reason: 'expired', total: 1, last_ten_minutes: 1 }]);
		assert.equal(now.upstreams.items[0]!.requests_total, 2);
		assert.deepEqual(now.upstreams.items[0]!.routes, ['/up']);
		assert.deepEqual([now.upstreams.items[0]!.protocol, now.connections.websockets], ['http/1.1', 0]);
		assert.equal(now.upstreams.items[0]!.upstream, upstream.authority);
		assert.equal(now.process.host, hostname());
		assert.equal(now.workers.listening, 2);
		assert.equal(now.certificates[0]!.days_left, 59);
		assert.equal(now.traffic.requests_total, before.traffic.requests_total + 6);
	});

	test('shows no token, no key and no tenant’s name', async () => {
		const token = pki.token(SECRET_TENANT);
		await using connection = await connect('h2', proxy);
		await connection.request({ path: `/up/${SECRET_TENANT}`, token });
		for (const path of ['/', '/status.json', '/?rows=200']) {
			const { body } = await page(proxy, path);
			for (const secret of [SECRET_TENANT, token, token.split('.')[2]!, 'PRIVATE KEY', 'BEGIN']) {
				assert.ok(!body.includes(secret), `${path} shows ${secret.slice(0, 20)}`);
			}
		}
		assert.equal((await status(proxy)).tenants, null);
	});
});

test('--no-status takes the page away, and nothing else', async () => {
	await using proxy = await startProxy({ args: ['--no-status'] });
	for (const path of ['/', '/status.json', '/status/page']) assert.equal((await page(proxy, path)).status, 404, path);
	assert.equal((await page(proxy, '/metrics')).status, 200);
});
