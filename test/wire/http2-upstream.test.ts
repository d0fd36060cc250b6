/** HTTP/2 to upstreams, for clients of both protocols. */
import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { constants, type IncomingHttpHeaders } from 'node:http2';
import { type AddressInfo, createServer } from 'node:net';
import { after, describe, test } from 'node:test';
import { countedBytes, inPieces } from '../fixtures/bodies.ts';
import { type Answer, PROTOCOLS, type Protocol, request } from '../fixtures/clients.ts';
import { echo, type Http2Upstream, type StreamScript, startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { sampleSum } from '../fixtures/prometheus.ts';
import { ASKED_ONCE, BODY_MODE, firstVerdicts, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';

interface Setup {
	readonly upstream: Http2Upstream;
	readonly proxy: ProxyProcess;
	ask(protocol: Protocol, options?: object): Promise<Answer>;
	close(): Promise<void>;
}

async function setUp(script?: StreamScript, options: object = {}): Promise<Setup> {
	const upstream = await startHttp2Upstream(script === undefined ? {} : { script });
	const proxy = await startProxy({
		routes: [{ prefix: '/', upstream: `h2c://${upstream.authority}` }],
		workers: 1,
		breaker: { failures: 100 },
		...options,
		config: { ...ASKED_ONCE, tenant_rps: 0 },
	});
	await firstVerdicts(proxy);
	return {
		upstream,
		proxy,
		ask: (protocol, own = {}) => request(protocol, proxy, own),
		close: async () => {
			await proxy.stop();
			await upstream.stop();
		},
	};
}

const big = countedBytes(1_000_000);
const shared = await setUp();
after(() => shared.close());
const { upstream, proxy, ask } = shared;

/** Nothing is under way, and the connections that there are wait. */
async function atRest(one: ProxyProcess): Promise<void> {
	await until(async () => {
		const scrape = await one.metrics();
		const active = sampleSum(scrape, 'proxy_upstream_connections', { state: 'active' });
		const streams = sampleSum(scrape, 'proxy_upstream_streams');
		return active === 0 && streams === 0 && sampleSum(scrape, 'proxy_requests_in_flight') === 0;
	}, 'all gauges at zero');
}

for (const protocol of PROTOCOLS) {
	describe(`requests of ${protocol} at an HTTP/2 upstream`, () => {
		test('bodies arrive whole, in both directions', async () => {
			upstream.script = echo;
			for (const size of [0, 1, 16_384, 65_536, 1_000_000]) {
				const body = big.subarray(0, size);
				const answer = await ask(protocol, { method: 'POST', path: '/echo', body });
				equal(answer.status, 200);
				ok(answer.body.equals(body), `${size} bytes have changed on their way`);
			}
			const answer = await ask(protocol, { method: 'POST', path: '/pieces', body: inPieces(big, 1, 700, 30_000) });
			ok(answer.body.equals(big));
			await atRest(proxy);
		});

		test('the upstream gets the fields of the contract, and none of a connection', async () => {
			let seen: IncomingHttpHeaders = {};
			upstream.script = (stream, headers) => {
				seen = headers;
				stream.respond({ ':status': 200 });
				stream.end('ok');
			};
			const headers = {
				'X-Own': 'kept',
				cookie: 'a=1; b=2',
				te: 'trailers',
				'x-proxy-tenant': 'forged',
				...(protocol === 'h1' && { 'keep-alive': 'timeout=1', 'proxy-connection': 'x' }),
			};
			const answer = await ask(protocol, { path: '/a/b?c=d', headers });
			equal(answer.status, 200);
			equal(seen[':method'], 'GET');
			equal(seen[':path'], '/a/b?c=d');
			equal(seen[':scheme'], 'http');
			equal(seen[':authority'], upstream.authority);
			equal(seen['x-own'], 'kept');
			equal(seen.cookie, 'a=1; b=2');
			equal(seen.te, 'trailers');
			equal(seen['x-forwarded-proto'], 'https');
			equal(seen['x-forwarded-for'], '127.0.0.1');
			match(String(seen['x-proxy-tenant']), /^(?!forged)/);
			for (const name of [
				'host',
				'connection',
				'keep-alive',
				'proxy-connection',
				'transfer-encoding',
				'content-length',
			]) {
				equal(seen[name], undefined, name);
			}
		});

		test('fields of the answer pass, and a status of any class', async () => {
			for (const status of [200, 201, 206, 301, 404, 418, 500, 599]) {
				upstream.script = (stream) => {
					stream.respond({ ':status': status, 'x-a': '1', 'set-cookie': ['a=1', 'b=2'] });
					stream.end(`says ${status}`);
				};
				const answer = await ask(protocol, {});
				equal(answer.status, status);
				equal(answer.text, `says ${status}`);
				equal(answer.headers['x-a'], '1');
				equal(answer.ended, 'complete');
			}
		});

		test('HEAD, 204, 304, a head alone and interim responses', async () => {
			const cases: [method: string, script: StreamScript, status: number, length: string | undefined][] = [
				[
					'HEAD',
					(stream) => stream.respond({ ':status': 200, 'content-length': 1000 }, { endStream: true }),
					200,
					'1000',
				],
				['GET', (stream) => stream.respond({ ':status': 204 }, { endStream: true }), 204, undefined],
				['GET', (stream) => stream.respond({ ':status': 304, etag: '"1"' }, { endStream: true }), 304, undefined],
				['GET', (stream) => stream.respond({ ':status': 200 }, { endStream: true }), 200, '0'],
				[
					'GET',
					(stream) => {
						stream.additionalHeaders({ ':status': 103, link: '</x>' });
						stream.respond({ ':status': 200, 'content-length': 2 });
						stream.end('ok');
					},
					200,
					'2',
				],
			];
			for (const [method, script, status, length] of cases) {
				upstream.script = script;
				const answer = await ask(protocol, { method });
				equal(answer.status, status);
				equal(answer.headers['content-length'], length);
				equal(answer.ended, 'complete');
				deepEqual(answer.informational, []);
			}
			await atRest(proxy);
		});

		test('a stream that breaks off in the middle of its body is no whole answer', async () => {
			upstream.script = (stream) => {
				stream.respond({ ':status': 200 });
				stream.write('beginning', () => stream.destroy(new Error('breaks off')));
			};
			const answer = await ask(protocol, {});
			if (BODY_MODE === 'collected') equal(answer.status, 502);
			else equal(answer.ended === 'complete', false);
			await atRest(proxy);
		});

		test('what the upstream refuses is sent again, whatever it is, if the body can be repeated', async () => {
			let seen = 0;
			upstream.script = (stream, headers, body) => {
				if (seen++ === 0) return stream.close(constants.NGHTTP2_REFUSED_STREAM);
				echo(stream, headers, body);
			};
			const method = BODY_MODE === 'collected' ? 'POST' : 'DELETE';
			const options = BODY_MODE === 'collected' ? { method, body: Buffer.from('twice') } : { method };
			const answer = await ask(protocol, options);
			equal(answer.status, 200);
			equal(answer.text, BODY_MODE === 'collected' ? 'twice' : '');
			equal(seen, 2);
		});
	});
}

describe('connections to an HTTP/2 upstream', () => {
	test('requests of all clients share one', async () => {
		const own = await setUp(echo);
		try {
			const answers = await Promise.all(
				Array.from({ length: 40 }, (_, i) =>
					own.ask(PROTOCOLS[i % 2]!, { method: 'POST', body: Buffer.from(`body ${i}`.repeat(100)) }),
				),
			);
			for (const [i, answer] of answers.entries()) equal(answer.text, `body ${i}`.repeat(100));
			// One of the probe, one of the requests.
			equal(own.upstream.sessions.length, 2);
			await atRest(own.proxy);
		} finally {
			await own.close();
		}
	});

	test('behind a GOAWAY requests go over a new one, and those under way end as they would', async () => {
		const own = await setUp((stream) => {
			stream.respond({ ':status': 200 });
			setTimeout(() => stream.end('late'), 300);
		});
		try {
			const first = own.ask('h2', {});
			await until(() => own.upstream.streams === 1, 'the first stream');
			for (const session of own.upstream.live) session.goaway(0);
			const second = await own.ask('h2', {});
			equal(second.text, 'late');
			equal((await first).text, 'late');
			equal(own.upstream.sessions.length, 3);
			await atRest(own.proxy);
		} finally {
			await own.close();
		}
	});

	test('an upstream that ends idle connections costs no request its answer', async () => {
		const own = await setUp();
		try {
			for (let i = 0; i < 5; i++) {
				equal((await own.ask('h2', {})).status, 200);
				for (const session of own.upstream.live) session.destroy();
			}
			await atRest(own.proxy);
		} finally {
			await own.close();
		}
	});

	test('an upstream that is killed opens its breaker, and comes back', async () => {
		const own = await setUp(() => {});
		try {
			const asked = own.ask('h2', { method: 'POST' });
			await until(() => own.upstream.streams === 1, 'the stream');
			own.upstream.cut();
			equal((await asked).status, 502);
			await atRest(own.proxy);
		} finally {
			await own.close();
		}
	});

	test('a client that cancels cancels at the upstream, and nobody’s breaker opens', async () => {
		const cancelled: number[] = [];
		upstream.script = (stream) => {
			stream.on('close', () => cancelled.push(stream.rstCode));
		};
		const before = upstream.streams;
		const failures = await Promise.allSettled(Array.from({ length: 20 }, () => ask('h2', { ms: 300 })));
		equal(
			failures.every(({ status }) => status === 'rejected'),
			true,
		);
		await until(() => cancelled.length === upstream.streams - before, 'all streams to be cancelled');
		equal(
			cancelled.every((code) => code === constants.NGHTTP2_CANCEL),
			true,
		);
		upstream.script = echo;
		equal((await ask('h2', {})).status, 200);
		await atRest(proxy);
	});

	test('an upstream that speaks HTTP/1.1 is a bad gateway with its reason', async () => {
		const plain = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n'));
		await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve));
		const { port } = plain.address() as AddressInfo;
		const own = await startProxy({
			routes: [{ prefix: '/', upstream: `h2c://127.0.0.1:${port}` }],
			config: { ...ASKED_ONCE, health: false },
			log: { access: 'errors' },
		});
		try {
			equal((await request('h2', own, {})).status, 502);
			const { reason } = await until(() => own.logs.find(({ target }) => target === 'proxy::access'), 'an access line');
			match(String(reason), /it speaks HTTP\/1\.1/);
		} finally {
			await own.stop();
			plain.close();
		}
	});
});
