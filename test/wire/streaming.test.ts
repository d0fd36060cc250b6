/**
 * How bodies pass: at once and at the pace of the slower side where they stream, whole where they are collected
 * (build feature `boxed_body`).
 */
import { equal, ok } from 'node:assert/strict';
import { once } from 'node:events';
import { after, describe, test } from 'node:test';
import { countedBytes, inPieces } from '../fixtures/bodies.ts';
import { connect, connectTls, h1Raw, h2Raw, PROTOCOLS, type Protocol, request } from '../fixtures/clients.ts';
import { dataFrame, FRAME, headersFrame, requestFields, windowUpdateFrame } from '../fixtures/h2-frames.ts';
import { testPki } from '../fixtures/pki.ts';
import { HAS_PROC, heldBytes } from '../fixtures/proc.ts';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { CIRCUIT, type Stage, startLanes } from '../fixtures/stage.ts';
import type { Exchange } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const COLLECTED = BODY_MODE === 'collected';
const UPSTREAM_MS = 2000;
/** Bytes that the proxy may hold of one request beyond what sockets buffer. */
const MAX_HELD = 256 * 1024;

const pki = await testPki();
const UPLOAD_LIMIT = 64 * 1024 * 1024;
const [edge, cutting, patient] = await Promise.all([
	startLanes({ lanes: 4, workers: 1, limits: { upstream_timeout_secs: UPSTREAM_MS / 1000 } }),
	startLanes({ lanes: 4, workers: 1, limits: { upstream_timeout_secs: UPSTREAM_MS / 1000 } }),
	startLanes({ lanes: 8, workers: 1, limits: { max_request_body_bytes: UPLOAD_LIMIT } }),
]);
after(() => Promise.all([edge.close(), cutting.close(), patient.close()]));

const big = countedBytes(48 * 1024 * 1024);

