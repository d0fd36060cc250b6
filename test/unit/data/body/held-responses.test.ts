/** Memory of a streamed response that waits at an HTTP/2 upstream's connection for a client that does not read. */
import { deepEqual, equal } from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BufferedBytes } from '../../../../packages/proxy/src/data/body/buffered-bytes.ts';
import * as streaming from '../../../../packages/proxy/src/data/body/streaming.ts';
import { Budget, budgetInUse } from '../../../../packages/proxy/src/memory/budget.ts';
import { dataFrame, ERROR_CODE, headersFrame, rstStreamFrame, settingsFrame } from '../../../fixtures/h2-frames.ts';
import { Client, Edge, LIMITED } from '../fixtures/fake-edge.ts';
import { settle } from '../fixtures/fake-plane.ts';

const PIECE = 10_240;

class SlowClient extends Client {
	reads = false;

	override write(chunk: Buffer): boolean {
		super.write(chunk);
		return this.reads;
	}
}

/** A client that has taken the first of three pieces, and a limit on the bytes that the proxy holds for it. */
async function slow(maxBufferedBytes: number) {
	const edge = new Edge(streaming, 1, LIMITED, 'h2');
	const memory = Budget.allocate(maxBufferedBytes, 1024, 1);
	Object.assign(edge.plane, { bufferedBytes: new BufferedBytes(new Budget(memory, 0), undefined) });
	const client = new SlowClient(edge, 'tenant');
	await settle();
	const socket = edge.upstreams[0]!.sockets[0]!;
	socket.accept();
	const piece = dataFrame(1, Buffer.alloc(PIECE, 'x'));
	const head = headersFrame(1, [[':status', '200']], { endStream: false });
	socket.answer(Buffer.concat([settingsFrame(), head, piece, piece, piece]));
	await settle();
	return { edge, client, socket, held: () => budgetInUse(memory) };
}

describe('a streamed response whose client does not read', () => {
	it('is counted as held while it waits at the connection, until the client has it', async () => {
		const { edge, client, socket, held } = await slow(2 ** 20);
		deepEqual([client.text.length, held()], [PIECE, 2 * PIECE]);
		client.exchange.onClientDrained(0);
		deepEqual([client.text.length, held()], [2 * PIECE, PIECE]);
		client.reads = true;
		client.exchange.onClientDrained(0);
		deepEqual([client.text.length, held()], [3 * PIECE, 0]);
		socket.answer(dataFrame(1, '', true));
		await settle();
		edge.assertQuiet();
	});

	it("is counted at the client's connection, too, once that has been full for a while", async () => {
		const { edge, client, held } = await slow(2 ** 20);
		client.heldResponse = PIECE;
		equal(held(), 2 * PIECE);
		await edge.plane.pass(200);
		equal(held(), 3 * PIECE);
		client.exchange.onClientDrained(0);
		equal(held(), PIECE);
		client.exchange.onClientGone();
		await edge.plane.pass(200);
		equal(held(), 0);
		edge.assertQuiet();
	});

	it('gives the memory back when the client leaves', async () => {
		const { edge, client, held } = await slow(2 ** 20);
		client.exchange.onClientGone();
		equal(held(), 0);
		edge.assertQuiet();
	});

	it('is broken off where max_buffered_bytes is held, and blames no upstream', async () => {
		const { edge, client, held } = await slow(PIECE);
		deepEqual([client.isReset, held()], [true, 0]);
		equal(edge.upstreams[0]!.failures(), 0);
		edge.assertQuiet();
	});
});

describe('the part of a request that is kept in case the upstream refuses it', () => {
	const KEPT = 'x'.repeat(16_384);

	/** A request whose body an HTTP/2 upstream has got, and a max_buffered_bytes that another one's response needs. */
	async function beside() {
		const edge = new Edge(streaming, 1, LIMITED, 'h2');
		edge.use(edge.upstreams, { limits: undefined, pending: undefined });
		const memory = Budget.allocate(4 * PIECE, 1024, 1);
		Object.assign(edge.plane, { bufferedBytes: new BufferedBytes(new Budget(memory, 0), undefined) });
		const kept = new Client(edge, 'tenant', KEPT);
		await settle();
		const socket = edge.upstreams[0]!.sockets[0]!;
		socket.accept();
		socket.answer(settingsFrame());
		await settle();
		return { edge, kept, socket };
	}

	it('is not the reason why another request lacks memory', async () => {
		const { edge, kept, socket } = await beside();
		const client = new SlowClient(edge, 'tenant');
		await settle();
		const piece = dataFrame(3, Buffer.alloc(PIECE, 'x'));
		const head = headersFrame(3, [[':status', '200']], { endStream: false });
		socket.answer(Buffer.concat([head, piece, piece, piece]));
		await settle();
		equal(client.isReset, false);
		client.reads = true;
		client.exchange.onClientDrained(0);
		socket.answer(Buffer.concat([dataFrame(3, '', true), rstStreamFrame(1, ERROR_CODE.REFUSED_STREAM)]));
		await settle();
		// It is sent again on the same connection.
		socket.answer(headersFrame(5, [[':status', '200']]));
		await settle();
		deepEqual([client.status, kept.status], [200, 200]);
		edge.assertQuiet();
	});
});
