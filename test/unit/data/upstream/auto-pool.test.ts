/** Upstreams that choose between HTTP/2 and HTTP/1.1 in each handshake: who waits for which connection, and where it is sent. */
import { deepEqual, equal, match } from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as collected from '../../../../packages/proxy/src/data/body/collected.ts';
import * as streaming from '../../../../packages/proxy/src/data/body/streaming.ts';
import { headersFrame, PREFACE, settingsFrame } from '../../../fixtures/h2-frames.ts';
import { type Client, Edge } from '../fixtures/fake-edge.ts';
import { settle } from '../fixtures/fake-plane.ts';
import type { FakeSocket, FakeUpstream } from '../fixtures/fake-upstream.ts';

const UNLIMITED = { maxRequests: 1000, maxConnections: undefined, queue: 100, queueTimeoutMs: 20_000 };

for (const mode of [collected, streaming]) {
	describe(`an upstream with protocol "auto": ${mode.bodyMode}`, () => {
		function setUp(maxConnections?: number): { edge: Edge; upstream: FakeUpstream; sockets: FakeSocket[] } {
			const edge = new Edge(mode, 1, { ...UNLIMITED, maxConnections }, 'auto');
			const upstream = edge.upstreams[0]!;
			return { edge, upstream, sockets: upstream.sockets };
		}

		async function ask(edge: Edge, requests: number, body?: string): Promise<Client[]> {
			const clients: Client[] = [];
			for (let i = 0; i < requests; i++) clients.push(await edge.ask(`tenant-${i}`, body));
			return clients;
		}

		async function accept(socket: FakeSocket, speaks: 'h2' | 'http/1.1'): Promise<void> {
			socket.accept(speaks);
			await settle();
		}

		/** Answers `count` streams of an HTTP/2 connection, from the first without a response. */
		async function answerStreams(socket: FakeSocket, from: number, count: number): Promise<void> {
			const isFirst = from === 1;
			if (isFirst) socket.answer(settingsFrame());
			for (let i = 0; i < count; i++) socket.answer(headersFrame(from + 2 * i, [[':status', '200']]));
			await settle();
		}

		async function answerOnce(socket: FakeSocket): Promise<void> {
			socket.answer();
			await settle();
		}

		const statuses = (clients: readonly Client[]) => clients.map(({ status }) => status);
		const assertNothingOpen = ({ upstream }: FakeUpstream, connections: number) => {
			const { active, streams, idle } = upstream.stats.read();
			deepEqual({ active, streams, idle }, { active: 0, streams: 0, idle: connections });
			equal(upstream.connections.total, connections);
		};

		it('has all requests wait for the first connection, and sends them on it if it is HTTP/2', async () => {
			const { edge, upstream, sockets } = setUp();
			const clients = await ask(edge, 5, 'body');
			equal(sockets.length, 1);
			equal(sockets[0]!.sent, '');
			equal(upstream.upstream.stats.read().streams, 5);
			await accept(sockets[0]!, 'h2');
			equal(sockets[0]!.sent.slice(0, PREFACE.length), PREFACE.toString());
			await answerStreams(sockets[0]!, 1, 5);
			deepEqual(statuses(clients), [200, 200, 200, 200, 200]);
			equal(sockets.length, 1);
			assertNothingOpen(upstream, 1);
			edge.assertQuiet();
		});

		it('gives each request a connection if the first one is HTTP/1.1', async () => {
			const { edge, upstream, sockets } = setUp();
			const clients = await ask(edge, 4, 'body');
			equal(sockets.length, 1);
			await accept(sockets[0]!, 'http/1.1');
			equal(sockets.length, 4);
			for (const socket of sockets.slice(1)) await accept(socket, 'http/1.1');
			for (const socket of sockets) {
				match(socket.sent, /^POST \/ HTTP\/1\.1\r\n/);
				await answerOnce(socket);
			}
			deepEqual(statuses(clients), [200, 200, 200, 200]);
			assertNothingOpen(upstream, 4);
			// From now on requests that find no connection do not wait for each other.
			await ask(edge, 6);
			equal(sockets.length, 6);
			edge.upstreams[0]!.upstream.pool.retire(undefined);
		});

		it('sends all that wait on one connection if an upstream of HTTP/1.1 turns to HTTP/2', async () => {
			const { edge, upstream, sockets } = setUp();
			const [first] = await ask(edge, 1);
			await accept(sockets[0]!, 'http/1.1');
			await answerOnce(sockets[0]!);
			equal(first!.status, 200);
			sockets[0]!.close();

			const clients = await ask(edge, 3);
			equal(sockets.length, 4);
			await accept(sockets[2]!, 'h2');
			deepEqual(
				sockets.slice(1).map(({ destroyed }) => destroyed),
				[true, false, true],
			);
			await answerStreams(sockets[2]!, 1, 3);
			deepEqual(statuses(clients), [200, 200, 200]);
			await ask(edge, 5);
			equal(sockets.length, 4);
			equal(upstream.upstream.stats.read().streams, 5);
		});

		it('turns back to HTTP/1.1, and uses no connection for both', async () => {
			const { edge, upstream, sockets } = setUp();
			const [over2] = await ask(edge, 1);
			await accept(sockets[0]!, 'h2');
			await answerStreams(sockets[0]!, 1, 1);
			equal(over2!.status, 200);
			sockets[0]!.close();
			await settle();

			const clients = await ask(edge, 3);
			equal(sockets.length, 2);
			equal(upstream.upstream.stats.read().choice, 'h2');
			await accept(sockets[1]!, 'http/1.1');
			equal(upstream.upstream.stats.read().choice, 'http/1.1');
			for (const socket of sockets.slice(2)) await accept(socket, 'http/1.1');
			for (const socket of sockets.slice(1)) await answerOnce(socket);
			deepEqual(statuses(clients), [200, 200, 200]);
			assertNothingOpen(upstream, 3);
			edge.assertQuiet();
		});

		it('keeps to max_connections if HTTP/1.1 needs more of them than were expected', async () => {
			const { edge, upstream, sockets } = setUp(2);
			const clients = await ask(edge, 6);
			equal(sockets.length, 1);
			await accept(sockets[0]!, 'http/1.1');
			equal(sockets.length, 2);
			// Those that wait for a turn are retries: each gets an unused connection.
			for (const [i] of clients.entries()) {
				equal(upstream.upstream.connections.total, 2);
				if (i > 0) await accept(sockets[i]!, 'http/1.1');
				await answerOnce(sockets[i]!);
			}
			deepEqual(statuses(clients), [200, 200, 200, 200, 200, 200]);
			assertNothingOpen(upstream, 2);
			edge.assertQuiet();
		});

		it('never delivers a request that is cancelled while it waits, and ends a connection without requests', async () => {
			const { edge, upstream, sockets } = setUp();
			const [wanted, unwanted] = await ask(edge, 2);
			unwanted!.reset();
			await accept(sockets[0]!, 'h2');
			await answerStreams(sockets[0]!, 1, 1);
			equal(wanted!.status, 200);
			equal(sockets[0]!.sent.includes('tenant-1'), false);
			sockets[0]!.close();
			await settle();

			const [only] = await ask(edge, 1);
			only!.reset();
			equal(sockets[1]!.destroyed, true);
			await accept(sockets[1]!, 'h2');
			equal(sockets[1]!.sent, '');
			assertNothingOpen(upstream, 0);
			edge.assertQuiet();
		});

		it('a connection that cannot be made fails all that wait for it, once', async () => {
			const { edge, upstream, sockets } = setUp();
			const clients = await ask(edge, 3);
			sockets[0]!.refuse();
			await settle();
			deepEqual(
				clients.map(({ verdict }) => verdict),
				Array(3).fill([502, 'connection refused']),
			);
			equal(upstream.failures(), 3);
			assertNothingOpen(upstream, 0);
			edge.assertQuiet();
		});
	});
}
