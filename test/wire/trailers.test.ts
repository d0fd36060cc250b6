import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Answer, PROTOCOLS, type Protocol, type RequestOptions, request } from '../fixtures/clients.ts';
import { type Http2Upstream, startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { type HeaderList, headerValues } from '../fixtures/http1-message.ts';
import { ASKED_ONCE, BODY_MODE, firstVerdicts, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { type Lane, type Stage, startLanes } from '../fixtures/stage.ts';
import type { RecordedRequest } from '../fixtures/upstream.ts';

const MAX_HEADER_BYTES = 2048;
/** More than the windows and buffers on the way hold at once. */
const LONG = 'x'.repeat(1_000_000);
const GRPC: HeaderList = [
	['grpc-status', '5'],
	['grpc-message', 'caf%C3%A9 not found'],
	['grpc-status-details-bin', 'CAUSCW5vdCBmb3VuZA'],
	['my_key', 'a'],
];
const NOT_PASSED: HeaderList = [
	['host', 'evil'],
	['x-proxy-tenant', 'evil'],
	['x_proxy_tenant', 'evil'],
	['authorization', 'Bearer evil'],
	['x-forwarded-for', '192.0.2.66'],
	['set-cookie', 'evil'],
	['content-type', 'evil'],
	['client-cert', 'evil'],
];

/** node:http2 does not send `host` in trailers. */
const NOT_PASSED_OVER_HTTP2 = NOT_PASSED.filter(([name]) => name !== 'host');

let edge: Stage;
/** It has the same upstream as the route without trailers. */
let first: Lane;
before(async () => {
	edge = await startLanes({
		lanes: 5,
		breaker: { failures: 100 },
		limits: { max_header_bytes: MAX_HEADER_BYTES },
		routes: [{ prefix: '/without', trailers: false }],
	});
	first = edge.lane();
});
after(() => edge.close());

/** A client that wants trailers; over HTTP/2 it need not say so. */
const wanting = (protocol: Protocol) => (protocol === 'h1' ? { te: 'trailers', connection: 'te' } : {});

for (const protocol of PROTOCOLS) {
	describe(`trailers of a request over ${protocol}`, () => {
		let lane: Lane;
		before(() => {
			lane = edge.lane();
		});

		async function received(options: RequestOptions, path = lane.path): Promise<RecordedRequest> {
			const answer = await edge.request(protocol, { method: 'POST', path, ...options });
			assert.equal(answer.status, 200);
			return lane.upstream.requests.at(-1)!;
		}

		it('reach the upstream after the body, without those that belong into a head', async () => {
			for (const body of ['', 'hello', LONG]) {
				const request = await received({ body, trailers: [...GRPC, ...NOT_PASSED] });
				const { headers } = request;
				assert.equal(String(request.body), body);
				assert.deepEqual(request.trailers, GRPC);
				assert.deepEqual(headerValues(headers, 'content-length'), []);
				assert.doesNotMatch(JSON.stringify(headers), /evil|192\.0\.2\.66|caf/);
			}
		});

		it('are announced if they are known in time', async () => {
			const { headers } = await received({
				...{ body: 'a', trailers: [['x-sum', '1']], headers: { trailer: 'X-Sum, Content-Length' } },
			});
			assert.deepEqual(headerValues(headers, 'trailer'), ['x-sum']);
			const unannounced = await received({ body: 'a', trailers: [['x-sum', '1']] });
			assert.deepEqual(headerValues(unannounced.headers, 'trailer'), BODY_MODE === 'collected' ? ['x-sum'] : []);
		});

		it('are dropped if the body has declared its length, which leaves HTTP/1.1 no room for them', async () => {
			if (protocol === 'h1') return;
			const { headers, body, trailers } = await received({
				...{ body: 'hello', trailers: [['x-sum', '1']], headers: { 'content-length': '5' } },
			});
			assert.deepEqual(headerValues(headers, 'content-length'), ['5']);
			assert.deepEqual([String(body), trailers], ['hello', []]);
		});

		it('are dropped if the route says so', async () => {
			const answer = await edge.request(protocol, {
				...{ method: 'POST', path: '/without', body: 'hello', trailers: GRPC, headers: { trailer: 'grpc-status' } },
			});
			assert.equal(answer.status, 200);
			const { headers, body, trailers } = first.upstream.requests.findLast(({ target }) => target === '/without')!;
			assert.deepEqual([String(body), trailers, headerValues(headers, 'trailer')], ['hello', [], []]);
		});

		it('may be as long as a head, and no longer', async () => {
			const value = 'a'.repeat(MAX_HEADER_BYTES - 64);
			const { trailers } = await received({ body: 'a', trailers: [['x-long', value]] });
			assert.deepEqual(trailers, [['x-long', value]]);
			const tooLong = await edge.request(protocol, {
				...{ method: 'POST', path: lane.path, body: 'a', trailers: [['x-long', 'a'.repeat(MAX_HEADER_BYTES)]] },
			});
			assert.equal(tooLong.status, protocol === 'h1' ? 400 : 0);
			assert.equal((await lane.counted())['502'], undefined);
		});
	});

	describe(`trailers of a response over ${protocol}`, () => {
		let lane: Lane;
		before(() => {
			lane = edge.lane();
		});

		async function answered(
			chunks: readonly string[],
			trailers: HeaderList,
			{ headers = wanting(protocol), ...options }: RequestOptions = {},
			upstreamHeaders: HeaderList = [],
		): Promise<Answer> {
			lane.upstream.script = (exchange) => exchange.chunked(chunks, { trailers, headers: upstreamHeaders });
			const answer = await edge.request(protocol, { path: lane.path, headers, ...options });
			assert.deepEqual([answer.status, answer.ended], [200, 'complete']);
			return answer;
		}

		it('reach the client after the body, without those that belong into a head', async () => {
			for (const chunks of [[], ['hello'], ['hel', 'lo'], [LONG]]) {
				const { text, trailers, headers } = await answered(chunks, [...GRPC, ...NOT_PASSED]);
				assert.equal(text, chunks.join(''));
				assert.deepEqual(trailers, GRPC);
				assert.equal(headers['content-length'], undefined);
				assert.doesNotMatch(JSON.stringify(headers), /evil|caf/);
			}
		});

		it('are announced to an HTTP/1.1 client if they are known in time', async () => {
			const announced = await answered(['a'], [['x-sum', '1']], {}, [['Trailer', 'X-Sum, Host']]);
			assert.equal(announced.headers.trailer, protocol === 'h1' ? 'x-sum' : undefined);
			// Heads that come again are remembered.
			for (let i = 0; i < 3; i++) {
				const again = await answered(['a'], [['x-sum', '1']], {}, [['Trailer', 'X-Sum, Host']]);
				assert.equal(again.headers.trailer, announced.headers.trailer);
			}
			const { headers } = await answered(['a'], [['x-sum', '1']]);
			assert.equal(headers.trailer, protocol === 'h1' && BODY_MODE === 'collected' ? 'x-sum' : undefined);
		});

		it('are only for an HTTP/1.1 client that has asked for them', async () => {
			const { trailers, headers, text } = await answered(['hello'], GRPC, { headers: {} }, [
				['Trailer', 'grpc-status'],
			]);
			assert.deepEqual(trailers, protocol === 'h1' ? [] : GRPC);
			assert.deepEqual([text, headers.trailer], ['hello', undefined]);
		});

		it('are dropped if the route says so', async () => {
			const { upstream } = first;
			upstream.script = (exchange) =>
				exchange.chunked(['hello'], { trailers: GRPC, headers: [['Trailer', 'grpc-status']] });
			const answer = await edge.request(protocol, { path: '/without', headers: wanting(protocol) });
			upstream.script = (exchange) => exchange.respond({ body: 'ok' });
			assert.deepEqual([answer.text, answer.trailers, answer.headers.trailer], ['hello', [], undefined]);
		});

		it('may be as long as a request head; longer or malformed ones are a broken response', async () => {
			const value = 'a'.repeat(MAX_HEADER_BYTES - 64);
			assert.deepEqual((await answered(['a'], [['x-long', value]])).trailers, [['x-long', value]]);
			for (const trailers of [`x: ${'a'.repeat(MAX_HEADER_BYTES)}`, 'x : y']) {
				lane.upstream.script = (exchange) => {
					exchange.startChunked();
					exchange.chunk('hello');
					exchange.write(`0\r\n${trailers}\r\n\r\n`);
				};
				const answer = await edge.request(protocol, { path: lane.path, headers: wanting(protocol), method: 'POST' });
				if (BODY_MODE === 'collected') assert.equal(answer.status, 502, trailers);
				else assert.notEqual(answer.ended, 'complete', trailers);
			}
		});
	});
}

describe('trailers, with an upstream that speaks HTTP/2,', () => {
	let upstream: Http2Upstream;
	let proxy: ProxyProcess;
	/** Of the requests that have come. */
	const received: (readonly [string, string])[][] = [];

	before(async () => {
		upstream = await startHttp2Upstream({
			script: (stream, _headers, body) => {
				stream.once('trailers', (_trailers, _flags, raw: readonly string[]) => received.push(pairs(raw)));
				void body.then((bytes) => {
					stream.respond({ ':status': 200 }, { waitForTrailers: true });
					stream.once('wantTrailers', () =>
						stream.sendTrailers(Object.fromEntries([...GRPC, ...NOT_PASSED_OVER_HTTP2])),
					);
					stream.end(bytes);
				});
			},
		});
		proxy = await startProxy({
			config: ASKED_ONCE,
			routes: [
				{ prefix: '/', upstream: `h2c://${upstream.authority}` },
				{ prefix: '/without', upstream: `h2c://${upstream.authority}`, trailers: false },
			],
		});
		await firstVerdicts(proxy);
	});
	after(async () => {
		await proxy?.[Symbol.asyncDispose]();
		await upstream?.stop();
	});

	for (const protocol of PROTOCOLS) {
		it(`pass in both directions over ${protocol}, without those that belong into a head`, async () => {
			for (const body of ['', 'hello', LONG]) {
				received.length = 0;
				const trailers = [...GRPC, ...NOT_PASSED_OVER_HTTP2];
				const answer = await request(protocol, proxy, { method: 'POST', body, trailers, headers: wanting(protocol) });
				assert.deepEqual([answer.status, answer.text, answer.trailers], [200, body, GRPC]);
				assert.deepEqual(received, [GRPC]);
			}
		});

		it(`are dropped in both directions over ${protocol} if the route says so`, async () => {
			received.length = 0;
			const options = { method: 'POST', path: '/without', body: 'hello', trailers: GRPC, headers: wanting(protocol) };
			const answer = await request(protocol, proxy, options);
			assert.deepEqual([answer.status, answer.text, answer.trailers], [200, 'hello', []]);
			assert.deepEqual(received, []);
		});
	}
});

function pairs(raw: readonly string[]): (readonly [string, string])[] {
	return Array.from({ length: raw.length / 2 }, (_, i) => [raw[2 * i]!, raw[2 * i + 1]!] as const);
}
