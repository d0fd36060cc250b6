import assert from 'node:assert/strict';
import { createServer, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';
import { describe, it } from 'node:test';
import { type BodyTaker, Http1Incoming } from '../../../src/data/http1-incoming.ts';
import { until } from '../../fixtures/wait.ts';
import { settle } from './fixtures/fake-plane.ts';

/** The connection, as far as a request knows it. */
class Line {
	readable = true;
	resumed = 0;
	paused = false;

	isPaused(): boolean {
		return this.paused;
	}

	resume(): void {
		this.resumed++;
		this.paused = false;
	}
}

class Taker implements BodyTaker {
	readonly pieces: string[] = [];
	ended = false;
	onPiece: (() => void) | undefined;

	onRequestBody(chunk: Buffer): void {
		assert.equal(this.ended, false, 'a piece behind the end');
		this.pieces.push(String(chunk));
		this.onPiece?.();
	}

	onRequestEnd(): void {
		assert.equal(this.ended, false, 'a second end');
		this.ended = true;
	}
}

/** A request whose parser has stopped reading wherever it was told to. */
function incoming() {
	const line = new Line();
	const request = new Http1Incoming(line as unknown as Socket);
	const push = (text: string) => {
		const more = request.push(Buffer.from(text));
		if (!more) line.paused = true;
		return more;
	};
	const end = () => {
		request.complete = true;
		request.push(null);
	};
	return { line, request, push, end };
}

describe('the body of an HTTP/1.1 request', () => {
	it('is handed on at once to its taker, and then its end', () => {
		const { request, push, end } = incoming();
		const taker = new Taker();
		request.take(taker);
		assert.equal(push('a'), true);
		assert.deepEqual(taker.pieces, ['a']);
		push('b');
		assert.equal(taker.ended, false);
		end();
		assert.deepEqual([taker.pieces, taker.ended], [['a', 'b'], true]);
	});

	it('is kept as long as nobody takes it, and the connection read until 64 KiB of it are there', () => {
		const { line, request, push, end } = incoming();
		const piece = 'x'.repeat(4096);
		for (let i = 1; i <= 16; i++) assert.equal(push(piece), i < 16);
		const taker = new Taker();
		request.take(taker);
		assert.deepEqual(taker.pieces, Array(16).fill(piece));
		assert.deepEqual([line.paused, line.resumed], [false, 1]);
		end();
		assert.equal(taker.ended, true);
	});

	it('that is there to its end is taken whole in one go, and the connection not touched', () => {
		const { line, request, push, end } = incoming();
		push('a');
		end();
		line.paused = true;
		const taker = new Taker();
		request.take(taker);
		assert.deepEqual([taker.pieces, taker.ended, line.resumed], [['a'], true, 0]);
	});

	it('stops where its taker pauses, in the middle of what is there, and goes on when told', () => {
		const { request, push, end } = incoming();
		for (const piece of ['a', 'b']) push(piece.repeat(5000));
		end();
		const taker = new Taker();
		taker.onPiece = () => request.pause();
		request.take(taker);
		assert.deepEqual([taker.pieces.length, taker.ended], [1, false]);
		request.resume();
		assert.deepEqual([taker.pieces.length, taker.ended], [2, false]);
		request.resume();
		assert.equal(taker.ended, true);
		request.resume();
	});

	it('keeps its order when it is paused while more comes', () => {
		const { request, push, end } = incoming();
		const taker = new Taker();
		request.take(taker);
		request.pause();
		push('a');
		push('b');
		request.resume();
		push('c');
		end();
		assert.deepEqual([taker.pieces.join(''), taker.ended], ['abc', true]);
	});

	it('that nobody wants is read to its end and forgotten', () => {
		const { line, request, push } = incoming();
		while (push('x'.repeat(8192)));
		request.drop();
		assert.deepEqual([line.paused, request._dumped], [false, true]);
		const taker = new Taker();
		request.take(taker);
		assert.deepEqual(taker.pieces, []);
	});

	it('tells when it is complete, also where nobody takes it', () => {
		const { request, push, end } = incoming();
		let told = 0;
		request.onComplete = () => told++;
		push('a');
		assert.equal(told, 0);
		end();
		assert.equal(told, 1);
	});

	it('leaves trailers out of the fields', () => {
		const { request, end } = incoming();
		request._addHeaderLines(['Host', 'a']);
		end();
		request._addHeaderLines(['X-Trailer', 'b']);
		assert.deepEqual(request.rawHeaders, ['Host', 'a']);
	});
});

/** What Node looks for on them, finds missing, and can do without. */
const DISPENSABLE = new Set([
	// Of messages made by Node's own client, which may still have bytes to come when their reader has gone.
	'SkipPendingData',
]);

/** Counts what somebody reads or calls that is not there. */
function watched<T extends object>(target: T, missing: Set<string>): T {
	return new Proxy(target, {
		get(of, key) {
			const value = Reflect.get(of, key, of);
			if (!(key in of)) missing.add(typeof key === 'symbol' ? key.description! : key);
			return typeof value === 'function' ? value.bind(of) : value;
		},
		set: (of, key, value) => Reflect.set(of, key, value, of),
	});
}

describe("Node's server", () => {
	/** Serves what a client sends on one connection, each request when it is whole. */
	async function serve(sent: readonly string[], ending: 'end' | 'destroy' | 'stay') {
		const missing = new Set<string>();
		const names: string[] = [];
		const unwatched = new WeakMap<object, Http1Incoming>();
		// What a constructor gives back takes the place of what `new` has made.
		function WatchedIncoming(socket: Socket) {
			const target = new Http1Incoming(socket);
			const proxy = watched(target, missing);
			unwatched.set(proxy, target);
			return proxy;
		}
		const server = createServer({ IncomingMessage: WatchedIncoming as unknown as typeof IncomingMessage });
		for (const event of ['request', 'connect', 'upgrade']) server.on(event, () => assert.fail(event));
		const onIncoming = (watchedRequest: object) => {
			const request = unwatched.get(watchedRequest)!;
			request.upgrade = false;
			names.push(request.url);
			let body = '';
			request.take({
				onRequestBody: (chunk) => {
					body += chunk;
				},
				onRequestEnd: () => {
					request.drop();
					served.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
				},
			});
			return 0;
		};
		server.on('clientError', (_error, socket: Duplex) => socket.destroy());
		const [client, served] = duplexPair();
		let received = '';
		client.on('data', (bytes) => {
			received += bytes;
		});
		client.on('error', () => {});
		let closed = false;
		served.on('close', () => {
			closed = true;
		});
		server.emit('connection', served);
		const { parser } = served as unknown as { parser: { onIncoming: unknown } };
		assert.equal(
			typeof parser.onIncoming,
			'function',
			'this Node takes heads elsewhere: look at its lib/_http_common.js',
		);
		parser.onIncoming = onIncoming;
		for (const text of sent) {
			client.write(text);
			await settle();
		}
		if (ending === 'end') client.end();
		else if (ending === 'destroy') client.destroy();
		if (ending !== 'stay') {
			if (ending === 'destroy') served.destroy();
			await until(() => closed, 'the end of the connection');
		}
		served.destroy();
		await settle();
		for (const name of DISPENSABLE) missing.delete(name);
		return { missing: [...missing], names, answers: received.match(/HTTP\/1\.1 200 OK\r\n/g)?.length ?? 0 };
	}

	const GET = 'GET /get HTTP/1.1\r\n\r\n';
	const POST = 'POST /post HTTP/1.1\r\nContent-Length: 3\r\n\r\n';
	const CHUNKED = 'POST /chunked HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n';
	const cases: Record<string, { sent: string[]; ending?: 'end' | 'destroy'; names: string[]; answers: number }> = {
		'one after the other': {
			sent: [GET, `${POST}a`, 'bc', GET],
			names: ['/get', '/post', '/get'],
			answers: 3,
		},
		pipelined: { sent: [`${GET}${POST}abc${GET}`], names: ['/get', '/post', '/get'], answers: 3 },
		'in chunks, with trailers': {
			sent: [`${CHUNKED}1\r\na\r\n`, '2\r\nbc\r\n0\r\nX-Trailer: 1\r\n\r\n', GET],
			names: ['/chunked', '/get'],
			answers: 2,
		},
		'that expect a 100': {
			sent: ['POST /post HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n', 'a', GET],
			names: ['/post', '/get'],
			answers: 2,
		},
		'of HTTP/1.0': { sent: ['GET /old HTTP/1.0\r\n\r\n'], names: ['/old'], answers: 1 },
		'that say close': { sent: ['GET /last HTTP/1.1\r\nConnection: close\r\n\r\n'], names: ['/last'], answers: 1 },
		'for another protocol': {
			sent: ['GET /ws HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'],
			names: ['/ws'],
			answers: 1,
		},
		'for a tunnel': { sent: [GET, 'CONNECT a:1 HTTP/1.1\r\n\r\n'], names: ['/get', 'a:1'], answers: 2 },
		'broken off in a body': { sent: [GET, `${POST}a`], ending: 'destroy', names: ['/get', '/post'], answers: 1 },
		'given up in a body': { sent: [`${POST}a`], ending: 'end', names: ['/post'], answers: 0 },
		'with nonsense for a body': { sent: [`${CHUNKED}x\r\n`], ending: 'destroy', names: ['/chunked'], answers: 0 },
	};
	for (const [what, { sent, ending, names, answers }] of Object.entries(cases)) {
		it(`finds all that it looks for on requests ${what}`, async () => {
			const seen = await serve(sent, ending ?? 'stay');
			assert.deepEqual(seen, { missing: [], names, answers });
		});
	}
});
