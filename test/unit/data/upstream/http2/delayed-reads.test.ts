/** An HTTP/2 upstream that has used up its share of the worker, and whose connection ends before the rest of its bytes is read. */
import { deepEqual, equal } from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as collected from '../../../../../packages/proxy/src/data/body/collected.ts';
import * as streaming from '../../../../../packages/proxy/src/data/body/streaming.ts';
import {
	dataFrame,
	ERROR_CODE,
	goawayFrame,
	headersFrame,
	pingFrame,
	rstStreamFrame,
} from '../../../../fixtures/h2-frames.ts';
import { Client, Edge } from '../../fixtures/fake-edge.ts';
import { FakeHttp2Server } from '../../fixtures/fake-h2-server.ts';
import { settle } from '../../fixtures/fake-plane.ts';
import type { FakeSocket } from '../../fixtures/fake-upstream.ts';

/** More frames than there are tokens for, in one read. The clock does not move, so no tokens come back. */
const FLOOD = Array.from({ length: 2_000 }, () => pingFrame());
const ok = (id: number) => headersFrame(id, [[':status', '200']]);
const ENDS: Readonly<Record<string, (socket: FakeSocket) => void>> = {
	'an error': (socket) => socket.reset(),
	'a close': (socket) => socket.emit('close'),
};

class Scene {
	readonly edge: Edge;

	constructor(mode: typeof collected | typeof streaming = collected) {
		this.edge = new Edge(mode, 1, undefined, 'h2');
		this.edge.use(this.edge.upstreams, { limits: undefined, pending: undefined });
	}

	get sockets(): FakeSocket[] {
		return this.edge.upstreams[0]!.sockets;
	}

	/** Takes the last connection. */
	async accept(): Promise<FakeHttp2Server> {
		const socket = this.sockets.at(-1)!;
		socket.accept();
		await settle();
		return new FakeHttp2Server(socket);
	}

	/** A connection that has been used. */
	async used(): Promise<FakeHttp2Server> {
		await this.edge.ask();
		const server = await this.accept();
		server.answerAll();
		await settle();
		return server;
	}
}

for (const [what, end] of Object.entries(ENDS)) {
	describe(`bytes of an HTTP/2 upstream that wait for its share, when the connection ends with ${what}`, () => {
		it('are read: a response in them is delivered', async () => {
			const scene = new Scene();
			const server = await scene.used();
			const client = await scene.edge.ask();
			server.send(...FLOOD, ok(3));
			await settle();
			equal(client.status, 0);
			end(scene.sockets[0]!);
			await settle();
			deepEqual([client.status, server.heads, scene.sockets.length], [200, [1, 3], 1]);
			scene.edge.assertQuiet();
		});

		it('are read when the connection takes no more: a request that they refuse goes to another one', async () => {
			const scene = new Scene();
			const server = await scene.used();
			const client = await scene.edge.ask('tenant', 'body');
			server.send(...FLOOD, rstStreamFrame(3, ERROR_CODE.REFUSED_STREAM));
			await settle();
			end(scene.sockets[0]!);
			await settle();
			deepEqual([server.heads, scene.sockets.length], [[1, 3], 2]);
			(await scene.accept()).answerAll();
			await settle();
			equal(client.status, 200);
			scene.edge.assertQuiet();
		});

		it('are paid for by the address, whose other connections are read later', async () => {
			const scene = new Scene();
			const server = await scene.used();
			await scene.edge.ask();
			server.send(...FLOOD);
			await settle();
			end(scene.sockets[0]!);
			await scene.edge.plane.pass(2);
			const { share } = scene.edge.upstreams[0]!.upstream;
			equal(share.takeSome(1, scene.edge.plane.clock.now()), 0);
		});

		it('count as heard when they arrive: the request in question is not sent again', async () => {
			const scene = new Scene();
			const server = await scene.used();
			server.send(...FLOOD);
			const client = await scene.edge.ask();
			// As TLS hands over records that it has already decrypted. The head lacks its end.
			server.send(ok(3).subarray(0, 10));
			end(scene.sockets[0]!);
			await settle();
			deepEqual([client.status, scene.sockets.length], [502, 1]);
		});

		it('leave open what came after them: the request in question is not sent again', async () => {
			const scene = new Scene();
			const server = await scene.used();
			server.send(...FLOOD);
			const client = await scene.edge.ask();
			end(scene.sockets[0]!);
			await settle();
			deepEqual([client.status, scene.sockets.length], [502, 1]);
		});

		it('are read before the requests are judged: a request above the last stream of a GOAWAY is sent again', async () => {
			const scene = new Scene();
			const server = await scene.used();
			const client = await scene.edge.ask('tenant', 'body');
			server.send(...FLOOD, goawayFrame(1));
			await settle();
			equal(scene.sockets.length, 1);
			end(scene.sockets[0]!);
			await settle();
			equal(scene.sockets.length, 2);
			(await scene.accept()).answerAll();
			await settle();
			equal(client.status, 200);
			scene.edge.assertQuiet();
		});
	});
}

describe('small messages of a response, fifty in a millisecond', () => {
	for (const perRead of [1, 10]) {
		it(`are not delayed: ${perRead} in a read`, async () => {
			const scene = new Scene(streaming);
			const server = await scene.used();
			const client = await scene.edge.ask();
			server.send(headersFrame(3, [[':status', '200']], { endStream: false }));
			let delays = 0;
			scene.edge.upstreams[0]!.upstream.reportDelay = () => delays++;
			const messages = Array.from({ length: perRead }, () => dataFrame(3, 'x'.repeat(20)));
			for (let ms = 0; ms < 200; ms++) {
				for (let i = 0; i < 50; i += perRead) server.send(...messages);
				await scene.edge.plane.pass(1);
			}
			scene.sockets[0]!.destroy();
			deepEqual([client.text.length, delays], [200 * 50 * 20, 0]);
		});
	}
});

/** A client whose body comes in pieces, in one turn or in several. */
class PiecesClient extends Client {
	readonly #inTurns: boolean;

	constructor(edge: Edge, inTurns: boolean) {
		super(edge, 'tenant', 'x'.repeat(100));
		this.#inTurns = inTurns;
	}

	override readBody(): void {
		setImmediate(async () => {
			for (let i = 0; i < 5; i++) {
				this.exchange.onRequestBody(Buffer.from('x'));
				if (this.#inTurns) await settle();
			}
		});
	}
}

describe('the end of a used connection to an HTTP/2 upstream after several pieces of a body', () => {
	for (const [inTurns, reason] of [
		[false, 'idle connection was closed by the upstream'],
		[true, 'closed before a response'],
	] as const) {
		it(`that went out in ${inTurns ? 'several turns' : 'one turn'}: ${reason}`, async () => {
			const scene = new Scene(streaming);
			await scene.used();
			const client = new PiecesClient(scene.edge, inTurns);
			for (let i = 0; i < 8; i++) await settle();
			scene.sockets[0]!.crash();
			await settle();
			deepEqual(client.verdict, [502, reason]);
		});
	}
});
