/** Errors of our own where callbacks enter: each costs the request at hand, or its connection, and nothing stays counted. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { type Duplex, duplexPair } from 'node:stream';
import { describe, it, type TestContext } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { createLogger, type LogRecord, parseLogFilter } from '../../../../packages/gate/src/shared/log.ts';
import * as collected from '../../../../packages/proxy/src/data/body/collected.ts';
import * as streaming from '../../../../packages/proxy/src/data/body/streaming.ts';
import { Http1Request } from '../../../../packages/proxy/src/data/http1/request.ts';
import { Http2Front } from '../../../../packages/proxy/src/data/http2/front.ts';
import { STATE } from '../../../../packages/proxy/src/data/request/state.ts';
import type { ResponseHandler } from '../../../../packages/proxy/src/data/upstream/contract.ts';
import { Http2UpstreamConnection } from '../../../../packages/proxy/src/data/upstream/http2/connection.ts';
import { Http2Pool } from '../../../../packages/proxy/src/data/upstream/http2/pool.ts';
import {
	dataFrame,
	FRAME,
	FrameReader,
	goawayFrame,
	headersFrame,
	PREFACE,
	pingFrame,
	requestFields,
	rstStreamFrame,
	SETTING,
	settingsFrame,
	windowUpdateFrame,
} from '../../../fixtures/h2-frames.ts';
import { until } from '../../../fixtures/wait.ts';
import { Client, Edge, LIMITED, QUEUE_TIMEOUT_MS } from '../fixtures/fake-edge.ts';
import { FakeHttp2Server } from '../fixtures/fake-h2-server.ts';
import { FakePlane, LIMITS, settle } from '../fixtures/fake-plane.ts';
import type { FakeSocket, FakeUpstream } from '../fixtures/fake-upstream.ts';
import { Http1Client } from '../fixtures/http1-client.ts';

const injected = () => {
	throw new Error('injected');
};
const CHUNK = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n';
/** Of a response with a body, on the first stream. */
const HEAD = headersFrame(1, [[':status', '200']], { endStream: false });
const RESPONSE = headersFrame(1, [[':status', '200']]);
const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n';

function answerAll(socket: FakeSocket): void {
	socket.accept();
	socket.answer(ANSWER);
	socket.answer('w'.repeat(5000));
}

