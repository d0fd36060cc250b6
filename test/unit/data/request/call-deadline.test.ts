/** How long the client of a gRPC call waits, from its head to the end of the upstream's response. */
import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as collected from '../../../../packages/proxy/src/data/body/collected.ts';
import * as streaming from '../../../../packages/proxy/src/data/body/streaming.ts';
import { rounded } from '../../../../packages/proxy/src/data/plane/plane-deadlines.ts';
import { Client, Edge } from '../fixtures/fake-edge.ts';
import { LIMITS, settle } from '../fixtures/fake-plane.ts';
import type { FakeSocket, FakeUpstream } from '../fixtures/fake-upstream.ts';

const OVER = [504, "the client's grpc-timeout is over"];
/** In addition to the eighth by which limits of clients are longer: the fake clock moves by seconds. */
const SOME = 2_000;

for (const mode of [collected, streaming]) {
	describe(`a gRPC call with a timeout: ${mode.bodyMode}`, () => {
		function started(): { edge: Edge; first: FakeUpstream } {
			const edge = new Edge(mode, 1);
			return { edge, first: edge.upstreams[0]! };
		}

		it('ends with 504 when it is over, at the upstream as well, and is no failure of the upstream', async () => {
			const { edge, first } = started();
			const client = await edge.call(8_000);
			first.sockets[0]!.accept();
			await edge.plane.pass(7_000);
			deepEqual([client.status, first.sockets[0]!.destroyed], [0, false]);
			await edge.plane.pass(1_000 + SOME);
			deepEqual(client.verdict, OVER);
			equal(first.sockets[0]!.destroyed, true);
			equal(first.failures(), 0);
			edge.assertQuiet();
		});

		it('tells the upstream what is left of it', async () => {
			const { edge, first } = started();
			const under = await edge.occupy(0);
			const client = await edge.call(8_000);
			equal(edge.waiting.total, 1);
			await edge.plane.pass(3_000);
			under.answer();
			await settle();
			match(first.sockets.at(-1)!.sent, /\r\ngrpc-timeout: 5000000u\r\n/);
			first.sockets.at(-1)!.answer();
			await settle();
			equal(client.status, 200);
			await edge.plane.pass(60_000);
			equal(client.isReset, false);
			edge.assertQuiet();
		});

		it('goes to no upstream if nothing is left of it, at first, after a wait or to another upstream', async () => {
			const { edge, first } = started();
			const client = await edge.call(0);
			deepEqual([client.verdict, first.sockets.length], [OVER, 0]);
			const under = await edge.occupy(0);
			const waiting = await edge.call(3_000);
			equal(edge.waiting.total, 1);
			await edge.plane.pass(3_000);
			equal(waiting.status, 0, 'the wheel has not told of it yet');
			under.answer();
			await settle();
			deepEqual([waiting.verdict, first.sockets.length], [OVER, 1]);
			deepEqual(edge.results, { unavailable: 1 });
			edge.assertQuiet();

			const two = new Edge(mode, 2);
			const again = await two.call(3_000);
			await two.plane.pass(3_000);
			two.upstreams[0]!.sockets[0]!.refuse();
			await settle();
			deepEqual([again.verdict, two.upstreams[1]!.sockets.length], [OVER, 0]);
			two.assertQuiet();
		});

		it('costs its connection tokens if it allows less than a millisecond, since it cannot be answered', async () => {
			const { edge } = started();
			const impossible = await edge.call(1e-6);
			const possible = await edge.call(1);
			deepEqual([impossible.spent, possible.spent], [50, 0]);
			await edge.plane.pass(60_000);
			deepEqual(impossible.verdict, OVER);
			edge.assertQuiet();
		});

		const breaksOff = (socket: FakeSocket) => socket.reset();
		const answers504 = (socket: FakeSocket) => socket.answer('HTTP/1.1 504 x\r\ncontent-length: 0\r\n\r\n');
		for (const [what, ms, act, verdict, failures] of [
			['is no failure of an upstream that breaks it off once it is over', 8_000, breaksOff, OVER, 0],
			['is a failure of an upstream that breaks it off earlier', 7_000, breaksOff, [502, 'connection reset'], 1],
			['is no failure of an upstream that answers 504 once it is over', 8_000, answers504, [504, undefined], 0],
		] as const) {
			it(what, async () => {
				const { edge, first } = started();
				const client = await edge.call(8_000);
				first.sockets[0]!.accept();
				await edge.plane.pass(ms);
				equal(client.status, 0, 'the wheel has not told of it yet');
				act(first.sockets[0]!);
				await settle();
				deepEqual(client.verdict, verdict);
				equal(first.failures(), failures);
				edge.assertQuiet();
			});
		}

		it('is over in the queue of an upstream at its limit as well', async () => {
			const { edge } = started();
			const under = await edge.occupy(0);
			const client = await edge.call(4_000);
			await edge.plane.pass(4_000 + SOME);
			deepEqual(client.verdict, OVER);
			deepEqual(edge.results, { gone: 1 });
			under.answer();
			await settle();
			edge.assertQuiet();
		});

		it('does not lengthen what the upstream has, and a timeout of days sets no further deadline', async () => {
			const { edge, first } = started();
			const client = await edge.call(90_000_000);
			first.sockets[0]!.accept();
			await edge.plane.pass(LIMITS.upstream + SOME);
			equal(client.status, 504);
			equal(first.failures(), 1);
			edge.assertQuiet();
		});
	});
}

