import assert from 'node:assert/strict';
import { request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { mayAsk, type Page, startAdmin } from '../../../../packages/proxy/src/control/admin/listener.ts';
import type { Phase } from '../../../../packages/proxy/src/control/admin/readiness.ts';
import type { MetricSources } from '../../../../packages/proxy/src/control/metrics/families.ts';
import { within } from '../../../fixtures/wait.ts';
import { testSources } from '../fixtures/metric-sources.ts';
import { RecordedLog } from '../fixtures/recorded-log.ts';

interface Ready {
	phase: Phase;
	obstacle: string | undefined;
}
const READY: Ready = { phase: 'serving', obstacle: undefined };
const STARTING: Ready = { phase: 'starting', obstacle: 'starting' };

async function listening(sources: MetricSources, readiness: Ready = READY, hosts: string[] = []) {
	const log = new RecordedLog().logger;
	const listener = await startAdmin({ host: '127.0.0.1', port: 0 }, { sources, readiness, log, hosts });
	return { ...listener, [Symbol.dispose]: () => listener.close() };
}

async function call(port: number, path: string, method = 'GET', headers: Record<string, string> = {}) {
	const { promise, resolve, reject } = Promise.withResolvers<import('node:http').IncomingMessage>();
	request({ port, host: '127.0.0.1', path, method, headers, agent: false }, resolve).on('error', reject).end();
	const response = await promise;
	return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

describe('the metrics listener', () => {
	test("answers GET with the format's content type, and HEAD with the same head", async () => {
		using listener = await listening(testSources('a:1').sources);
		const get = await call(listener.port, '/metrics');
		assert.equal(get.status, 200);
		assert.equal(get.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
		assert.equal(Number(get.headers['content-length']), Buffer.byteLength(get.body));
		const head = await call(listener.port, '/metrics', 'HEAD');
		assert.deepEqual([head.status, head.body], [200, '']);
		assert.equal(head.headers['content-type'], get.headers['content-type']);
	});

	test('has pages by their exact path only, whatever the query is', async () => {
		using listener = await listening(testSources().sources);
		const statusOf = async (path: string) => (await call(listener.port, path)).status;
		assert.equal(await statusOf('/metrics?name[]=x'), 200);
		const others = [
			'/',
			'/metrics/',
			'/metricsx',
			'/Metrics',
			'/health',
			'/livez/',
			'/ready',
			'//metrics',
			'/%6detrics',
		];
		for (const path of others) assert.equal(await statusOf(path), 404, path);
	});

	test('answers other methods with 405 and what is allowed', async () => {
		using listener = await listening(testSources().sources);
		for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
			for (const path of ['/metrics', '/livez', '/readyz']) {
				const { status, headers } = await call(listener.port, path, method);
				assert.deepEqual([status, headers.allow], [405, 'GET, HEAD'], `${method} ${path}`);
			}
		}
	});

	test('says at /readyz whether it is ready, and why not, whatever it said before', async () => {
		const readiness = { ...STARTING };
		using listener = await listening(testSources().sources, readiness);
		const said = async (method: string) => {
			const { status, headers, body } = await call(listener.port, '/readyz?verbose', method);
			assert.deepEqual([headers['content-type'], headers['cache-control']], ['text/plain; charset=utf-8', 'no-store']);
			return `${status} ${body}`;
		};
		assert.deepEqual([await said('GET'), await said('HEAD')], ['503 not ready: starting', '503 ']);
		readiness.obstacle = undefined;
		assert.deepEqual([await said('GET'), await said('HEAD')], ['200 ready', '200 ']);
		readiness.obstacle = 'shutting down';
		assert.equal(await said('GET'), '503 not ready: shutting down');
	});

	test('says at /livez that it is alive, ready or not', async () => {
		using listener = await listening(testSources().sources, STARTING);
		const { status, headers, body } = await call(listener.port, '/livez');
		assert.deepEqual([status, headers['cache-control'], body], [200, 'no-store', 'alive']);
		const head = await call(listener.port, '/livez', 'HEAD');
		assert.deepEqual([head.status, head.body], [200, '']);
	});

	test('answers 421 to a Host that DNS rebinding could use, on every readable path', async () => {
		using listener = await listening(testSources().sources, READY, ['Edge.example.com']);
		const statusFor = async (path: string, host: string) => (await call(listener.port, path, 'GET', { host })).status;
		const own = ['127.0.0.1:9090', '[::1]:9090', 'proxy', 'proxy.prod.svc.cluster.local:9090', 'edge.example.com:9090'];
		for (const path of ['/metrics', '/process']) {
			assert.equal(await statusFor(path, 'rebound.example'), 421, path);
			for (const host of own) assert.equal(await statusFor(path, host), 200, `${path} ${host}`);
		}
		for (const path of ['/livez', '/readyz']) assert.equal(await statusFor(path, 'rebound.example'), 200, path);
	});

	test('says at /process in which phase of its life it is', async () => {
		using listener = await listening(testSources().sources, { phase: 'stopping', obstacle: 'shutting down' });
		assert.equal(JSON.parse((await call(listener.port, '/process')).body).phase, 'stopping');
	});

	test('says in one line that its address is taken', async () => {
		using listener = await listening(testSources().sources);
		const address = { host: '127.0.0.1', port: listener.port };
		await assert.rejects(
			startAdmin(address, { sources: testSources().sources, readiness: READY, log: new RecordedLog().logger }),
			{
				name: 'StartError',
				message: `cannot listen on 127.0.0.1:${listener.port} (--metrics-bind): the address is in use (EADDRINUSE); stop the other process or name another port`,
			},
		);
	});

	test('ends a connection whose client does not read the page that it has asked for', async () => {
		// More than the kernel holds of it.
		const body = 'x'.repeat(32 * 2 ** 20);
		const ended = Promise.withResolvers<boolean>();
		const big: Page = ({ socket }) => {
			socket.once('close', () => ended.resolve(socket.writableFinished));
			return { status: 200, body };
		};
		const address = { host: '127.0.0.1', port: 0 };
		const { logger } = new RecordedLog();
		const listener = await startAdmin(address, {
			sources: testSources().sources,
			readiness: READY,
			log: logger,
			status: new Map([['/big', big]]),
			stalledMs: 100,
		});
		const socket = connect(listener.port, '127.0.0.1').on('error', () => {});
		socket.write('GET /big HTTP/1.1\r\nhost: localhost\r\n\r\n');
		try {
			assert.equal(await within(ended.promise, 'the connection to be ended'), false);
		} finally {
			socket.destroy();
			listener.close();
		}
	});

	test('ends open connections when it is closed', async () => {
		const listener = await listening(testSources().sources);
		const socket = connect(listener.port, '127.0.0.1');
		await new Promise((resolve) => socket.once('connect', resolve));
		// Once the server has it, too.
		await call(listener.port, '/metrics');
		listener.close();
		await new Promise((resolve) => socket.once('close', resolve));
	});
});

describe('the name that the page is asked for by', () => {
	const allowed = new Set(['edge-1.example.com']);
	const cases: Record<'yes' | 'no', (string | undefined)[]> = {
		yes: [
			undefined,
			'127.0.0.1:9090',
			'10.0.0.7',
			'[::1]:9090',
			'[fd00::1]',
			'localhost:9090',
			'edge-1',
			'proxy.prod.svc:9090',
			'proxy.prod.svc.cluster.local',
			'box.internal.',
			'EDGE-1.example.com:9090',
		],
		no: [
			'evil.example',
			'edge-1.example.com.evil.example',
			'127.0.0.1.evil.example',
			'a b',
			'',
			'[::1',
			'x@y',
			'local.evil.com:9090',
		],
	};
	for (const [verdict, hosts] of Object.entries(cases)) {
		for (const host of hosts) {
			test(`may be ${JSON.stringify(host)}: ${verdict}`, () => assert.equal(mayAsk(host, allowed), verdict === 'yes'));
		}
	}
});