for (const mode of [collected, streaming]) {
	describe(`an internal error: ${mode.bodyMode}`, () => {
		for (const [what, limits, part] of [
			['a connection is made, without limits', undefined, 'open'],
			['a connection is made, with limits', LIMITED, 'open'],
			['a connection is taken', LIMITED, 'take'],
			['a place at the upstream is reserved', LIMITED, 'reserve'],
			['the breaker admits it', LIMITED, 'admit'],
		] as const) {
			it(`an internal error while ${what} (${part}) leaves nothing counted`, async (t) => {
				const edge = new Edge(mode, 1);
				edge.use(
					edge.upstreams,
					limits ? { limits: { ...limits, maxConnections: 1 } } : { limits, pending: undefined },
				);
				const [{ upstream, sockets }] = edge.upstreams as [FakeUpstream];
				const { breaker, pool, transport } = upstream;
				const owner = { open: transport, take: pool, reserve: pool, admit: breaker }[part];
				const { mock } = t.mock.method(owner as unknown as Record<string, () => void>, part, injected);
				deepEqual((await edge.ask()).verdict, [500, undefined]);
				deepEqual([upstream.connections.total, upstream.stats.read().active], [0, 0]);
				edge.assertQuiet();
				mock.restore();
				const next = await edge.ask();
				sockets[0]!.accept();
				sockets[0]!.answer();
				equal(next.status, 200);
				equal(upstream.connections.total, 1);
				edge.assertQuiet();
			});
		}

		/** What the upstream's socket sets off, and the callback that throws then. */
		const entries: readonly (readonly [string, keyof ResponseHandler, (socket: FakeSocket) => void])[] = [
			['a socket that takes more', 'onWritable', (socket) => socket.emit('drain')],
			['a connection that is made', 'onConnected', (socket) => socket.accept()],
			['the end of a connection', 'onFailing', (socket) => socket.crash()],
			['an error of a connection', 'onFailing', (socket) => socket.refuse()],
			['a closed connection', 'onFailure', (socket) => socket.emit('close')],
			['a refused connection', 'onFailure', (socket) => socket.refuse()],
			['the head of a response', 'onHead', (socket) => socket.answer(ANSWER)],
			['bytes of a body', 'onBody', (socket) => socket.answer(CHUNK)],
			['room for a body', 'room', (socket) => answerAll(socket)],
			...(mode === collected ? ([['bytes in that room', 'onBodyInRoom', answerAll]] as const) : []),
			['the end of a response', 'onEnd', (socket) => answerAll(socket)],
		];
		for (const [what, event, enter] of entries) {
			it(`an internal error at ${what} (${event}) fails at most that request`, async () => {
				const edge = new Edge(mode, 1, { ...LIMITED, maxRequests: 2 });
				const [{ upstream, sockets }] = edge.upstreams as [FakeUpstream];
				const [client, other] = [await edge.ask(), await edge.ask('other')];
				client.exchange.attempt![event] = injected;
				enter(sockets[0]!);
				await settle();
				const hasAll = client.text.length === 5000;
				equal(client.isReset || client.status === 500 || hasAll, true);
				sockets[1]!.accept();
				sockets[1]!.answer();
				await settle();
				equal(other.status, 200);
				ok(upstream.connections.total <= 2);
				edge.assertQuiet();
			});
		}

		/** The same where both requests share a connection: what its server sets off, and whether it is the end of both. */
		const shared: readonly (readonly [
			string,
			keyof ResponseHandler,
			(server: FakeHttp2Server, socket: FakeSocket) => void,
		])[] = [
			['a connection that is made', 'onConnected', (_, socket) => socket.accept()],
			['the end of the connection', 'onFailing', (_, socket) => socket.crash()],
			['the end of the connection', 'onFailure', (_, socket) => socket.crash()],
			['an error of the connection', 'onFailing', (_, socket) => socket.reset()],
			['a reset stream', 'onFailing', (server) => server.send(rstStreamFrame(1))],
			['a reset stream', 'onFailure', (server) => server.send(rstStreamFrame(1))],
			['GOAWAY', 'onFailing', (server) => server.send(goawayFrame(0))],
			['a protocol error', 'onFailing', (server) => server.send(windowUpdateFrame(0, 0))],
			['the head of a response', 'onHead', (server) => server.answer(1)],
			['bytes of a body', 'onBody', (server) => server.send(HEAD, dataFrame(1, 'x'))],
			['the end of a response', 'onEnd', (server) => server.answer(1)],
		];
		for (const [what, event, enter] of shared) {
			it(`an internal error at ${what} to an HTTP/2 upstream (${event}) fails only that request`, async () => {
				const edge = new Edge(mode, 1, { ...LIMITED, maxRequests: 2 }, 'h2');
				const [{ upstream, sockets }] = edge.upstreams as [FakeUpstream];
				const [client, other] = [await edge.ask(), await edge.ask('other')];
				const socket = sockets[0]!;
				if (event !== 'onConnected') socket.accept();
				await settle();
				const server = new FakeHttp2Server(socket);
				client.exchange.attempt![event] = injected;
				enter(server, socket);
				await settle();
				equal(client.isReset || client.status === 500, true);
				// It is sent again where it may be, and has its response in any case.
				if (!socket.destroyed) server.answer(3);
				for (const another of sockets.slice(1)) {
					another.accept();
					await settle();
					new FakeHttp2Server(another).answerAll();
				}
				await settle();
				ok([200, 502].includes(other.status), `${other.status}`);
				equal(upstream.stats.read().streams, 0);
				edge.assertQuiet();
			});
		}

		/** The same in a callback of the connection itself, which ends. Requests to another address know nothing of it. */
		const ofConnection: readonly (readonly [
			string,
			'onSettings' | 'onGoaway' | 'isOwed' | 'onData' | 'flush' | 'closeIfIdle',
			(server: FakeHttp2Server) => void,
		])[] = [
			['SETTINGS', 'onSettings', (server) => server.send(settingsFrame([[SETTING.INITIAL_WINDOW_SIZE, 70_000]]))],
			['GOAWAY', 'onGoaway', (server) => server.send(goawayFrame(1))],
			['the end of a stream', 'isOwed', (server) => server.answer(1)],
			['bytes', 'onData', (server) => server.answer(1)],
			['the end of a turn', 'flush', (server) => server.send(pingFrame())],
			['the turn after its last request', 'closeIfIdle', (server) => server.send(goawayFrame(1), RESPONSE)],
		];
		for (const [what, event, enter] of ofConnection) {
			it(`an internal error at ${what} of an HTTP/2 connection to an upstream (${event}) ends only that connection`, async (t) => {
				const edge = new Edge(mode, 2, { ...LIMITED, maxRequests: 2 }, 'h2');
				const [client, other] = [await edge.ask(), await edge.ask('other')];
				const sockets = edge.upstreams.map((upstream) => upstream.sockets[0]!);
				for (const socket of sockets) socket.accept();
				await settle();
				const [server, otherServer] = sockets.map((socket) => new FakeHttp2Server(socket));
				await settle();
				// The pool is asked in the middle of that callback.
				const owner = event === 'isOwed' ? Http2Pool.prototype : Http2UpstreamConnection.prototype;
				t.mock.method(owner as never, event as never, injected as never, { times: 1 });
				enter(server!);
				await settle();
				deepEqual([sockets[0]!.destroyed, sockets[1]!.destroyed], [true, false]);
				equal(client.isReset || client.status === 500 || client.status === 200, true, `${client.status}`);
				otherServer!.answerAll();
				await settle();
				equal(other.status, 200);
				for (const { upstream } of edge.upstreams) equal(upstream.stats.read().streams, 0);
				equal(edge.upstreams[0]!.upstream.connections.total, 0);
				edge.assertQuiet();
			});
		}

		it('an internal error of a pending request fails that request, and the next one departs', async () => {
			const edge = new Edge(mode, 1);
			const [{ sockets }] = edge.upstreams as [FakeUpstream];
			const under = await edge.occupy(0);
			const [client, other] = [await edge.ask(), await edge.ask('other')];
			equal(edge.waiting.total, 2);
			client.exchange.delivery!.depart = injected;
			under.answer();
			await settle();
			deepEqual([client.status, edge.waiting.total], [500, 0]);
			sockets.at(-1)!.answer();
			await settle();
			equal(other.status, 200);
			edge.assertQuiet();
		});

		it('an internal error of a request that gives up waiting fails that request', async () => {
			const edge = new Edge(mode, 1);
			const under = await edge.occupy(0);
			const client = await edge.ask();
			client.exchange.delivery!.giveUp = injected;
			await edge.plane.pass(QUEUE_TIMEOUT_MS + 1_000);
			equal(client.status, 500);
			under.answer();
			await settle();
			edge.assertQuiet();
		});

		it("an internal error at a request's turn fails only that request", async () => {
			const edge = new Edge(mode, 1, { ...LIMITED, maxRequests: 2 });
			const client = new Client(edge, 'tenant');
			const other = new Client(edge, 'other');
			client.exchange.delivery!.dispatch = injected;
			await settle();
			const [{ sockets }] = edge.upstreams as [FakeUpstream];
			sockets[0]!.accept();
			sockets[0]!.answer();
			await settle();
			deepEqual([client.status, other.status], [500, 200]);
			edge.assertQuiet();
		});

		it("a request whose client leaves releases everything, even if the breaker's report throws", async () => {
			const edge = new Edge(mode, 1);
			const [{ upstream, sockets }] = edge.upstreams as [FakeUpstream];
			const client = await edge.ask();
			upstream.breaker.report = injected;
			client.exchange.onClientGone();
			deepEqual([upstream.load.total, sockets[0]!.destroyed, client.exchange.state], [0, true, STATE.done]);
			equal(upstream.connections.total, 0);
		});

		it('an internal error at a deadline fails that request, and delays no other deadline', async () => {
			const edge = new Edge(mode, 1, { ...LIMITED, maxRequests: 2 });
			const [client, other] = [await edge.ask(), await edge.ask('other')];
			client.exchange.onDeadline = injected;
			await edge.plane.pass(LIMITS.upstream + 2_000);
			deepEqual([client.status, other.status], [500, 504]);
			edge.assertQuiet();
		});

		it('an internal error in the response to an error resets the client', async () => {
			const edge = new Edge(mode, 1);
			const client = await edge.ask();
			client.refuse = injected;
			client.exchange.onDeadline = injected;
			await edge.plane.pass(LIMITS.upstream + 2_000);
			equal(client.isReset, true);
			edge.assertQuiet();
		});
	});
}

