/** Traces: which requests become spans, the content of spans, and the trace fields for upstreams. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { connect, h1Raw, PROTOCOLS, type RequestOptions, request } from '../fixtures/clients.ts';
import { Collector } from '../fixtures/collector.ts';
import { GrpcClient, type GrpcServer, startGrpcServer } from '../fixtures/grpc-interop.ts';
import type { OtlpSpan } from '../fixtures/otlp.ts';
import { testPki } from '../fixtures/pki.ts';
import { BODY_MODE, type ProxyProcess, startProxy, testOnce } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';
import { openWebSocket } from '../fixtures/web-socket-client.ts';
import { startWebSocketUpstream, type WebSocketUpstream } from '../fixtures/web-socket-upstream.ts';

const COLLECTED = BODY_MODE === 'collected';
const LIMIT = 1000;
const pki = await testPki();
const SECRET = 'hunter2-hunter2';
const PARENT = 'b7ad6b7169203331';

const FIRST = ['request head', 'token', 'tenant rate', 'path', 'protocol change'];
const LAST = ['dispatch queue', 'circuit breaker', 'upstream'];

let collector: Collector;
before(async () => {
	collector = await Collector.start();
});
after(() => collector.close());

const names = ({ events }: OtlpSpan) => events.map(({ name }) => name);
const newTrace = () => randomBytes(16).toString('hex');

function assertAttributes({ attributes }: OtlpSpan, expected: Readonly<Record<string, unknown>>): void {
	assert.deepEqual(Object.fromEntries(Object.keys(expected).map((name) => [name, attributes[name]])), expected);
}

/** The one span of the trace. */
async function spanOf(traceId: string): Promise<OtlpSpan> {
	const [span, ...more] = await collector.ofTrace(traceId);
	assert.deepEqual(more, []);
	assertInOrder(span!);
	return span!;
}

/** One event after the other, within the span. */
function assertInOrder({ start, end, events }: OtlpSpan): void {
	const times = [start, ...events.map(({ time }) => time), end];
	assert.deepEqual(
		times,
		[...times].sort((a, b) => Number(a - b)),
	);
}

interface Refused {
	readonly what: string;
	readonly options: RequestOptions;
	readonly gates: readonly string[];
	readonly code: string;
	readonly status: number;
}

/** One of each kind: every gate writes into the span in the same way, see unit/data/records/span-queue.test.ts. */
const REFUSED: readonly Refused[] = [
	{
		what: 'with a body that is too large',
		options: { method: 'POST', path: '/up', body: 'y'.repeat(LIMIT + 1) },
		gates: [...FIRST, ...(COLLECTED ? ['body'] : ['route', 'body length'])],
		code: 'payload-too-large',
		status: 413,
	},
];

