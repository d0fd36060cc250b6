/** How the proxy ends a response early: with trailers for a gRPC call, with a reset for any other. */
import { deepEqual, equal } from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as collected from '../../../../packages/proxy/src/data/body/collected.ts';
import * as streaming from '../../../../packages/proxy/src/data/body/streaming.ts';
import type { ResponseFields } from '../../../../packages/proxy/src/data/client/response-fields.ts';
import type { RequestHead } from '../../../../packages/proxy/src/gates/headers.ts';
import type { Trailers } from '../../../../packages/proxy/src/gates/trailers.ts';
import type { ClientProtocol } from '../../../../packages/proxy/src/memory/route-stats.ts';
import { dataFrame, ERROR_CODE, headersFrame, rstStreamFrame, settingsFrame } from '../../../fixtures/h2-frames.ts';
import { Client, Edge, LIMITED } from '../fixtures/fake-edge.ts';
import { LIMITS, settle } from '../fixtures/fake-plane.ts';
import type { FakeSocket } from '../fixtures/fake-upstream.ts';

const CALL = { isGrpc: true, grpcTimeout: undefined } as const;
const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/grpc+proto\r\ntransfer-encoding: chunked\r\n\r\n';
const OK = [[':status', '200']] as const;
const MESSAGE = '5\r\n\0\0\0\0\0\r\n';

/** A client that takes trailers, and whose body comes when a test says so. */
class Caller extends Client {
	trailers: Trailers | undefined;
	hasEnded = false;
	/** It reads the response. */
	reads = true;

	constructor(
		edge: Edge,
		call: Pick<RequestHead, 'isGrpc' | 'grpcTimeout'> = CALL,
		protocol: ClientProtocol = 'http/1.1',
	) {
		super(edge, 'tenant', 'x'.repeat(100), call, protocol);
	}

	override readBody(): void {}

	override takesTrailers(): boolean {
		return true;
	}

	override write(chunk: Buffer): boolean {
		super.write(chunk);
		return this.reads;
	}

	override end(trailers?: Trailers): void {
		this.trailers = trailers;
		this.hasEnded = true;
		if (this.reads) super.end();
	}
}

/** A client whose response is whole with its head. */
class HeadReader extends Client {
	answered = 0;

	constructor(edge: Edge, protocol: ClientProtocol) {
		super(edge, 'tenant', '', { isGrpc: false, grpcTimeout: undefined }, protocol);
	}

	override respond(status: number): void {
		this.status = status;
		this.#done();
	}

	/** Over HTTP/2 the head carries END_STREAM, and has been written in the next turn of the loop. */
	override begin(status: number, _fields: ResponseFields, hasBody: boolean): void {
		this.status = status;
		if (!hasBody && this.connection.protocol === 'h2') setImmediate(() => this.#done());
	}

	override end(): void {
		if (this.connection.protocol === 'http/1.1') this.#done();
	}

	#done(): void {
		this.answered++;
		this.exchange.onResponseOut();
	}
}

interface Begun {
	readonly edge: Edge;
	readonly caller: Caller;
	readonly socket: FakeSocket;
}

/** A call whose response has begun. */
async function begun(
	head = HEAD,
	{ call = CALL as Pick<RequestHead, 'isGrpc' | 'grpcTimeout'>, reads = true } = {},
): Promise<Begun> {
	const edge = new Edge(streaming, 1);
	edge.limitRequests({ maxBodyBytes: 100 });
	const caller = new Caller(edge, call);
	caller.reads = reads;
	await settle();
	const socket = edge.upstreams[0]!.sockets[0]!;
	socket.accept();
	socket.answer(head);
	socket.answer(head.includes('chunked') ? MESSAGE : 'x');
	await settle();
	equal(caller.status, 200);
	return { edge, caller, socket };
}