for (const protocol of PROTOCOLS) {
	describe(`pace, over ${protocol}`, () => {
		test('the head of an answer reaches the client before a byte of its body exists, unless it is collected', async () => {
			const { path, upstream } = patient.lane();
			upstream.script = (exchange) => {
				if (exchange.request.target !== path) return exchange.respond();
				exchange.startChunked({ headers: [['Content-Type', 'text/event-stream']] });
			};
			using client = await rawClient(protocol, patient, 'GET', path);
			await upstream.request(1);
			if (COLLECTED) {
				await holdsBack(protocol, path, client);
			} else {
				await until(() => client.received() !== '', 'the head of the answer');
			}
		});

		test('the beginning of a body reaches the upstream before its end exists, unless it is collected', async () => {
			const { path, upstream } = patient.lane();
			using client = await rawClient(protocol, patient, 'POST', path);
			client.send('first');
			if (COLLECTED) {
				for (let i = 0; i < 5; i++) {
					equal((await request(protocol, patient.proxy, { path: '/nowhere' })).status, 404);
				}
				equal(upstream.bytesReceived, 0);
			} else {
				await until(() => String(upstream.requests[0]?.body) === 'first', 'the beginning of the body');
			}
			client.send(' and last', true);
			const { body } = await upstream.request(1, 'complete');
			equal(String(body), 'first and last');
		});

		test('an answer to a client that reads nothing fills sockets, not the proxy, and then arrives whole', {
			skip: !HAS_PROC && 'needs /proc',
		}, async () => {
			const { path, upstream, circuit } = patient.lane();
			const bytes = COLLECTED ? big.subarray(0, 16 * 1024 * 1024) : big;
			let written: () => number = () => 0;
			upstream.script = (exchange) => {
				exchange.write(exchange.head({}, [['content-length', String(bytes.length)]]));
				written = pour(exchange, bytes);
			};
			const before = heldBytes(patient.proxy.pid);
			await using client = await slowReader(protocol, patient, path);
			await standsStill(() => written());
			if (COLLECTED) ok(written() > bytes.length, 'the upstream is done with it, although the client has not read it');
			else {
				ok(written() < bytes.length, 'nobody has slowed the upstream down');
				const held = heldBytes(patient.proxy.pid) - before;
				ok(held < MAX_HELD, `the proxy holds ${held} bytes`);
			}
			ok((await client.readAll()).equals(bytes), 'the answer has changed on its way');
			equal(await circuit(), CIRCUIT.closed);
		});

		test('a body for an upstream that reads nothing fills sockets, not the proxy, and then arrives whole', {
			skip: (!HAS_PROC && 'needs /proc') || (COLLECTED && 'a body that is collected is held by design'),
		}, async () => {
			const { path, upstream, circuit } = patient.lane();
			const exchanges: Exchange[] = [];
			upstream.early = true;
			upstream.script = async (exchange) => {
				exchange.socket.pause();
				exchanges.push(exchange);
				await upstream.request(1, 'complete', 60_000);
				exchange.respond({ body: 'thanks' });
			};
			const before = heldBytes(patient.proxy.pid);
			await using client = await connect(protocol, patient.proxy);
			const body = inPieces(big, 65_536);
			const answer = client.request({ method: 'POST', path, body, ms: 60_000 });
			await upstream.request(1);
			await standsStill(() => client.socket.bytesWritten);
			const held = heldBytes(patient.proxy.pid) - before;
			ok(held < MAX_HELD, `the proxy holds ${held} bytes`);
			ok(client.socket.bytesWritten < big.length, 'nobody has slowed the client down');
			const counted = () => patient.proxy.metric('proxy_body_memory_bytes');
			if (protocol === 'h2') await until(async () => (await counted()) > 0, 'what waits to be counted');
			exchanges[0]!.socket.resume();
			equal((await answer).text, 'thanks');
			ok(upstream.requests[0]!.body.equals(big), 'the body has changed on its way');
			await until(async () => (await counted()) === 0, 'its memory to be given back');
			equal(await circuit(), CIRCUIT.closed);
		});
	});

	test(`a client that takes nothing of its answer is cut off at the limit, by no fault of the upstream, over ${protocol}`, async () => {
		const { path, upstream, circuit } = cutting.lane();
		const bytes = big.subarray(0, 24 * 1024 * 1024);
		upstream.script = (exchange) => {
			exchange.write(exchange.head({}, [['content-length', String(bytes.length)]]));
			pour(exchange, bytes);
		};
		const startedAt = performance.now();
		await using client = await slowReader(protocol, cutting, path);
		await upstream.request(1);
		await client.untilCut();
		ok(performance.now() - startedAt > UPSTREAM_MS, 'before its time');
		ok((await client.readAll()).length < bytes.length, 'it got the whole answer');
		equal(await circuit(), CIRCUIT.closed);
		const { authority } = upstream;
		await until(
			async () =>
				(await cutting.proxy.metric('proxy_upstream_connections', { upstream: authority, state: 'active' })) === 0,
			'the upstream to be let go',
		);
	});

	describe(`limits of pace, over ${protocol}`, { concurrency: 4 }, () => {
		test('a client that takes its answer slowly but steadily gets all of it', async () => {
			const { path, upstream } = edge.lane();
			// What is collected has to be there in the time of its upstream.
			const bytes = big.subarray(0, (COLLECTED ? 8 : 24) * 1024 * 1024);
			upstream.script = (exchange) => {
				exchange.write(exchange.head({}, [['content-length', String(bytes.length)]]));
				pour(exchange, bytes);
			};
			const startedAt = performance.now();
			await using client = await slowReader(protocol, edge, path);
			const received = await client.readAll(COLLECTED ? 240 : 80);
			ok(received.equals(bytes), 'the answer has changed on its way, or was cut off');
			ok(performance.now() - startedAt > UPSTREAM_MS * 1.5, 'it was too fast for this test');
		});

		test('an upstream that breaks off while its client reads nothing does not leave a whole answer behind', async () => {
			const { path, upstream } = edge.lane();
			upstream.script = (exchange) => {
				exchange.truncate(8_000_000, { body: big.subarray(0, 4_000_000) });
			};
			await using client = await slowReader(protocol, edge, path);
			await upstream.until(
				({ trafficConnections }) =>
					trafficConnections.every(({ socket }) => socket.writableFinished || socket.destroyed),
				'the upstream to have sent all it has',
			);
			const received = await client.readAll();
			ok(received.length < 8_000_000);
			ok(COLLECTED || received.equals(big.subarray(0, received.length)));
		});
	});
}

/** Asserts that no byte of the current response has arrived. */
async function holdsBack(protocol: Protocol, path: string, client: RawClient): Promise<void> {
	// Whatever the proxy does at once with what has arrived, it has done before it serves these.
	for (let i = 0; i < 5; i++) {
		equal((await request(protocol, patient.proxy, { path: `${path}/other` })).status, 200);
	}
	equal(client.received(), '');
}

/** Writes as fast as the connection takes it. Returns how much it has taken so far, head included. */
function pour({ socket }: Exchange, bytes: Buffer): () => number {
	let at = 0;
	const next = () => {
		while (at < bytes.length && !socket.destroyed) {
			const piece = bytes.subarray(at, at + 65_536);
			at += piece.length;
			if (!socket.write(piece)) return void socket.once('drain', next);
		}
	};
	next();
	return () => socket.bytesWritten - socket.writableLength;
}

/** Waits until a number has been the same for 300 ms. */
async function standsStill(value: () => number): Promise<void> {
	let last = { value: Number.NaN, since: 0 };
	await until(
		() => {
			const now = performance.now();
			if (value() !== last.value) last = { value: value(), since: now };
			return last.value > 0 && now - last.since > 300;
		},
		() => `${value()} to stand still`,
	);
}

interface RawClient extends Disposable {
	/** Sends a piece of the body, or many at once. */
	send(pieces: string | readonly string[], last?: boolean): void;
	/** All received bytes, framing included. */
	received(): string;
}