describe('a gRPC call with a timeout: streaming', () => {
	it('is broken off when it is over, however its response moves', async () => {
		const edge = new Edge(streaming, 1);
		await edge.call(10_000);
		const socket = edge.upstreams[0]!.sockets[0]!;
		socket.accept();
		socket.answer('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n');
		for (let i = 0; i < 9; i++) {
			await edge.plane.pass(1_000);
			socket.answer('x');
		}
		equal(socket.destroyed, false);
		await edge.plane.pass(1_000 + SOME);
		equal(socket.destroyed, true);
		equal(edge.upstreams[0]!.failures(), 0);
		edge.assertQuiet();
	});
});

describe('the response to a gRPC call', () => {
	it('a gRPC response that the upstream breaks off after its deadline is no failure of the upstream', async () => {
		const edge = new Edge(streaming, 1);
		const client = await edge.call(8_000);
		const socket = edge.upstreams[0]!.sockets[0]!;
		socket.accept();
		socket.answer('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx');
		await edge.plane.pass(8_000);
		equal(client.isReset, false);
		socket.reset();
		await settle();
		equal(client.isReset, true);
		equal(edge.upstreams[0]!.failures(), 0);
		edge.assertQuiet();
	});
});

describe('a gRPC call with a timeout: collected', () => {
	it('ends with 504 while its body is read', async () => {
		class SilentClient extends Client {
			override readBody(): void {}
		}
		const edge = new Edge(collected, 1);
		const client = new SilentClient(edge, 'tenant', 'x', { isGrpc: true, grpcTimeout: 8_000 });
		await edge.plane.pass(7_000);
		equal(client.status, 0);
		await edge.plane.pass(1_000 + SOME);
		deepEqual(client.verdict, OVER);
		equal(edge.upstreams[0]!.sockets.length, 0);
		edge.assertQuiet();
	});
});

describe('limits that clients set', () => {
	it('are at most an eighth longer, at least 64 ms, and of few lengths', () => {
		const lengths = new Set<number>();
		for (let ms = 1; ms <= 86_400_000; ms = Math.ceil(ms * 1.003)) {
			const length = rounded(ms);
			lengths.add(length);
			ok(length >= ms && (length === 64 || length <= ms * 1.125), `${ms}: ${length}`);
		}
		ok(lengths.size <= 176, `${lengths.size} lengths`);
	});
});