/** What ends the response early, and the trailers that the call ends with. */
const CAUSES: readonly (readonly [string, (begun: Begun) => unknown, readonly string[]])[] = [
	[
		'a body beyond max_body_bytes',
		({ caller }) => caller.exchange.onRequestBody(Buffer.alloc(101)),
		['grpc-status', '8', 'grpc-message', 'payload too large'],
	],
	['an upstream that resets', ({ socket }) => socket.reset(), ['grpc-status', '14', 'grpc-message', 'bad gateway']],
	[
		'a client that stops sending',
		({ edge }) => edge.plane.pass(LIMITS.upstream + 2_000),
		['grpc-status', '4', 'grpc-message', 'slow client'],
	],
	[
		'an error of the proxy',
		({ caller }) => caller.exchange.onFault(new Error('injected')),
		['grpc-status', '13', 'grpc-message', 'internal error'],
	],
];

describe('a call whose response has begun ends with its status in trailers after', () => {
	for (const [cause, happens, trailers] of CAUSES) {
		it(cause, async () => {
			const all = await begun();
			await happens(all);
			await settle();
			const { edge, caller, socket } = all;
			deepEqual([caller.trailers, caller.isReset], [trailers, false]);
			equal(socket.destroyed, true);
			edge.assertQuiet();
		});
	}

	it('its own grpc-timeout', async () => {
		const { edge, caller } = await begun(HEAD, { call: { isGrpc: true, grpcTimeout: 8_000 } });
		await edge.plane.pass(10_000);
		deepEqual([caller.trailers?.[1], caller.isReset], ['4', false]);
		edge.assertQuiet();
	});
});

describe('a response that ends early is reset', () => {
	const LENGTH = 'HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ncontent-length: 100\r\n\r\n';
	const OTHER = HEAD.replace('grpc+proto', 'json');
	for (const [what, head, call] of [
		['with a declared length', LENGTH, CALL],
		['that is none of gRPC', OTHER, CALL],
		['to what is no call', HEAD, { isGrpc: false, grpcTimeout: undefined }],
	] as const) {
		it(`resets a broken response ${what}`, async () => {
			const { edge, caller, socket } = await begun(head, { call });
			socket.reset();
			await settle();
			deepEqual([caller.trailers, caller.isReset], [undefined, true]);
			edge.assertQuiet();
		});
	}

	it('resets a broken gRPC response if the route drops trailers', async () => {
		const edge = new Edge(streaming, 1);
		edge.changeRoute({ trailers: false });
		const caller = new Caller(edge);
		await settle();
		const socket = edge.upstreams[0]!.sockets[0]!;
		socket.accept();
		socket.answer(HEAD + MESSAGE);
		socket.reset();
		await settle();
		deepEqual([caller.trailers, caller.isReset], [undefined, true]);
		edge.assertQuiet();
	});

	it('resets a broken gRPC response if its client has stopped reading', async () => {
		const { edge, caller } = await begun(HEAD, { reads: false });
		await edge.plane.pass(LIMITS.upstream + 2_000);
		deepEqual([caller.trailers, caller.isReset], [undefined, true]);
		edge.assertQuiet();
	});

	it('resets a broken gRPC response if its client does not read the trailers, and logs it once, with its cause', async () => {
		const { edge, caller, socket } = await begun(HEAD, { reads: false });
		const logged: unknown[] = [];
		const write = (...[, , message, reason]: readonly unknown[]) => logged.push([message, reason]);
		Object.assign(edge.plane, { strangers: { write } });
		socket.reset();
		await settle();
		deepEqual([caller.trailers?.[1], caller.isReset], ['14', false]);
		await edge.plane.pass(LIMITS.upstream + 2_000);
		equal(caller.isReset, true);
		deepEqual(logged, [['response broken off', 'connection reset within a chunked body']]);
		edge.assertQuiet();
	});
});