async function rawClient(protocol: Protocol, { proxy }: Stage, method: string, path: string): Promise<RawClient> {
	const hasBody = method === 'POST';
	const authorization = `Bearer ${pki.token()}`;
	if (protocol === 'h1') {
		const raw = await h1Raw(proxy);
		const framing = hasBody ? 'transfer-encoding: chunked\r\n' : '';
		raw.send(`${method} ${path} HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization}\r\n${framing}\r\n`);
		return {
			send: (pieces, last = false) => {
				const chunks = [pieces].flat().map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`);
				raw.send(`${chunks.join('')}${last ? '0\r\n\r\n' : ''}`);
			},
			received: () => raw.pending.toString('latin1'),
			[Symbol.dispose]: () => raw.close(),
		};
	}
	const raw = await h2Raw(proxy);
	raw.send(headersFrame(1, requestFields(method, path, pki.token()), { endStream: !hasBody }));
	return {
		send: (pieces, last = false) => {
			const all = [pieces].flat();
			raw.send(...all.map((piece, i) => dataFrame(1, piece, last && i === all.length - 1)));
		},
		received: () =>
			raw.frames
				.filter(({ streamId }) => streamId === 1)
				.map(({ payload }) => payload.toString('latin1'))
				.join(''),
		[Symbol.dispose]: () => raw.close(),
	};
}

interface SlowReader extends AsyncDisposable {
	/** Reads the rest: as fast as it comes, or half a megabyte every `pauseMs`. Resolves with the body, as far as it came. */
	readAll(pauseMs?: number): Promise<Buffer>;
	/** Waits until the proxy has given up on it, without reading. */
	untilCut(): Promise<void>;
}

/** A client that has requested `path`, and does not read the response before the test says so. */
function slowReader(protocol: Protocol, { proxy }: Stage, path: string): Promise<SlowReader> {
	return protocol === 'h1' ? slowH1Reader(proxy, path) : slowH2Reader(proxy, path);
}

const AT_ONCE = 512 * 1024;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function slowH1Reader(proxy: Stage['proxy'], path: string): Promise<SlowReader> {
	const socket = await connectTls(proxy);
	socket.on('error', () => {});
	socket.pause();
	socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${pki.token()}\r\n\r\n`);
	return {
		readAll: async (pauseMs) => {
			const chunks: Buffer[] = [];
			let length = 0;
			let inThisRound = 0;
			// More bytes may arrive during a pause, and add another pause.
			let pauses = 0;
			let rested: Promise<unknown> = Promise.resolve();
			const whole = Promise.withResolvers<void>();
			let expected = Number.POSITIVE_INFINITY;
			socket.on('data', async (chunk: Buffer) => {
				chunks.push(chunk);
				length += chunk.length;
				if (chunks.length === 1) {
					const head = chunk.toString('latin1').split('\r\n\r\n', 1)[0]!;
					expected = head.length + 4 + Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
				}
				if (length >= expected) whole.resolve();
				inThisRound += chunk.length;
				if (pauseMs === undefined || inThisRound < AT_ONCE) return;
				inThisRound -= AT_ONCE;
				socket.pause();
				pauses++;
				rested = rested.then(() => pause(pauseMs));
				await rested;
				if (--pauses === 0) socket.resume();
			});
			socket.resume();
			await Promise.race([whole.promise, once(socket, 'close')]);
			const all = Buffer.concat(chunks);
			return all.subarray(all.indexOf('\r\n\r\n') + 4);
		},
		// Only the proxy knows it: the end of the connection comes after all unread bytes.
		untilCut: async () => {
			await until(async () => (await proxy.metric('proxy_connections')) === 0, 'the proxy to end the connection');
		},
		[Symbol.asyncDispose]: async () => void socket.destroy(),
	};
}

async function slowH2Reader(proxy: Stage['proxy'], path: string): Promise<SlowReader> {
	const raw = await h2Raw(proxy);
	raw.send(headersFrame(1, requestFields('GET', path, pki.token())));
	// What the first window holds comes unasked.
	const data = () => raw.frames.filter(({ type, streamId }) => type === FRAME.DATA && streamId === 1);
	return {
		readAll: async (pauseMs) => {
			const ended = () =>
				raw.socket.destroyed ||
				raw.frames.some(({ type, streamId, flags }) => {
					return streamId === 1 && (type === FRAME.RST_STREAM || (type === FRAME.DATA && (flags & 1) === 1));
				});
			while (!ended()) {
				const increment = pauseMs === undefined ? 8 * AT_ONCE : AT_ONCE;
				const before = raw.frames.length;
				raw.send(windowUpdateFrame(0, increment), windowUpdateFrame(1, increment));
				await until(() => ended() || raw.frames.length > before, 'more of the answer');
				await pause(pauseMs ?? 0);
			}
			return Buffer.concat(data().map(({ payload }) => payload));
		},
		untilCut: async () => void (await raw.resetCode(1)),
		[Symbol.asyncDispose]: async () => raw.close(),
	};
}
