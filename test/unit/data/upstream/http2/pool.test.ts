/** Connections to an HTTP/2 upstream that takes no more, by its window, by its socket, or by its own word. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as collected from '../../../../../packages/proxy/src/data/body/collected.ts';
import type { UpstreamLimits } from '../../../../../packages/proxy/src/shared/messages.ts';
import { goawayFrame, pingFrame, SETTING, settingsFrame } from '../../../../fixtures/h2-frames.ts';
import { Client, Edge, LIMITED, QUEUE_TIMEOUT_MS } from '../../fixtures/fake-edge.ts';
import { FakeHttp2Server } from '../../fixtures/fake-h2-server.ts';
import { settle } from '../../fixtures/fake-plane.ts';
import type { FakeUpstream } from '../../fixtures/fake-upstream.ts';

const NO_LIMITS = { limits: undefined, pending: undefined };
const MANY = { ...LIMITED, maxRequests: 1_000, queue: 1_000 };

function edgeWith(limits: UpstreamLimits | undefined, addresses = 1): { edge: Edge; upstreams: FakeUpstream[] } {
	const edge = new Edge(collected, addresses, limits, 'h2');
	if (limits === undefined) edge.use(edge.upstreams, NO_LIMITS);
	return { edge, upstreams: edge.upstreams };
}

const streams = (count: number) => settingsFrame([[SETTING.MAX_CONCURRENT_STREAMS, count]]);

/** Takes the last connection. */
async function accept({ sockets }: FakeUpstream, settings: readonly [number, number][] = []): Promise<FakeHttp2Server> {
	sockets.at(-1)!.accept();
	await settle();
	return new FakeHttp2Server(sockets.at(-1)!, settings);
}

/** A connection that has been used. */
async function used(edge: Edge, upstream: FakeUpstream): Promise<FakeHttp2Server> {
	const first = await edge.ask();
	const server = await accept(upstream);
	server.answerAll();
	await settle();
	equal(first.status, 200);
	return server;
}

/** A connection that has been used, and that takes no streams from now on. */
async function shut(edge: Edge, upstream: FakeUpstream): Promise<FakeHttp2Server> {
	const server = await used(edge, upstream);
	server.send(streams(0));
	return server;
}

describe('a connection that ends with its last request', () => {
	it('is closed once, and its socket is left to send what the close needs', async () => {
		const { edge, upstreams } = edgeWith(MANY);
		const [{ upstream, sockets }] = upstreams as [FakeUpstream];
		let closed = 0;
		// As over TLS, where a close_notify goes out first.
		upstream.transport.close = () => closed++;
		await used(edge, upstreams[0]!);
		const client = await edge.ask();
		// Long enough to doubt the connection, which then takes no other request.
		await edge.plane.pass(15_000);
		client.reset();
		await settle();
		deepEqual([closed, sockets[0]!.destroyed], [1, false]);
		edge.assertQuiet();
	});
});

describe('an upstream that accepts no streams (SETTINGS_MAX_CONCURRENT_STREAMS is 0)', () => {
	for (const limits of [MANY, { ...MANY, maxConnections: 1 }]) {
		const which = limits.maxConnections === undefined ? 'max_requests' : 'max_connections';
		it(`has its requests wait in the queue, on no further connection, until it takes some again: ${which}`, async () => {
			const { edge, upstreams } = edgeWith(limits);
			const [upstream] = upstreams as [FakeUpstream];
			const one = await shut(edge, upstream);
			const clients = await Promise.all(Array.from({ length: 50 }, () => edge.ask()));
			await edge.plane.pass(3_000);
			deepEqual([edge.waiting.total, upstream.sockets.length], [50, 1]);
			one.send(streams(100));
			await settle();
			one.answerAll();
			await settle();
			deepEqual(new Set(clients.map(({ status }) => status)), new Set([200]));
			equal(upstream.sockets.length, 1);
			edge.assertQuiet();
		});
	}

	it('has requests wait no longer than queue_timeout_secs, and the reason names the setting', async () => {
		const { edge, upstreams } = edgeWith(MANY);
		await shut(edge, upstreams[0]!);
		const client = await edge.ask();
		await edge.plane.pass(QUEUE_TIMEOUT_MS + 1_000);
		deepEqual(client.verdict, [
			503,
			'waited for queue_timeout_secs while the upstream took no requests (SETTINGS_MAX_CONCURRENT_STREAMS is 0)',
		]);
		equal(upstreams[0]!.failures(), 0);
		edge.assertQuiet();
	});

	it('has no more of them wait than queue says', async () => {
		const { edge, upstreams } = edgeWith({ ...MANY, queue: 1 });
		await shut(edge, upstreams[0]!);
		await edge.ask();
		const { verdict } = await edge.ask();
		equal(verdict[0], 503);
		ok(verdict[1]!.includes('its queue is full'));
		equal(upstreams[0]!.sockets.length, 1);
	});

	it('costs each request a 503 if there is no queue, and no connection', async () => {
		const { edge, upstreams } = edgeWith(undefined);
		const [upstream] = upstreams as [FakeUpstream];
		const one = await shut(edge, upstream);
		for (let i = 0; i < 10; i++) {
			const { verdict } = await edge.ask();
			deepEqual(verdict, [503, 'the upstream takes no requests (SETTINGS_MAX_CONCURRENT_STREAMS is 0)']);
		}
		deepEqual([upstream.sockets.length, upstream.failures()], [1, 0]);
		one.send(streams(1));
		const client = await edge.ask();
		one.answerAll();
		await settle();
		equal(client.status, 200);
		edge.assertQuiet();
	});

	for (const limits of [undefined, MANY]) {
		it(`leaves its requests to other addresses: ${limits ? 'with' : 'without'} limits`, async () => {
			const { edge, upstreams } = edgeWith(limits, 2);
			const [first, second] = upstreams as [FakeUpstream, FakeUpstream];
			edge.use([first], limits === undefined ? NO_LIMITS : { limits });
			await shut(edge, first);
			edge.use([first, second], limits === undefined ? NO_LIMITS : { limits });
			const clients = await Promise.all(Array.from({ length: 20 }, () => edge.ask()));
			(await accept(second)).answerAll();
			await settle();
			deepEqual(new Set(clients.map(({ status }) => status)), new Set([200]));
			deepEqual([first.sockets.length, second.sockets.length], [1, 1]);
			edge.assertQuiet();
		});
	}

	it('requests that an upstream refuses before its first SETTINGS, which allow no streams, wait', async () => {
		const { edge, upstreams } = edgeWith(MANY);
		const [upstream] = upstreams as [FakeUpstream];
		const clients = await Promise.all(Array.from({ length: 30 }, () => edge.ask()));
		const one = await accept(upstream, [[SETTING.MAX_CONCURRENT_STREAMS, 0]]);
		one.refuseAll();
		await settle();
		await edge.plane.pass(3_000);
		deepEqual([edge.waiting.total, upstream.sockets.length], [30, 1]);
		one.send(streams(100));
		await settle();
		one.answerAll();
		await settle();
		deepEqual(new Set(clients.map(({ status }) => status)), new Set([200]));
		edge.assertQuiet();
	});

	it('is asked on a new connection once that one ends', async () => {
		const { edge, upstreams } = edgeWith(MANY);
		const [upstream] = upstreams as [FakeUpstream];
		const one = await shut(edge, upstream);
		const client = await edge.ask();
		one.send(goawayFrame());
		await settle();
		equal(upstream.sockets.length, 2);
		(await accept(upstream)).answerAll();
		await settle();
		equal(client.status, 200);
		edge.assertQuiet();
	});
});