describe('a response of declared length from an HTTP/2 upstream', () => {
	const END: Record<string, (socket: FakeSocket) => void> = {
		RST_STREAM: (socket) => socket.answer(rstStreamFrame(1, ERROR_CODE.INTERNAL_ERROR)),
		'the end of the connection': (socket) => socket.reset(),
	};
	for (const [end, ends] of Object.entries(END)) {
		/** Of a body of `length` bytes ten come. A client that does not read takes five of them before that end. */
		async function ended(length: number, reads: boolean, protocol: ClientProtocol): Promise<Caller> {
			const edge = new Edge(streaming, 1, LIMITED, 'h2');
			const caller = new Caller(edge, { isGrpc: false, grpcTimeout: undefined }, protocol);
			caller.reads = reads;
			await settle();
			const socket = edge.upstreams[0]!.sockets[0]!;
			socket.accept();
			const head = headersFrame(1, [...OK, ['content-length', `${length}`]], { endStream: false });
			socket.answer(Buffer.concat([settingsFrame(), head, dataFrame(1, 'hello'), dataFrame(1, 'world')]));
			await settle();
			deepEqual([caller.text, caller.hasEnded], [reads ? 'helloworld' : 'hello', false]);
			ends(socket);
			await settle();
			caller.reads = true;
			if (!caller.isReset) caller.exchange.onClientDrained(0);
			equal(edge.upstreams[0]!.failures(), 1);
			edge.assertQuiet();
			return caller;
		}

		for (const reads of [true, false]) {
			const which = `${end}, and a client that ${reads ? 'has all' : 'has yet to take some'}`;
			it(`is whole for a client of HTTP/1.1 with its last byte: ${which}`, async () => {
				const { text, hasEnded, isReset } = await ended(10, reads, 'http/1.1');
				deepEqual([text, hasEnded, isReset], ['helloworld', true, false]);
			});

			it(`is reset for a client of HTTP/2, after its last byte: ${which}`, async () => {
				const { text, hasEnded, isReset } = await ended(10, reads, 'h2');
				deepEqual([text, hasEnded, isReset], ['helloworld', false, true]);
			});

			it(`is reset without its last byte: ${which}`, async () => {
				const { hasEnded, isReset } = await ended(11, reads, 'http/1.1');
				deepEqual([hasEnded, isReset], [false, true]);
			});
		}
	}
});

describe('a response without a body from an HTTP/2 upstream that does not end it with its head', () => {
	const reset = (socket: FakeSocket, code: number) => socket.answer(rstStreamFrame(1, code));
	const THEN: Record<string, (socket: FakeSocket, edge: Edge) => unknown> = {
		...Object.fromEntries(
			Object.entries(ERROR_CODE).map(([name, code]) => [
				`a reset with ${name}`,
				(socket: FakeSocket) => reset(socket, code),
			]),
		),
		'the end of the connection': (socket) => socket.reset(),
		'an empty frame that ends it': (socket) => socket.answer(dataFrame(1, '', true)),
		silence: (_, edge) => edge.plane.pass(LIMITS.upstream + 2_000),
	};
	for (const mode of [collected, streaming]) {
		for (const protocol of ['http/1.1', 'h2'] as const) {
			for (const [then, happens] of Object.entries(THEN)) {
				it(`is whole for a client of ${protocol}, before ${then}: ${mode.bodyMode}`, async () => {
					const edge = new Edge(mode, 1, LIMITED, 'h2');
					const client = new HeadReader(edge, protocol);
					await settle();
					const socket = edge.upstreams[0]!.sockets[0]!;
					socket.accept();
					const head = headersFrame(1, [[':status', '204']], { endStream: false });
					socket.answer(Buffer.concat([settingsFrame(), head]));
					await settle();
					deepEqual([client.status, client.answered, client.isReset], [204, 1, false]);
					edge.assertQuiet();
					await happens(socket, edge);
					await settle();
					deepEqual([client.answered, client.isReset], [1, false]);
					equal(edge.upstreams[0]!.failures(), 0);
					edge.assertQuiet();
				});
			}
		}
	}
});
