/** The end of a connection by its upstream: the verdict on the request at hand, the report to the breaker, and its time. */
import { deepEqual, equal } from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as collected from '../../../../packages/proxy/src/data/body/collected.ts';
import * as streaming from '../../../../packages/proxy/src/data/body/streaming.ts';
import { type Client, Edge, LIMITED } from '../fixtures/fake-edge.ts';
import { settle } from '../fixtures/fake-plane.ts';
import type { FakeSocket, FakeUpstream } from '../fixtures/fake-upstream.ts';

const UNLIMITED = { limits: undefined, pending: undefined };

for (const mode of [collected, streaming]) {
	describe(`the end of a used connection before a response: ${mode.bodyMode}`, () => {
		/** A request on a connection that has served one before; there is another address. */
		async function reused(
			body?: string,
		): Promise<{ edge: Edge; first: FakeUpstream; socket: FakeSocket; client: Client }> {
			const edge = new Edge(mode, 2);
			const [first, second] = edge.upstreams as [FakeUpstream, FakeUpstream];
			edge.use([first], UNLIMITED);
			await edge.ask('before');
			const socket = first.sockets[0]!;
			socket.accept();
			socket.answer();
			await settle();
			const client = await edge.ask('tenant', body);
			edge.use([first, second], UNLIMITED);
			return { edge, first, socket, client };
		}

		const verdictOf = (client: Client) => [client.status, client.refusal?.reason];

		it('is that of an idle connection if the request was reset: it is sent again, and no failure', async () => {
			const { edge, first, socket, client } = await reused();
			socket.close();
			await settle();
			equal(first.upstream.stats.read().retries.get('stale'), 1);
			equal(client.status, 0);
			edge.upstreams[1]!.sockets[0]!.answer();
			equal(client.status, 200);
			edge.assertQuiet();
		});

		it('is that of an idle connection if it comes at once, also of a request with a body', async () => {
			const { edge, first, socket, client } = await reused('body');
			socket.crash();
			await settle();
			deepEqual(verdictOf(client), [502, 'idle connection was closed by the upstream']);
			equal(first.failures(), 0);
			edge.assertQuiet();
		});

		it('is a failure of the upstream if it comes later: a crash with the request in hand', async () => {
			const { edge, first, socket, client } = await reused('body');
			await edge.plane.pass(3_000);
			socket.crash();
			await settle();
			deepEqual(verdictOf(client), [502, 'closed before a response']);
			equal(first.failures(), 1);
			edge.assertQuiet();
		});

		it('is a failure if it comes later than a round trip, by a reset as well', async () => {
			const { edge, first, socket } = await reused();
			await edge.plane.pass(3_000);
			socket.reset();
			await settle();
			equal(first.upstream.stats.read().retries.get('unanswered'), 1);
			equal(first.failures(), 1);
		});

		it('an immediate reset after a request without a body counts as the end of an idle connection', async () => {
			const { first, socket } = await reused();
			socket.reset();
			await settle();
			equal(first.upstream.stats.read().retries.get('stale'), 1);
			equal(first.failures(), 0);
		});
	});

	describe(`reports to a breaker: ${mode.bodyMode}`, () => {
		/** Whether the breaker knew of the failure when the place at the upstream became free for other threads. */
		async function knewInTime(limits: typeof LIMITED, end: (socket: FakeSocket) => void): Promise<boolean[]> {
			const edge = new Edge(mode, 1, limits);
			const [{ upstream, sockets, failures }] = edge.upstreams as [FakeUpstream];
			await edge.ask();
			sockets[0]!.accept();
			const known: boolean[] = [];
			for (const count of [upstream.load, upstream.connections]) {
				const { dec } = count;
				count.dec = () => {
					known.push(failures() === 1);
					dec.call(count);
				};
			}
			const { freed } = upstream.pool;
			upstream.pool.freed = () => {
				known.push(failures() === 1);
				freed.call(upstream.pool);
			};
			end(sockets[0]!);
			await settle();
			return known;
		}

		const ends: Readonly<Record<string, (socket: FakeSocket) => void>> = {
			'a 503': (socket) => socket.answer('HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n'),
			'a 503 that closes': (socket) =>
				socket.answer('HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno'),
			'a connection without a response': (socket) => socket.crash(),
			'no HTTP': (socket) => socket.answer('nonsense\r\n\r\n'),
			'half a response': (socket) => {
				socket.answer('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf');
				socket.crash();
			},
		};
		for (const [what, end] of Object.entries(ends)) {
			it(`comes before its place is another request's: ${what}`, async () => {
				const known = await knewInTime(LIMITED, end);
				equal(known.length > 0 && known.every((one) => one), true, `${known}`);
			});
		}
	});
}

describe('a collected response that breaks off', () => {
	const half = 'HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\nhalf';

	it('a collected response to GET that breaks off is requested again, and contains nothing of the first', async () => {
		const edge = new Edge(collected, 2);
		const [first, second] = edge.upstreams as [FakeUpstream, FakeUpstream];
		edge.use([first, second], UNLIMITED);
		const client = await edge.ask();
		first.sockets[0]!.accept();
		first.sockets[0]!.answer(half);
		first.sockets[0]!.crash();
		await settle();
		equal(first.upstream.stats.read().retries.get('broken'), 1);
		equal(first.failures(), 1);
		second.sockets[0]!.accept();
		second.sockets[0]!.answer('HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n');
		second.sockets[0]!.answer('w'.repeat(5000));
		await settle();
		deepEqual([client.status, client.text], [200, 'w'.repeat(5000)]);
		edge.assertQuiet();
	});

	it('a collected response to POST that breaks off is 502', async () => {
		const edge = new Edge(collected, 2);
		const [first, second] = edge.upstreams as [FakeUpstream, FakeUpstream];
		edge.use([first, second], UNLIMITED);
		const client = await edge.ask('tenant', 'body');
		first.sockets[0]!.accept();
		first.sockets[0]!.answer(half);
		first.sockets[0]!.crash();
		await settle();
		deepEqual(client.verdict, [502, 'closed after 4 of 5,000 bytes']);
		equal(second.sockets.length, 0);
		edge.assertQuiet();
	});
});
