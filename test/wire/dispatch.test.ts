/** In this process, where a request can be made to wait for its turn to go to its upstream for as long as a test likes. */
import assert from 'node:assert/strict';
import { type Duplex, duplexPair } from 'node:stream';
import { describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { Http1Front } from '../../packages/proxy/src/data/http1/front.ts';
import { Http2Front } from '../../packages/proxy/src/data/http2/front.ts';
import type { Dispatched } from '../../packages/proxy/src/data/loop/dispatch-queue.ts';
import type { OutgoingBody, OutgoingRequest } from '../../packages/proxy/src/data/upstream/contract.ts';
import type { Endpoint } from '../../packages/proxy/src/data/upstream/endpoint.ts';
import { Upstream } from '../../packages/proxy/src/data/upstream/upstream.ts';
import { DEFAULT_BALANCING } from '../../packages/proxy/src/gates/balancing/settings.ts';
import { RouteTable } from '../../packages/proxy/src/gates/routes.ts';
import { BucketTotal } from '../../packages/proxy/src/memory/bucket-counts.ts';
import { RouteStats } from '../../packages/proxy/src/memory/route-stats.ts';
import { dataFrame, headersFrame, PREFACE, settingsFrame } from '../fixtures/h2-frames.ts';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';
import { FakePlane, settle } from '../unit/data/fixtures/fake-plane.ts';

/** Takes one request, and answers nothing. */
class FakeUpstream {
	head = '';
	body = '';
	complete = false;
	readonly breaker = { admit: () => 0, report: () => {} };
	readonly pool = { take: () => this.#connection };
	readonly versionAndHost = ' HTTP/1.1\r\nhost: upstream\r\n';
	readonly #connection = {
		isConnected: true,
		send: (request: OutgoingRequest, body: OutgoingBody) => {
			this.head = request.headAsText(body);
			this.body = Buffer.concat(body.pieces).toString();
			this.complete = body.complete;
		},
		write: (chunk: Buffer) => {
			this.body += chunk.toString();
			return true;
		},
		finish: () => {
			this.complete = true;
		},
		destroy: () => {},
	};
}

const HEAD = [
	[':method', 'POST'],
	[':path', '/'],
	[':scheme', 'https'],
	[':authority', 'localhost'],
] as const;

/** How a client of each protocol sends the head of a request with a body of unknown length, and then the body. */
const SENDERS = {
	h1: {
		accept: (plane: FakePlane, served: Duplex) =>
			new Http1Front(plane).accept(served as TLSSocket, '192.0.2.1', plane.share()),
		head: 'POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n',
		body: (text: string) => (text === '' ? '0\r\n\r\n' : `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`),
	},
	h2: {
		accept: (plane: FakePlane, served: Duplex) =>
			new Http2Front(plane).accept(served as TLSSocket, '192.0.2.1', plane.share()),
		head: Buffer.concat([PREFACE, settingsFrame(), headersFrame(1, HEAD, { endStream: false })]),
		body: (text: string) => dataFrame(1, text, true),
	},
};

for (const [protocol, { accept, head, body }] of Object.entries(SENDERS)) {
	describe(`a request that waits for its turn to go upstream, over ${protocol}`, () => {
		async function waiting() {
			const plane = new FakePlane();
			const upstream = new FakeUpstream();
			const queued: Dispatched[] = [];
			plane.letsPass = true;
			plane.routes = new RouteTable([
				{
					prefix: '/',
					trailers: true,
					cooldownMs: 1000,
					opening: { failures: 1, tenants: 1 },
					upstream: new Upstream({
						...DEFAULT_BALANCING,
						name: undefined,
						endpoints: [upstream as unknown as Endpoint],
						weights: [1],
						random: Math.random,
					}),
					access: undefined,
					certificateHeaders: undefined,
					requestLimits: plane.requestLimits,
					stats: RouteStats.view(RouteStats.allocate(1), 0),
				},
			]);
			plane.dispatches.add = (request) => void queued.push(request);
			const [client, served] = duplexPair();
			client.on('error', () => {}).resume();
			accept(plane, served);
			client.write(head);
			await settle();
			const dispatch = async () => {
				await until(() => queued.length === 1, 'the request');
				queued[0]!.dispatch(0);
				await until(() => upstream.complete, 'the end of the request');
			};
			return { plane, upstream, queued, client, served, dispatch };
		}

		for (const text of ['', 'hello']) {
			it(`loses nothing of a body of ${text.length} bytes that ends meanwhile`, async () => {
				const { upstream, client, served, dispatch } = await waiting();
				client.write(body(text));
				await settle();
				await dispatch();
				assert.match(upstream.head, /^POST \/ HTTP\/1\.1\r\nhost: upstream\r\n/);
				assert.equal(upstream.body, text);
				served.destroy();
			});
		}

		it('has spent in the gates what the client did not take for its body', async () => {
			const { plane, queued, client, served } = await waiting();
			await plane.pass(3000);
			client.write(body('hello'));
			await settle();
			await until(() => queued.length === 1, 'the request');
			queued[0]!.dispatch(plane.clock.now() + 2);
			const { sumMs } = BucketTotal.of({ bounds: [1], exemplars: false }, [plane.histograms.gates]);
			// Streaming: it has been waiting for its turn all the time.
			assert.equal(sumMs, BODY_MODE === 'streaming' ? 3002 : 2);
			served.destroy();
		});

		it('is gone when its client goes', async () => {
			const { plane, queued, client, served } = await waiting();
			client.write(body('hello'));
			await until(() => queued.length === 1, 'the request');
			assert.equal(queued[0]!.isGone, false);
			served.destroy();
			await until(() => plane.connections === 0, 'the connection to be gone');
			assert.equal(queued[0]!.isGone, true);
		});
	});
}
