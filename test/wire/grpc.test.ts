/**
 * gRPC from end to end: a client of `@grpc/grpc-js` with certificate and token, and a server of the same library in the clear. The cases are those of
 * gRPC's interoperability tests.
 */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';
import { type StatusObject, status } from '@grpc/grpc-js';
import type { StatusPage } from '../../packages/proxy/src/control/status/view.ts';
import { PROTOCOLS, request } from '../fixtures/clients.ts';
import { GrpcClient, type GrpcServer, startGrpcServer } from '../fixtures/grpc-interop.ts';
import { startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { ASKED_ONCE, BODY_MODE, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const STREAMS = BODY_MODE === 'streaming';
const MESSAGES = 10_000;
const MAX_BODY = 1_000_000;
/** Long enough for a call to reach its server on a busy machine. */
const TIMEOUT_MS = 2_000;
const CANCELLED = Number(process.env.PROXY_TEST_CANCELLED_CALLS ?? 500);

const pki = await testPki();
const open = new AsyncDisposableStack();
let server: GrpcServer;
let proxy: ProxyProcess;
let client: GrpcClient;
let web: Upstream;
before(async () => {
	server = open.use(await startGrpcServer());
	const type = 'application/grpc-web+proto';
	web = open.use(
		await startUpstream({
			script: (exchange) => exchange.respond({ headers: [['content-type', type]], body: exchange.request.body }),
		}),
	);
	proxy = open.use(
		await startProxy({
			config: { tenant_rps: 0, health_interval_secs: 0.2, health_timeout_secs: 15 },
			log: { access: 'all' },
			tenants: [{ name: 'once', rps: 1 }],
			routes: [
				{ prefix: '/grpc.testing.TestService', upstream: server.url, health_grpc: true, max_body_bytes: MAX_BODY },
				{ prefix: '/web', upstream: web.url },
			],
		}),
	);
	client = open.use(await GrpcClient.to(proxy));
});
after(() => open.disposeAsync());

const lineOf = (from: number) => proxy.waitForLog(({ target }: LogLine) => target === 'proxy::access', undefined, from);

describe('a gRPC call', () => {
	test('empty_unary: an empty message each way', async () => {
		const from = proxy.logs.length;
		const { code, response } = await client.unary('UnaryCall', Buffer.alloc(0)).outcome;
		deepEqual([code, response?.length], [0, 0]);
		const line = await lineOf(from);
		deepEqual([line.status, line.grpc_status, line.protocol], [200, 0, 'h2']);
	});

	test('a gRPC call without a message ends with an empty DATA frame, not with its head', async () => {
		await using stack = new AsyncDisposableStack();
		const endsWithHead: boolean[] = [];
		const upstream = await startHttp2Upstream({
			script: (stream, _headers, body) => {
				endsWithHead.push(stream.endAfterHeaders);
				const fields = { 'content-type': 'application/grpc', 'grpc-status': '0' };
				body.then(() => stream.respond({ ':status': 200, ...fields }, { endStream: true }));
			},
		});
		stack.defer(() => upstream.stop());
		const routes = [{ prefix: '/', upstream: `h2c://${upstream.authority}` }];
		const other = stack.use(await startProxy({ routes, config: ASKED_ONCE }));
		using caller = await GrpcClient.to(other);
		const { call, outcome } = caller.clientStream();
		call.end();
		// A call without a response is an error of the client's library.
		ok((await outcome).details !== 'upstream timeout');
		// A request that is not a call ends with its head.
		equal((await request('h2', other, { method: 'POST', path: '/x' })).status, 200);
		deepEqual(endsWithHead, [false, true]);
	});

	test(`ping_pong: ${MESSAGES} messages, each answered before the next one`, { skip: !STREAMS }, async () => {
		const call = client.duplex();
		let answered = 0;
		const ping = () => call.write(Buffer.from(`ping ${answered}`));
		call.on('data', (message: Buffer) => {
			equal(message.toString(), `ping ${answered}`);
			if (++answered === MESSAGES) call.end();
			else ping();
		});
		ping();
		const [{ code }] = await once(call, 'status');
		deepEqual([code, answered], [0, MESSAGES]);
	});

	test('beyond max_body_bytes ends with RESOURCE_EXHAUSTED, before its response has begun and after', async () => {
		const { code, details } = await client.unary('UnaryCall', Buffer.alloc(MAX_BODY)).outcome;
		deepEqual([code, details], [status.RESOURCE_EXHAUSTED, 'payload too large']);
		if (!STREAMS) return;
		const call = client.duplex();
		const outcome = new Promise<StatusObject>((resolve) => call.once('status', resolve));
		call.on('error', () => {});
		call.write(Buffer.from('ping'));
		await once(call, 'data');
		const from = proxy.logs.length;
		call.write(Buffer.alloc(MAX_BODY));
		const ended = await outcome;
		deepEqual([ended.code, ended.details], [status.RESOURCE_EXHAUSTED, 'payload too large']);
		const line = await proxy.waitForLog(({ ending }: LogLine) => ending === 'broken off', undefined, from);
		deepEqual([line.grpc_status, line.reason], [8, 'payload too large']);
	});

	test('timeout_on_sleeping_server: DEADLINE_EXCEEDED, and the server has had what was left', async () => {
		const deadline = Date.now() + TIMEOUT_MS;
		const { code } = await client.unary('Sleep', Buffer.alloc(0), client.metadata(), { deadline }).outcome;
		equal(code, status.DEADLINE_EXCEEDED);
		ok(server.timeLeft <= TIMEOUT_MS, `${server.timeLeft} ms`);
	});

	test('cancel_after_begin: the server sees the reset, and no breaker counts it', async () => {
		await until(async () => (await proxy.metric('proxy_requests_in_flight')) === 0, 'earlier calls to be over');
		const { cancelled: before, metadata: last } = server;
		const { call, outcome } = client.unary('Sleep', Buffer.alloc(0));
		await until(() => server.metadata !== last, 'the call');
		call.cancel();
		equal((await outcome).code, status.CANCELLED);
		await until(() => server.cancelled > before, 'the end of the call at the server');
		equal(await proxy.metric('proxy_circuit_state'), 0);
		await until(async () => (await proxy.metric('proxy_requests_in_flight')) === 0, 'the gauge');
	});

	test('special_status_message: code and message of the server reach the client', async () => {
		const message = '\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n';
		const fails = client.metadata({ 'x-fails-bin': Buffer.from(`2 ${message}`) });
		const { code, details } = await client.unary('UnaryCall', Buffer.alloc(0), fails).outcome;
		deepEqual([code, details], [2, message]);
		await until(async () => (await proxy.metric('proxy_grpc_responses_total', { code: '2' })) === 1, 'the count');
	});

	test('its status is on the status page, with the upstream and what is spoken to it', async () => {
		const fails = client.metadata({ 'x-fails-bin': Buffer.from('15 lost') });
		equal((await client.unary('UnaryCall', Buffer.alloc(0), fails).outcome).code, 15);
		const upstream = new URL(server.url).host;
		await until(async () => {
			const answer = await fetch(`http://127.0.0.1:${proxy.metricsPort}/status.json`);
			const { grpc, upstreams } = (await answer.json()) as StatusPage;
			const lost = grpc.find(({ code }) => code === 15);
			const item = upstreams.items.find((one) => one.upstream === upstream)!;
			if (lost === undefined) return false;
			deepEqual([lost.status, lost.total, lost.last_ten_minutes], ['DATA_LOSS', 1, 1]);
			deepEqual([lost.upstreams, item.protocol], [[upstream], 'h2']);
			return true;
		}, 'the status');
	});

	test('custom_metadata: initial and trailing metadata come back, binary as well', async () => {
		const metadata = client.metadata({
			'x-grpc-test-echo-initial': 'test_initial_metadata_value',
			'x-grpc-test-echo-trailing-bin': Buffer.from('ababab', 'hex'),
		});
		const { code, initial, trailing } = await client.unary('UnaryCall', Buffer.alloc(1), metadata).outcome;
		equal(code, 0);
		deepEqual(initial!.get('x-grpc-test-echo-initial'), ['test_initial_metadata_value']);
		deepEqual(trailing!.get('x-grpc-test-echo-trailing-bin'), [Buffer.from('ababab', 'hex')]);
	});

	test('has its tenant at the server, and a tenant header of the client is dropped', async () => {
		await client.unary('UnaryCall', Buffer.alloc(0), client.metadata({ 'x-proxy-tenant': 'root' })).outcome;
		deepEqual(server.metadata.get('x-proxy-tenant'), ['tenant']);
	});
});

describe('many gRPC calls that their clients cancel', () => {
	test(`${CANCELLED} of them: every gauge returns to zero, no breaker opens, and the next call is served`, async () => {
		const from = proxy.logs.length;
		// Not at once: of calls that are cancelled in the turn that makes them, the library leaves some open, also without a proxy.
		const at = [1, 2, 5, 20];
		let left = CANCELLED;
		const codes = new Set<number>();
		const worker = async (): Promise<void> => {
			while (left > 0) {
				const wait = at[left-- % at.length]!;
				const { call, outcome } = client.unary('Sleep', Buffer.alloc(left % 3 === 0 ? 100_000 : 10));
				setTimeout(() => call.cancel(), wait);
				codes.add((await outcome).code);
			}
		};
		await Promise.all(Array.from({ length: 32 }, worker));
		// Faster than a connection may reset streams (CVE-2023-44487), the connection ends, and the calls on it.
		if (CANCELLED > 500) for (const code of [status.RESOURCE_EXHAUSTED, status.UNAVAILABLE]) codes.delete(code);
		deepEqual([...codes], [status.CANCELLED]);
		for (const gauge of ['proxy_requests_in_flight', 'proxy_body_memory_bytes', 'proxy_circuit_state']) {
			await until(async () => (await proxy.metric(gauge)) === 0, gauge);
		}
		deepEqual(
			proxy.logs.slice(from).filter(({ target }) => target === 'proxy::breaker'),
			[],
		);
		equal((await client.unary('UnaryCall', Buffer.from('x')).outcome).code, 0);
	});
});

describe('health by grpc.health.v1', () => {
	test('a server that is not serving gets no calls, until it serves again', async () => {
		const call = async () => {
			const { code, details } = await client.unary('UnaryCall', Buffer.from('x')).outcome;
			return `${code} ${details}`;
		};
		server.health.set('', 2);
		await until(async () => (await call()) === '14 upstream unavailable', 'the open breaker');
		server.health.set('', 1);
		await until(async () => (await call()).startsWith('0 '), 'the closed breaker');
	});
});

describe('gRPC-Web', () => {
	for (const protocol of PROTOCOLS) {
		test(`is HTTP: its body passes byte by byte, and a refusal stays HTTP, over ${protocol}`, async () => {
			const headers = { 'content-type': 'application/grpc-web+proto', 'x-grpc-web': '1', 'grpc-timeout': '5S' };
			const body = Buffer.from('00000000020801', 'hex');
			const call = { method: 'POST', path: '/web/a.B/C', headers, body };
			const answer = await request(protocol, proxy, call);
			deepEqual([answer.status, answer.headers['content-type']], [200, 'application/grpc-web+proto']);
			ok(answer.body.equals(body));
			ok(web.requests.at(-1)!.raw.includes('grpc-timeout: 5S\r\n'));
			assertOwnAnswer(await request(protocol, proxy, { ...call, token: null }), 401, 'unauthorized');
		});
	}
});

describe('a refused gRPC call has a gRPC status and the message of the refusal', () => {
	test('RESOURCE_EXHAUSTED over the rate, with retry-after', async () => {
		using once = await GrpcClient.to(proxy, pki.token('once'));
		const calls = Array.from({ length: 5 }, () => once.unary('UnaryCall', Buffer.alloc(0)).outcome);
		const outcomes = await Promise.all(calls);
		const refused = outcomes.find(({ code }) => code !== 0)!;
		deepEqual([refused.code, refused.details], [status.RESOURCE_EXHAUSTED, 'rate limited']);
		deepEqual(refused.trailing!.get('retry-after'), ['1']);
	});
});