/** Injected into the collected mode, which is that of the fronts here. */
describe("an internal error in a callback of a client's connection", () => {
	const POST = 'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n';
	const GET = 'GET / HTTP/1.1\r\nhost: a\r\n\r\n';

	type Event = 'receive' | 'onRequestBody' | 'onRequestEnd';

	/** @param nth call that throws, from 1 on. */
	function inject(t: TestContext, event: Event, nth: number): void {
		const original = collected.Bodies.prototype[event] as (argument: unknown) => void;
		let calls = 0;
		t.mock.method(collected.Bodies.prototype, event, function (this: collected.Bodies, argument: unknown) {
			if (++calls === nth) throw new Error('injected');
			original.call(this, argument);
		});
	}

	for (const event of ['receive', 'onRequestBody', 'onRequestEnd'] satisfies Event[]) {
		it(`an internal error in a callback over HTTP/1.1 fails the request, and the connection continues: ${event}`, async (t) => {
			inject(t, event, 1);
			const plane = new FakePlane();
			plane.letsPass = true;
			const client = new Http1Client(plane);
			client.send(`${POST}boom${GET}`);
			await until(() => client.received.endsWith('no route'), 'the response to the next request');
			deepEqual(client.received.match(/HTTP\/1.1 \d+/g), ['HTTP/1.1 500', 'HTTP/1.1 404']);
		});

		it(`an internal error in a callback over HTTP/2 fails only that stream: ${event}`, async (t) => {
			inject(t, event, 2);
			const plane = new FakePlane();
			plane.letsPass = true;
			const [socket, served] = duplexPair();
			const reader = new FrameReader();
			const answered = new Map<number, string>();
			socket.on('data', (bytes: Buffer) => {
				for (const { type, streamId, payload } of reader.push(bytes)) {
					if (type === FRAME.DATA) answered.set(streamId, payload.toString());
					ok(type !== FRAME.GOAWAY, 'the connection stays');
				}
			});
			new Http2Front(plane).accept(served as TLSSocket, '192.0.2.1', plane.share());
			const head = requestFields('POST', '/');
			socket.write(
				Buffer.concat([
					PREFACE,
					settingsFrame(),
					...[1, 3, 5].map((id) => headersFrame(id, head, { endStream: false })),
				]),
			);
			await settle();
			const bodies = ['fine', 'boom', 'fine'].map((text, i) => dataFrame(2 * i + 1, text, true));
			socket.write(Buffer.concat(bodies));
			await until(() => answered.size === 3, 'all responses');
			deepEqual([...answered].sort(), [
				[1, 'no route'],
				[3, 'internal error'],
				[5, 'no route'],
			]);
		});
	}

	/** What a client's socket sets off, and the callback of its request that throws then. */
	const entries: readonly (readonly [
		string,
		'onClientEnd' | 'onConnectionClosed' | 'onDrain' | 'onOut',
		(client: Duplex, served: Duplex) => void,
	])[] = [
		['the end of a client', 'onClientEnd', (client) => client.end()],
		['a closed connection', 'onConnectionClosed', (_, served) => served.destroy()],
		['a client that takes more', 'onDrain', (_, served) => served.emit('drain')],
		['a response that is out', 'onOut', (client) => client.write('boom')],
	];
	for (const [what, event, enter] of entries) {
		it(`an internal error at ${what} (${event}) over HTTP/1.1 ends only that connection`, async (t) => {
			const faults: LogRecord[] = [];
			const plane = Object.assign(new FakePlane(), {
				log: createLogger(
					parseLogFilter('error'),
					(record) => faults.push(record),
					() => new Date(0),
				),
			});
			plane.letsPass = true;
			const { front, socket, served } = new Http1Client(plane);
			socket.write(POST);
			await settle();
			t.mock.method(Http1Request.prototype, event, injected, { times: 1 });
			enter(socket, served);
			await until(() => served.destroyed && faults.length > 0, 'the end of the connection');
			deepEqual(
				faults.map(({ message }) => message),
				['internal error'],
			);

			const other = new Http1Client(plane, { front });
			other.send(GET);
			await until(() => other.received.endsWith('no route'), 'the response to another client');
			equal(plane.connections, 1);
		});
	}
});
