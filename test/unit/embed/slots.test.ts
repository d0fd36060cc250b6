/** What a tenant of an embedded gate may have under way at once: every request gives its slot back, exactly once, however it ends. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import { type AddressInfo, connect } from 'node:net';
import { after, describe, it } from 'node:test';
import { getRequestListener } from '@hono/node-server';
import Fastify from 'fastify';
import { Hono } from 'hono';
import { guard as fastifyGuard } from '../../../packages/gate/src/embed/fastify.ts';
import { guard as fetchGuard } from '../../../packages/gate/src/embed/fetch.ts';
import { guard as honoGuard } from '../../../packages/gate/src/embed/hono.ts';
import { guardUpgrade, guard as nodeGuard } from '../../../packages/gate/src/embed/node.ts';
import { until } from '../../fixtures/wait.ts';
import { bearer, newGate } from './new-gate.ts';

const tenants = [{ name: 'tenant', concurrency: 2 }];
const authorization = bearer();
let gate = newGate({ tenants });

/** How many more requests of the tenant the gate would let through. */
function free(): number {
	const slots = [];
	for (;;) {
		const verdict = gate.check(authorization);
		if (!verdict.ok) break;
		slots.push(verdict.slot!);
	}
	for (const slot of slots) slot.release();
	return slots.length;
}

const allFree = () =>
	until(
		() => free() === 2,
		() => `two free slots (${free()} are)`,
	);

describe('a slot', () => {
	it('is refused when all are taken, with the policy that was met', () => {
		using _first = taken();
		using _second = taken();
		const verdict = gate.check(authorization);
		assert.ok(!verdict.ok);
		const { code, reason, headers } = verdict.refusal;
		assert.deepEqual([code, reason, headers['retry-after']], ['rate-limited', "over the tenant's concurrency", '1']);
		assert.equal(headers['ratelimit-policy'], '"concurrency";q=2;qu="concurrent-requests"');
		assert.equal(headers.ratelimit, '"concurrency";r=0');
	});

	it('is given back once, however often it is released', () => {
		const first = taken();
		using _second = taken();
		for (let i = 0; i < 5; i++) first.release();
		first[Symbol.dispose]();
		assert.equal(free(), 1);
	});

	it('is not taken by a request that is refused for another reason', () => {
		assert.ok(!gate.check(authorization, { scopes: ['none'] }).ok);
		assert.ok(!gate.check('Bearer x').ok);
		assert.equal(free(), 2);
	});

	it('does not exist for tenants without a concurrency limit', () => {
		const free = newGate();
		const verdict = free.check(authorization);
		assert.ok(verdict.ok && !('slot' in verdict));
		assert.equal(free.check(authorization), verdict);
	});

	function taken() {
		const verdict = gate.check(authorization);
		assert.ok(verdict.ok);
		return verdict.slot!;
	}
});

/** A handler that answers with two bytes, `wait`s between them, or fails. */
type Ending = 'whole' | 'empty' | 'cut' | 'fault';
const ENDINGS: readonly Ending[] = ['whole', 'empty', 'cut', 'fault'];

const endingOf = (url: string) => new URL(url, 'http://x').pathname.slice(1) as Ending;

const answerNode = (req: IncomingMessage, res: ServerResponse) => {
	const ending = endingOf(req.url!);
	if (ending === 'empty') res.writeHead(204).end();
	else if (ending === 'cut') res.write('a');
	else if (ending === 'fault') res.destroy();
	else res.end('ab');
};

const answerWeb = (url: string): Response => {
	const ending = endingOf(url);
	if (ending === 'fault') throw new Error('boom');
	if (ending === 'empty') return new Response(null, { status: 204 });
	if (ending === 'whole') return new Response('ab');
	return new Response(new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from('a')) }));
};

const SERVERS: readonly (readonly [string, () => Promise<(req: IncomingMessage, res: ServerResponse) => void>])[] = [
	[
		'node:http',
		async () => {
			const guarded = nodeGuard(gate);
			return (req, res) => guarded(req, res, () => answerNode(req, res));
		},
	],
	[
		'Fastify',
		async () => {
			const app = Fastify();
			await app.register(fastifyGuard, { gate });
			app.get('/*', (request, reply) => {
				reply.hijack();
				answerNode(request.raw, reply.raw);
			});
			await app.ready();
			return (req, res) => app.routing(req, res);
		},
	],
	[
		'Hono on Node',
		async () => {
			const app = new Hono();
			app.onError((_error, c) => c.text('fault', 500));
			app.get('/*', honoGuard(gate), (c) => answerWeb(c.req.url));
			return getRequestListener(app.fetch);
		},
	],
	[
		'Hono elsewhere',
		async () => {
			const app = new Hono();
			app.onError((_error, c) => c.text('fault', 500));
			app.get('/*', honoGuard(gate), (c) => answerWeb(c.req.url));
			return getRequestListener((request) => app.fetch(request));
		},
	],
	['fetch', async () => getRequestListener(fetchGuard(gate, (request) => answerWeb(request.url)))],
];

for (const [name, listener] of SERVERS) {
	describe(`${name}: a slot is given back`, () => {
		for (const protocol of ['h1', 'h2'] as const) {
			for (const ending of ENDINGS) {
				it(`releases a slot after a response that is ${ending}, over ${protocol}`, async () => {
					const handler = await listener();
					// biome-ignore lint/suspicious/noExplicitAny: Node types its compatibility layer apart.
					const server = protocol === 'h1' ? createServer(handler) : createHttp2Server(handler as any);
					const port = await listening(server as Server);
					await (protocol === 'h1' ? askH1 : askH2)(port, ending);
					await allFree();
				});
			}
		}
	});
}

