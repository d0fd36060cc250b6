/** Errors of our own where callbacks enter: each costs the request at hand, or its connection, and nothing stays counted. */
import { deepEqual, equal } from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as collected from '../../../src/data/body/collected.ts';
import * as streaming from '../../../src/data/body/streaming.ts';
import { Edge, LIMITED } from './fixtures/fake-edge.ts';
import { LIMITS, settle } from './fixtures/fake-plane.ts';
import type { FakeSocket, FakeUpstream } from './fixtures/fake-upstream.ts';

const injected = () => {
	throw new Error('injected');
};
const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n';

for (const mode of [collected, streaming]) {
	describe(`an error of ours: ${mode.bodyMode}`, () => {
		for (const limits of [undefined, LIMITED]) {
			it(`where a connection is to be made leaves nothing counted: ${limits ? 'with' : 'without'} limits`, async () => {
				const edge = new Edge(mode, 1);
				edge.use(edge.upstreams, limits === undefined ? { limits, room: undefined } : { limits });
				const [{ upstream, sockets }] = edge.upstreams as [FakeUpstream];
				const { open } = upstream.transport;
				upstream.transport.open = injected;
				const client = await edge.ask();
				deepEqual(client.verdict, [500, undefined]);
				deepEqual([upstream.connections.total, upstream.stats.read().active], [0, 0]);
				edge.assertQuiet();
				upstream.transport.open = open;
				const next = await edge.ask();
				sockets[0]!.accept();
				sockets[0]!.answer();
				equal(next.status, 200);
				edge.assertQuiet();
			});
		}

		for (const part of ['take', 'reserve', 'breaker'] as const) {
			it(`where a connection is to be had, or a breaker asked, leaves nothing counted: ${part}`, async () => {
				const limits = { ...LIMITED, maxConnections: 1 };
				const edge = new Edge(mode, 1);
				edge.use(edge.upstreams, { limits });
				const [{ upstream, sockets }] = edge.upstreams as [FakeUpstream];
				const { breaker, pool } = upstream;
				const { admit } = breaker;
				if (part === 'breaker') breaker.admit = injected;
				else pool[part] = injected;
				deepEqual((await edge.ask()).verdict, [500, undefined]);
				equal(upstream.connections.total, 0);
				edge.assertQuiet();
				if (part === 'breaker') breaker.admit = admit;
				else Reflect.deleteProperty(pool, part);
				const next = await edge.ask();
				sockets[0]!.accept();
				sockets[0]!.answer();
				equal(next.status, 200);
				equal(upstream.connections.total, 1);
				edge.assertQuiet();
			});
		}

		const entries: Readonly<Record<string, (socket: FakeSocket) => void>> = {
			'a connection that is made': (socket) => socket.accept(),
			'a socket that takes more': (socket) => socket.emit('drain'),
			'the end of a connection': (socket) => socket.crash(),
			'an error of a connection': (socket) => socket.refuse(),
			'a closed connection': (socket) => socket.emit('close'),
			'an answer': (socket) => socket.answer(ANSWER),
			'bytes of a body': (socket) => {
				socket.answer(ANSWER);
				socket.answer('w'.repeat(5000));
			},
		};
		for (const [what, enter] of Object.entries(entries)) {
			it(`at ${what} costs that request its answer, and no other`, async () => {
				const edge = new Edge(mode, 1, { ...LIMITED, maxRequests: 2 });
				const [{ upstream, sockets }] = edge.upstreams as [FakeUpstream];
				const [client, other] = [await edge.ask(), await edge.ask('other')];
				const fails = ['onConnected', 'onWritable', 'onFailing', 'onHead', 'onBody', 'onBodyInRoom', 'room'] as const;
				for (const event of fails) client.exchange.attempt![event] = injected;
				enter(sockets[0]!);
				await settle();
				deepEqual([client.isReset || client.status === 500, sockets[0]!.destroyed], [true, true]);
				sockets[1]!.accept();
				sockets[1]!.answer();
				await settle();
				equal(other.status, 200);
				equal(upstream.connections.total, 1);
				edge.assertQuiet();
			});
		}

		it('at a deadline costs that request its answer, and holds up no other deadline', async () => {
			const edge = new Edge(mode, 1, { ...LIMITED, maxRequests: 2 });
			const [client, other] = [await edge.ask(), await edge.ask('other')];
			client.exchange.onDeadline = injected;
			await edge.plane.pass(LIMITS.upstream + 2_000);
			deepEqual([client.status, other.status], [500, 504]);
			edge.assertQuiet();
		});

		it('in its own answer to an error resets the client', async () => {
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