describe('a request whose traceparent says that it is sampled', () => {
	let upstream: Upstream;
	let broken: Upstream;
	let calls: GrpcServer;
	let sockets: WebSocketUpstream;
	let proxy: ProxyProcess;
	before(async () => {
		[upstream, broken] = await Promise.all([startUpstream(), startUpstream()]);
		[calls, sockets] = await Promise.all([startGrpcServer(), startWebSocketUpstream()]);
		proxy = await startProxy({
			workers: 1,
			config: { tenant_rps: 0, health_interval_secs: 3600, default_cooldown_secs: 3600 },
			limits: { max_request_body_bytes: LIMIT, upstream_timeout_secs: 3 },
			breaker: { failures: 2, tenants: 1 },
			tenants: [{ name: 'few', concurrency: 3 }],
			trace: { endpoint: collector.endpoint, ratio: 0, service_name: 'the-edge', tenants: true },
			routes: [
				{ prefix: '/up', upstream: upstream.url },
				{ prefix: '/broken', upstream: broken.url },
				{ prefix: '/grpc.testing.TestService', upstream: calls.url, health_grpc: true },
				{ prefix: '/ws', upstream: sockets.url, websocket: true },
			],
		});
	});
	after(async () => {
		await proxy[Symbol.asyncDispose]();
		await Promise.all([upstream.close(), broken.close(), calls[Symbol.asyncDispose](), sockets[Symbol.asyncDispose]()]);
	});

	for (const protocol of PROTOCOLS) {
		describe(`over ${protocol}`, () => {
			/** Sends it, and says how to get its span: spans leave in batches, so all requests are sent first. */
			const send = async (options: RequestOptions): Promise<() => Promise<OtlpSpan>> => {
				const traceId = newTrace();
				const headers = { traceparent: `00-${traceId}-${PARENT}-01`, tracestate: 'a=1', ...options.headers };
				await request(protocol, proxy, { ...options, headers });
				return () => spanOf(traceId);
			};
			const cases: Readonly<Record<string, RequestOptions>> = {
				plain: {
					path: `/up/a/b?token=${SECRET}`,
					headers: { cookie: SECRET, 'x-request-id': 'mine' },
					token: pki.token('acme'),
				},
				body: { method: 'POST', path: '/up', body: 'y'.repeat(321), token: pki.token('few') },
				...Object.fromEntries(REFUSED.map(({ what, options }) => [what, options])),
			};
			const sent = new Map<string, () => Promise<OtlpSpan>>();
			let seen: Upstream['requests'][number];
			before(async () => {
				upstream.script = (exchange) => exchange.respond({ body: 'x'.repeat(123) });
				for (const [what, options] of Object.entries(cases)) {
					sent.set(what, await send(options));
					if (what === 'plain') seen = upstream.requests.at(-1)!;
				}
			});

			test('is one span, a child of the client and the parent of the upstream', async () => {
				const span = await sent.get('plain')!();
				assert.equal(span.parentId, PARENT);
				assert.equal(seen.header('traceparent'), `00-${span.traceId}-${span.spanId}-01`);
				assert.equal(seen.header('tracestate'), 'a=1');
				// Without `[log] request_id` that is none of ours.
				assert.equal(seen.header('x-request-id'), 'mine');
				assert.deepEqual([span.name, span.kind, span.status], ['GET /up', 2, 0]);
				assert.deepEqual(names(span), [...FIRST, 'route', ...LAST]);
				assertAttributes(span, {
					'http.request.method': 'GET',
					'http.response.status_code': 200,
					'http.route': '/up',
					'url.scheme': 'https',
					'url.path': '/up/a/b',
					'network.protocol.name': 'http',
					'network.protocol.version': protocol === 'h2' ? '2' : '1.1',
					'client.address': '127.0.0.1',
					'server.address': '127.0.0.1',
					'http.response.body.size': 123,
					'proxy.upstream': upstream.authority,
					'proxy.upstream.attempts': 1,
					'proxy.tenant': 'acme',
					'error.type': undefined,
					'proxy.refused': undefined,
				});
				assert.equal(span.resource['service.name'], 'the-edge');
				// Wall-clock time, whatever the monotonic one counts from.
				const age = Date.now() - Number(span.start / 1_000_000n);
				assert.ok(age > -1000 && age < 60_000, `${age} ms old`);
				const text = JSON.stringify(span, (_, value) => (typeof value === 'bigint' ? `${value}` : value));
				assert.ok(!text.includes(SECRET) && !text.includes('eyJ'), text);
			});

			test('of a WebSocket is one span, which ends with the tunnel', async () => {
				const traceId = newTrace();
				const headers = { traceparent: `00-${traceId}-${PARENT}-01` };
				const client = await openWebSocket(protocol, proxy, { path: '/ws', ws: { headers, perMessageDeflate: false } });
				client.ws.send('up');
				assert.equal(await client.text(), 'up');
				const between = await send({ path: '/nowhere' });
				client.ws.close(1000);
				await client.closed;
				await client[Symbol.asyncDispose]();
				const [span, meanwhile] = await Promise.all([spanOf(traceId), between()]);
				assert.ok(span.end > meanwhile.end, 'the span ends with the tunnel');
				assert.equal(span.parentId, PARENT);
				const { request: seen } = sockets.accepted.at(-1)!;
				assert.equal(seen.headers.traceparent, `00-${traceId}-${span.spanId}-01`);
				assert.deepEqual(names(span), [...FIRST, 'route', ...LAST]);
				const method = protocol === 'h2' ? 'CONNECT' : 'GET';
				assert.deepEqual([span.name, span.status], [`${method} /ws`, 0]);
				assertAttributes(span, {
					'http.request.method': method,
					'http.response.status_code': protocol === 'h2' ? 200 : 101,
					'http.route': '/ws',
					'network.protocol.version': protocol === 'h2' ? '2' : '1.1',
					'http.request.body.size': 16,
					'http.response.body.size': 8,
					'proxy.upstream': new URL(sockets.url).host,
					'proxy.ending': undefined,
					'error.type': undefined,
				});
			});

			for (const { what, gates, code, status } of REFUSED) {
				test(`${what} has the gates up to the one that refused it, and its reason`, async () => {
					const span = await sent.get(what)!();
					assert.deepEqual(names(span), gates);
					const { attributes } = span.events.at(-1)!;
					assert.equal(attributes['proxy.refused'], code);
					assert.ok(attributes['proxy.reason'], 'a reason');
					for (const event of span.events.slice(0, -1)) assert.deepEqual(event.attributes, {}, event.name);
					// A client's mistake is not an error of the server.
					assert.equal(span.status, 0);
					assertAttributes(span, {
						'http.response.status_code': status,
						'proxy.refused': code,
						'proxy.reason': attributes['proxy.reason'],
						'error.type': undefined,
					});
				});
			}

			test('ends when its answer has ended, or its client has left', async () => {
				const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
				upstream.script = async (exchange) => {
					exchange.startChunked();
					exchange.chunk('first');
					await asked;
					exchange.chunk('last');
					exchange.lastChunk();
				};
				const answered = () => proxy.metric('proxy_requests_total', { status: '200', upstream: upstream.authority });
				const [count, answers] = [upstream.requests.length, await answered()];
				const traceId = newTrace();
				await using client = await connect(protocol, proxy);
				const answer = client.request({ path: '/up', headers: { traceparent: `00-${traceId}-${PARENT}-01` } });
				await upstream.request(count + 1);
				if (!COLLECTED) await until(async () => (await answered()) > answers, 'the head of the answer');
				const between = await send({ path: '/nowhere' });
				ask();
				assert.equal((await answer).text, 'firstlast');

				upstream.script = (exchange) => exchange.stall();
				const leaving = newTrace();
				const other = await connect(protocol, proxy);
				const none = other.request({ path: '/up', headers: { traceparent: `00-${leaving}-${PARENT}-01` } });
				await upstream.request(count + 2);
				await other.close();
				await none;

				const [whole, meanwhile, left] = await Promise.all([spanOf(traceId), between(), spanOf(leaving)]);
				assert.ok(whole.end > meanwhile.end, 'the span ends with the answer');
				const verdict = whole.events.at(-1)!.time;
				assert.equal(
					verdict < meanwhile.start,
					!COLLECTED,
					'streaming: the verdict on the upstream comes with its head',
				);
				assertAttributes(left, { 'proxy.ending': 'client gone', 'http.response.status_code': undefined });
				assert.deepEqual(names(left), [...FIRST, 'route', ...LAST.slice(0, 2)]);
			});

			testOnce('makes no span without that flag, and its traceparent goes on as it came', async () => {
				upstream.script = (exchange) => exchange.respond({ body: 'ok' });
				const traceId = newTrace();
				const traceparent = `00-${traceId}-${PARENT}-00`;
				await request(protocol, proxy, { path: '/up', headers: { traceparent, tracestate: 'a=1' } });
				const first = upstream.requests.at(-1)!;
				assert.deepEqual([first.header('traceparent'), first.header('tracestate')], [traceparent, 'a=1']);
				// Malformed: a new trace, which a ratio of 0 does not sample.
				await request(protocol, proxy, { path: '/up', headers: { traceparent: `${traceparent}1`, tracestate: 'a=1' } });
				const fresh = upstream.requests.at(-1)!;
				assert.match(fresh.header('traceparent')!, /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
				assert.notEqual(fresh.header('traceparent')!.slice(3, 35), traceId);
				assert.equal(fresh.header('tracestate'), undefined);
				// What is exported behind them shows that they are not.
				await (await send({ path: '/nowhere' }))();
				assert.deepEqual(
					collector.spans.filter((span) => span.traceId === traceId || span.parentId === ''),
					[],
				);
			});
		});
	}

	test('of a gRPC call is one span with its status, a child of the client and the parent of the upstream', async () => {
		using client = await GrpcClient.to(proxy);
		const called = async (fields: Record<string, string | Buffer>) => {
			const traceId = newTrace();
			const metadata = client.metadata({ traceparent: `00-${traceId}-${PARENT}-01`, ...fields });
			await client.unary('UnaryCall', Buffer.from('up'), metadata).outcome;
			return traceId;
		};
		const good = await called({});
		const [seen] = calls.metadata.get('traceparent');
		const failing = await called({ 'x-fails-bin': Buffer.from('5 not here') });
		const [span, failed] = await Promise.all([good, failing].map(spanOf));
		assert.equal(span!.parentId, PARENT);
		assert.equal(seen, `00-${good}-${span!.spanId}-01`);
		assert.equal(span!.name, 'POST /grpc.testing.TestService');
		assertAttributes(span!, {
			'http.response.status_code': 200,
			'url.path': '/grpc.testing.TestService/UnaryCall',
			'network.protocol.version': '2',
			'rpc.system': 'grpc',
			'rpc.grpc.status_code': 0,
			'http.request.body.size': 7,
			'http.response.body.size': 7,
			'proxy.upstream': new URL(calls.url).host,
		});
		assertAttributes(failed!, { 'http.response.status_code': 200, 'rpc.grpc.status_code': 5 });
	});

	test('has the gate at which it fails after the others, and is an error then', async () => {
		const send = async (path: string) => {
			const traceId = newTrace();
			await request('h1', proxy, { path, headers: { traceparent: `00-${traceId}-${PARENT}-01` } });
			return traceId;
		};
		upstream.script = (exchange) => exchange.stall();
		const slow = await send('/up');
		upstream.script = (exchange) => exchange.respond({ status: 500 });
		const failing = await send('/up');
		broken.script = (exchange) => exchange.reset();
		const breaking = [await send('/broken'), await send('/broken'), await send('/broken')];
		const [late, theirs, failed, , open] = await Promise.all([slow, failing, ...breaking].map(spanOf));
		assert.deepEqual(names(late!), [...FIRST, 'route', ...LAST]);
		assert.deepEqual([late!.status, late!.message], [2, 'no response within 3 s']);
		assertAttributes(late!, { 'http.response.status_code': 504, 'error.type': 'upstream-timeout' });
		// The upstream's own: no gate has refused anything.
		assertAttributes(theirs!, { 'http.response.status_code': 500, 'error.type': '500', 'proxy.refused': undefined });
		assertAttributes(failed!, { 'http.response.status_code': 502, 'error.type': 'bad-gateway' });
		assert.deepEqual(names(open!), [...FIRST, 'route', 'dispatch queue', 'circuit breaker']);
		assertAttributes(open!, { 'http.response.status_code': 503, 'error.type': 'upstream-unavailable' });
	});
});

describe('a ratio of 1', () => {
	testOnce('samples each request that brings no traceparent, also one that cannot be read', async () => {
		const own = await Collector.start();
		const upstream = await startUpstream();
		await using proxy = await startProxy({
			workers: 1,
			trace: { endpoint: own.endpoint, ratio: 1 },
			routes: [{ prefix: '/', upstream: upstream.url }],
		});
		for (const protocol of PROTOCOLS) await request(protocol, proxy, { path: '/a', token: pki.token('acme') });
		// Two Hosts: a request whose head is refused; and no HTTP at all.
		for (const bytes of ['GET /h HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n', 'GARBAGE\r\n\r\n']) {
			await using raw = await h1Raw(proxy);
			raw.send(bytes);
			await raw.closed;
		}
		await request('h1', proxy, { path: '/a', headers: { traceparent: `00-${newTrace()}-${PARENT}-00` } });
		assert.equal(await proxy.stop(), 0);
		const { spans } = own;
		assert.deepEqual(
			spans.map(({ parentId }) => parentId),
			['', '', '', ''],
		);
		for (const [i, seen] of upstream.requests.slice(0, 2).entries()) {
			assert.equal(seen.header('traceparent'), `00-${spans[i]!.traceId}-${spans[i]!.spanId}-01`);
			assert.equal(spans[i]!.attributes['proxy.tenant'], undefined);
		}
		for (const span of spans.slice(2)) {
			assert.deepEqual(names(span), ['request head']);
			assertAttributes(span, { 'http.response.status_code': 400, 'proxy.refused': 'bad-request' });
		}
		assert.equal(new Set(spans.map(({ traceId }) => traceId)).size, 4);
		await own.close();
		await upstream.close();
	});
});