/** Of a request, bytes. */
const LONG = 8_000;

/** A request with a long head. */
function longRequest(edge: Edge): Client {
	const client = new Client(edge, 'tenant');
	Object.assign(client.head, { lines: `x-long: ${'a'.repeat(LONG)}\r\n` });
	return client;
}

describe('an upstream that does not read', () => {
	/** A connection whose upstream reads nothing. */
	async function unread(limits: UpstreamLimits | undefined) {
		const { edge, upstreams } = edgeWith(limits);
		const [upstream] = upstreams as [FakeUpstream];
		const one = await used(edge, upstream);
		const socket = upstream.sockets[0]!;
		socket.reads = false;
		return { edge, upstream, socket, one };
	}

	it('keeps its connection, however many heads wait there; others go over the next one', async () => {
		const { edge, upstream, socket, one } = await unread(undefined);
		const clients: Client[] = [];
		for (let i = 0; i < 90; i++) {
			clients.push(longRequest(edge));
			await settle();
		}
		equal(socket.destroyed, false);
		ok(socket.writableLength < 300_000, `${socket.writableLength} bytes wait`);
		ok(upstream.sockets.length > 1 && upstream.sockets.length < 10, `${upstream.sockets.length} connections`);
		socket.drain();
		one.answerAll();
		for (const other of upstream.sockets.slice(1)) {
			other.accept();
			await settle();
			new FakeHttp2Server(other).answerAll();
		}
		await settle();
		deepEqual(new Set(clients.map(({ status }) => status)), new Set([200]));
		equal(upstream.failures(), 0);
		edge.assertQuiet();
	});

	it('has requests wait in the queue if there may be no other connection, and they go when it reads', async () => {
		const { edge, upstream, socket, one } = await unread({ ...MANY, maxConnections: 1 });
		const clients = Array.from({ length: 90 }, () => longRequest(edge));
		for (let i = 0; i < 10; i++) await settle();
		deepEqual([socket.destroyed, upstream.sockets.length], [false, 1]);
		ok(edge.waiting.total > 40, `${edge.waiting.total} wait`);
		for (let i = 0; i < 10; i++) {
			socket.drain();
			await settle();
			one.answerAll();
			await settle();
		}
		deepEqual(new Set(clients.map(({ status }) => status)), new Set([200]));
		equal(upstream.failures(), 0);
		edge.assertQuiet();
	});

	it('an upstream that does not read and sends PINGs loses its connection, as its own failure', async () => {
		const { edge, upstream, socket, one } = await unread(undefined);
		const client = await edge.ask();
		for (let i = 0; i < 200 && !socket.destroyed; i++) {
			one.send(...Array.from({ length: 500 }, () => pingFrame()));
			await edge.plane.pass(1_000);
		}
		equal(socket.destroyed, true);
		deepEqual(client.verdict, [502, 'HTTP/2: it does not read the acknowledgements of its frames']);
		equal(upstream.failures(), 1);
		edge.assertQuiet();
	});
});
