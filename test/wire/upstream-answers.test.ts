/** Responses of upstreams in every framing, and whether the connection is reused after them. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { countedBytes } from '../fixtures/bodies.ts';
import { type Answer, PROTOCOLS, request } from '../fixtures/clients.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { CIRCUIT, type Lane, startLanes } from '../fixtures/stage.ts';
import type { Exchange, Script, Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

// One worker, so one pool of connections: reuse is certain. On a busy machine 4 s between two requests are short.
const edge = await startLanes({ lanes: 40, workers: 1, config: { upstream_idle_timeout_secs: 3600 } });
after(() => edge.close());
const { proxy } = edge;

const big = countedBytes(1_000_000);
const ok200: Script = (exchange) => exchange.respond({ body: 'ok' });

for (const protocol of PROTOCOLS) {
	const ask = ({ path }: Lane, options = {}): Promise<Answer> => edge.request(protocol, { path, ...options });

	describe(`framing over ${protocol}`, () => {
		const bodies: [what: string, body: Buffer][] = [
			['no bytes', Buffer.alloc(0)],
			['1 MB', big],
		];
		const framings: Record<string, (exchange: Exchange, body: Buffer) => void> = {
			'a content-length': (exchange, body) => exchange.respond({ body }),
			'many chunks': (exchange, body) => exchange.chunked(pieces(body, 3000)),
			'the end of the connection': (exchange, body) => exchange.untilClose({ body }),
		};
		for (const [framing, respond] of Object.entries(framings)) {
			test(`a body delimited by ${framing} arrives whole`, async () => {
				const lane = edge.lane();
				for (const [what, body] of bodies) {
					lane.upstream.script = (exchange) => respond(exchange, body);
					const answer = await ask(lane);
					equal(answer.status, 200, what);
					equal(answer.ended, 'complete', what);
					ok(answer.body.equals(body), `${what} have changed on their way`);
					const declared = BODY_MODE === 'collected' || framing === 'a content-length';
					equal(answer.headers['content-length'], declared ? String(body.length) : undefined, what);
				}
				equal(await lane.circuit(), CIRCUIT.closed);
			});
		}

		test('every final status passes as it is', async () => {
			const lane = edge.lane();
			for (const status of [200, 206, 301, 404, 451, 599]) {
				lane.upstream.script = (exchange) => exchange.respond({ status, body: `says ${status}` });
				const answer = await ask(lane);
				equal(answer.status, status);
				equal(answer.text, `says ${status}`);
			}
		});

		test('HEAD, 204 and 304 carry no body, and the connection is good for more', async () => {
			const lane = edge.lane();
			const cases: [method: string, head: string, status: number, length: string | undefined][] = [
				['HEAD', '200 OK\r\ncontent-length: 1000', 200, '1000'],
				['HEAD', '200 OK', 200, undefined],
				['GET', '204 No Content', 204, undefined],
				['GET', '304 Not Modified\r\ncontent-length: 1000', 304, '1000'],
			];
			for (const [method, head, status, length] of cases) {
				lane.upstream.script = (exchange) => exchange.write(`HTTP/1.1 ${head}\r\n\r\n`);
				// On a new connection: after HEAD without a length Node's client drops its connection.
				const answer = await request(protocol, proxy, { method, path: lane.path });
				equal(answer.status, status, head);
				equal(answer.body.length, 0, head);
				equal(answer.headers['content-length'], length, head);
				equal(answer.headers['transfer-encoding'], undefined, head);
				equal(answer.ended, 'complete', head);
			}
			equal(lane.upstream.trafficConnections.length, 1);
		});

		test('interim responses are swallowed, up to a flood of them', async () => {
			const lane = edge.lane();
			const interim = ['100 Continue', '102 Processing', '103 Early Hints\r\nlink: </x>', '199 Else'];
			lane.upstream.script = (exchange) => {
				exchange.write(interim.map((line) => `HTTP/1.1 ${line}\r\n\r\n`).join(''));
				exchange.respond({ body: 'final' });
			};
			const answer = await ask(lane);
			equal(answer.text, 'final');
			deepEqual(answer.informational, []);
			lane.upstream.script = (exchange) => {
				exchange.write('HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n'.repeat(2000));
				exchange.respond({ body: 'final' });
			};
			assertOwnAnswer(await ask(lane), 502, 'bad gateway');
			equal(await lane.circuit(), CIRCUIT.open);
		});

		test('an answer that comes before the request’s body is passed on, and the connection is not used again', async () => {
			const lane = edge.lane();
			lane.upstream.early = true;
			lane.upstream.script = (exchange) => {
				exchange.socket.pause();
				exchange.respond({ status: 403, body: 'no need to send more' });
			};
			const body = countedBytes(8_000_000);
			const answer = await request(protocol, proxy, { method: 'POST', path: lane.path, body });
			equal(answer.status, 403);
			equal(answer.text, 'no need to send more');
			lane.upstream.early = false;
			lane.upstream.script = ok200;
			equal((await ask(lane, { path: `${lane.path}/next` })).status, 200);
			deepEqual(
				lane.upstream.requests.map(({ connection }) => connection === lane.upstream.requests[0]!.connection),
				[true, false],
				'the next request went out behind the rest of a body that nobody reads',
			);
			equal(await lane.circuit(), CIRCUIT.closed);
		});

		test('an answer in front of a closed door is passed on: 413 and FIN while the body is still being sent', async () => {
			const lane = edge.lane();
			lane.upstream.early = true;
			lane.upstream.script = (exchange) => exchange.untilClose({ status: 413, body: 'too much for me' });
			for (let i = 0; i < 2; i++) {
				// Each from a new client: the rest of the body stays in Node's client, which buffers up to 10 MB.
				const body = countedBytes(4_000_000);
				const answer = await request(protocol, proxy, { method: 'POST', path: lane.path, body });
				equal(answer.status, 413);
				equal(answer.text, 'too much for me');
			}
			equal(await lane.circuit(), CIRCUIT.closed);
		});
	});

	describe(`connections to the upstream, over ${protocol}`, { concurrency: 6 }, () => {
		/** Asks twice; tells whether both requests went over one connection. */
		const reused = async (lane: Lane): Promise<boolean> => {
			for (let i = 0; i < 2; i++) equal((await ask(lane)).status, 200);
			const [first, second] = lane.upstream.requests.slice(-2);
			return first!.connection === second!.connection;
		};

		test('an idle connection is used again, the last one first', async () => {
			const lane = edge.lane();
			ok(await reused(lane));
			await Promise.all(protocol === 'h2' ? [ask(lane), ask(lane), ask(lane)] : [ask(lane)]);
			const before = lane.upstream.trafficConnections.length;
			for (let i = 0; i < 5; i++) ok(await reused(lane));
			equal(lane.upstream.trafficConnections.length, before);
			const { authority } = lane.upstream;
			const gauge = (state: string) => proxy.metric('proxy_upstream_connections', { upstream: authority, state });
			await until(async () => (await gauge('idle')) === before, 'all connections to be idle');
			equal(await gauge('active'), 0);
		});

		/** unit/data/upstream/response-parser.test.ts has the other ways to say so. */
		const notReused: Record<string, Script> = {
			'Connection: close': (exchange) => exchange.respond({ headers: [['Connection', 'close']], body: 'ok' }),
			'a byte too many': (exchange) => exchange.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok!'),
		};
		for (const [what, script] of Object.entries(notReused)) {
			test(`a connection to the upstream is not reused after ${what}`, async () => {
				const lane = edge.lane();
				lane.upstream.script = script;
				equal(await reused(lane), false);
				equal(await lane.circuit(), CIRCUIT.closed);
				await lane.upstream.until(
					({ trafficConnections }) => trafficConnections.every(({ socket }) => socket.destroyed),
					'the connections to be closed',
				);
			});
		}

		test('bytes that arrive on an idle connection poison it: the next caller gets its own answer', async () => {
			const lane = edge.lane();
			lane.upstream.script = (exchange) => {
				exchange.respond({ body: 'first' });
				setTimeout(() => exchange.write('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil'), 5);
			};
			equal((await ask(lane)).text, 'first');
			await lane.upstream.until(
				({ trafficConnections }) => trafficConnections[0]!.socket.destroyed,
				'the connection to be dropped',
			);
			lane.upstream.script = ok200;
			equal((await ask(lane)).text, 'ok');
			equal(await lane.circuit(), CIRCUIT.closed);
		});
	});

	describe(`stale connections, over ${protocol}`, () => {
		/** A connection that ends later has had the request, for all that the proxy can know: a busy machine proves nothing here. */
		const STALE_MS = 50;
		/** The second request on a connection finds it ended: in order or by a reset, when it arrives. */
		const goesStale =
			(upstream: Upstream, how: 'end' | 'reset'): Script =>
			(exchange) => {
				const { connection } = exchange.request;
				if (upstream.requests.filter((request) => request.connection === connection).length > 1) exchange[how]();
				else exchange.respond({ body: `from ${connection}` });
			};

		test('GET that meets the end of a used connection is sent once more, unseen by the client', async () => {
			const lane = edge.lane();
			lane.upstream.script = goesStale(lane.upstream, 'end');
			equal((await ask(lane)).status, 200);
			const askedAt = performance.now();
			const again = await ask(lane);
			if (performance.now() - askedAt > STALE_MS) return;
			equal(again.status, 200);
			deepEqual(await lane.counted(), { 200: 2 });
			equal(lane.upstream.requests.length, 3);
			equal(await lane.circuit(), CIRCUIT.closed);
		});

		test('POST that meets the reset of a used connection is 502, and delivered once', async () => {
			const lane = edge.lane();
			lane.upstream.script = goesStale(lane.upstream, 'reset');
			const options = { method: 'POST', body: 'once' };
			equal((await ask(lane, options)).status, 200);
			const askedAt = performance.now();
			assertOwnAnswer(await ask(lane, options), 502, 'bad gateway');
			const isPrompt = performance.now() - askedAt <= STALE_MS;
			deepEqual(await lane.counted(), { 200: 1, 502: 1 });
			equal(lane.upstream.requests.length, 2);
			if (!isPrompt) return;
			equal(await lane.circuit(), CIRCUIT.closed, 'a stale connection is nobody’s failure');
			equal((await ask(lane, options)).status, 200);
		});

		test('a GET with a body is repeated only if the body is still at hand', async () => {
			const lane = edge.lane();
			lane.upstream.script = goesStale(lane.upstream, 'end');
			const options = { method: 'GET', body: 'body' };
			equal((await ask(lane, options)).status, 200);
			equal((await ask(lane, options)).status, BODY_MODE === 'collected' ? 200 : 502);
			for (const { body, state } of lane.upstream.requests) {
				equal(state, 'complete');
				equal(String(body), 'body');
			}
			equal(await lane.circuit(), CIRCUIT.closed);
		});

		test('connections that the upstream has closed while they were idle are not even tried', async () => {
			const lane = edge.lane();
			equal((await ask(lane, { method: 'POST', body: 'x' })).status, 200);
			lane.upstream.closeConnections();
			await lane.upstream.until(({ openConnections }) => openConnections.length === 0, 'the connections to end');
			equal((await ask(lane, { method: 'POST', body: 'x' })).status, 200);
			equal(lane.upstream.requests.length, 2);
		});
	});
}

function pieces(bytes: Buffer, size: number): Buffer[] {
	return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}