describe('a slot of node:http', () => {
	it('is given back by responses that were waiting for their turn when the connection ended', async () => {
		const guarded = nodeGuard(gate);
		let seen = 0;
		const server = createServer((req, res) => guarded(req, res, () => void seen++));
		const port = await listening(server);
		const socket = connect(port, '127.0.0.1');
		socket.write(`GET / HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization}\r\n\r\n`.repeat(2));
		await until(() => seen === 2, 'both requests');
		assert.equal(free(), 0);
		socket.destroy();
		await allFree();
	});

	it('is given back if the client has left before the gate was asked', async () => {
		const guarded = nodeGuard(gate);
		const asked = Promise.withResolvers<void>();
		const server = createServer((req, res) => {
			res.once('close', () => guarded(req, res, () => asked.resolve()));
		});
		const port = await listening(server);
		const socket = connect(port, '127.0.0.1');
		socket.write(`GET / HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization}\r\n\r\n`);
		await once(server, 'request');
		socket.destroy();
		await asked.promise;
		assert.equal(free(), 2);
	});

	it('is given back if the answer had begun before the gate, whose headers come too late', async () => {
		// In the place of the other, so that its slots are those that are counted.
		gate = newGate({ tenants, rateLimitHeaders: true });
		const guarded = nodeGuard(gate);
		const thrown = Promise.withResolvers<unknown>();
		const server = createServer((req, res) => {
			res.write('begun');
			try {
				guarded(req, res, () => {});
			} catch (error) {
				thrown.resolve(error);
				res.end();
			}
		});
		const port = await listening(server);
		for (let i = 0; i < 3; i++) await askH1(port, 'whole');
		assert.equal(((await thrown.promise) as NodeJS.ErrnoException).code, 'ERR_HTTP_HEADERS_SENT');
		await allFree();
	});

	it('is held by an upgraded connection until it closes', async () => {
		const server = createServer();
		const upgraded = Promise.withResolvers<void>();
		server.on(
			'upgrade',
			guardUpgrade(gate, (_req, socket) => {
				socket.resume().once('end', () => socket.end());
				upgraded.resolve();
			}),
		);
		const port = await listening(server);
		const headers = { authorization, connection: 'upgrade', upgrade: 'x' };
		const req = request({ port, headers }).on('error', () => {});
		req.end();
		await upgraded.promise;
		assert.equal(free(), 1);
		req.destroy();
		await allFree();
	});
});

describe('a slot of Fastify', () => {
	it('is given back by a request that was injected', async () => {
		const app = Fastify();
		await app.register(fastifyGuard, { gate });
		app.get('/', () => 'ok');
		assert.equal((await app.inject({ url: '/', headers: { authorization } })).statusCode, 200);
		await allFree();
	});
});

describe('a slot of the fetch adapter', () => {
	const ask = (signal?: AbortSignal) =>
		new Request('http://localhost/', { headers: { authorization }, ...(signal && { signal }) });

	it('is held until the body is at its end', async () => {
		const response = await fetchGuard(gate, () => new Response('ab', { headers: { 'x-own': '1' } }))(ask());
		assert.equal(free(), 1);
		assert.equal(response.headers.get('x-own'), '1');
		assert.equal(await response.text(), 'ab');
		assert.equal(free(), 2);
	});

	it('is given back when the server cancels the body, and when the handler fails', async () => {
		const response = await fetchGuard(gate, () => new Response('ab'))(ask());
		await response.body!.cancel();
		await allFree();
		const failing = fetchGuard(gate, () => Promise.reject(new Error('boom')));
		await assert.rejects(async () => await failing(ask()), /boom/);
		assert.equal(free(), 2);
	});

	it('is given back when the client leaves, though the handler never answers', () => {
		const left = new AbortController();
		void fetchGuard(gate, () => new Promise<Response>(() => {}))(ask(left.signal));
		assert.equal(free(), 1);
		left.abort();
		assert.equal(free(), 2);
	});

	it('is given back at once when the client has left before the answer', async () => {
		await fetchGuard(gate, () => new Response('ab'))(ask(AbortSignal.abort()));
		assert.equal(free(), 2);
		const app = new Hono();
		app.get('/', honoGuard(gate), (c) => c.text('ab'));
		await app.request(ask(AbortSignal.abort()));
		assert.equal(free(), 2);
	});
});

/** A test that fails must not keep the process. */
const servers: Server[] = [];
after(() => {
	for (const server of servers) {
		server.closeAllConnections?.();
		server.close();
	}
});

async function listening(server: Server): Promise<number> {
	servers.push(server);
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	return (server.address() as AddressInfo).port;
}

/** Resolves when the client has seen the end, or has made it. */
async function askH1(port: number, ending: Ending): Promise<void> {
	const req = request({ port, path: `/${ending}`, headers: { authorization }, agent: false }).end();
	const [res] = (await once(req, 'response').catch(() => [])) as IncomingMessage[];
	if (res === undefined) return;
	res.on('error', () => {});
	if (ending !== 'cut') return void res.resume();
	await once(res, 'data');
	assert.equal(free(), 1);
	req.destroy();
}

async function askH2(port: number, ending: Ending): Promise<void> {
	const session = connectHttp2(`http://127.0.0.1:${port}`);
	const stream = session.request({ ':path': `/${ending}`, authorization });
	stream.on('error', () => {});
	if (ending === 'cut') {
		await once(stream, 'data');
		assert.equal(free(), 1);
		stream.close(8);
	} else {
		stream.resume();
	}
	await once(stream, 'close');
	session.close();
}
