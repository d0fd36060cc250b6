/** What a gRPC call's status at the upstream becomes here: a count, a member of the access line, a failure for the breaker. */
import { deepEqual, equal } from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as collected from '../../../../packages/proxy/src/data/body/collected.ts';
import * as streaming from '../../../../packages/proxy/src/data/body/streaming.ts';
import { CLOSED, HALF_OPEN, OPEN } from '../../../../packages/proxy/src/gates/breaker.ts';
import { Client, Edge } from '../fixtures/fake-edge.ts';
import { settle } from '../fixtures/fake-plane.ts';
import type { FakeUpstream } from '../fixtures/fake-upstream.ts';

const IN_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ngrpc-status: 14\r\ncontent-length: 0\r\n\r\n';
const IN_TRAILERS =
	'HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ntransfer-encoding: chunked\r\n\r\n5\r\n\0\0\0\0\0\r\n0\r\ngrpc-status: 14\r\n\r\n';

/** The status of the head comes too early: a body follows. */
const IN_BOTH = IN_TRAILERS.replace('\r\n\r\n', '\r\ngrpc-status: 0\r\n\r\n');

for (const mode of [collected, streaming]) {
	for (const [where, response] of [
		['the head', IN_HEAD],
		['the trailers', IN_TRAILERS],
		['the trailers, behind a body and a head with another one', IN_BOTH],
	] as const) {
		describe(`grpc-status 14 in ${where}: ${mode.bodyMode}`, () => {
			async function answered(isGrpc: boolean, grpcStatuses?: readonly number[]) {
				const edge = new Edge(mode, 1);
				edge.changeRoute({ opening: { failures: 100, tenants: 1, ...(grpcStatuses && { grpcStatuses }) } });
				const client = new Client(edge, 'tenant', '', { isGrpc, grpcTimeout: undefined });
				await settle();
				const [upstream] = edge.upstreams;
				upstream!.sockets[0]!.accept();
				upstream!.sockets[0]!.answer(response);
				await settle();
				equal(client.status, 200);
				edge.assertQuiet();
				return upstream!;
			}

			it('is counted once, and is no failure', async () => {
				const { upstream, failures } = await answered(true);
				const { grpc } = upstream.stats.read();
				deepEqual([...grpc], [['14', 1]]);
				equal(failures(), 0);
			});

			it('is a failure where [breaker] names it', async () => {
				equal((await answered(true, [4, 14])).failures(), 1);
				equal((await answered(true, [4])).failures(), 0);
			});

			it('is not looked at in the response to what is no call', async () => {
				const { upstream, failures } = await answered(false, [14]);
				deepEqual([upstream.stats.read().grpc.size, failures()], [0, 0]);
			});
		});
	}
}

describe('a half-open breaker whose route names statuses of gRPC', () => {
	const HEAD = IN_TRAILERS.slice(0, IN_TRAILERS.indexOf('5\r\n'));
	const REST = IN_TRAILERS.slice(HEAD.length);

	/** Circuits after the head of a probe's response, and after its end. */
	async function circuits(
		mode: typeof collected | typeof streaming,
		isGrpc: boolean,
		grpcStatuses?: readonly number[],
	) {
		const edge = new Edge(mode, 1);
		const opening = { failures: 1, tenants: 1, ...(grpcStatuses && { grpcStatuses }) };
		edge.changeRoute({ opening, cooldownMs: 1_000 });
		const [{ upstream, sockets }] = edge.upstreams as [FakeUpstream];
		const first = new Client(edge, 'tenant', 'x');
		await settle();
		sockets[0]!.refuse();
		await settle();
		equal(first.status, 502);
		await edge.plane.pass(2_000);
		const client = new Client(edge, 'tenant', '', { isGrpc, grpcTimeout: undefined });
		await settle();
		sockets[1]!.accept();
		sockets[1]!.answer(HEAD);
		await settle();
		const atHead = upstream.breaker.circuit;
		sockets[1]!.answer(REST);
		await settle();
		equal(client.status, 200);
		equal(upstream.load.total, 0);
		return [atHead, upstream.breaker.circuit];
	}

	it('waits for the status of a call, and opens by it', async () => {
		for (const mode of [collected, streaming]) deepEqual(await circuits(mode, true, [14]), [HALF_OPEN, OPEN]);
	});

	it('waits for the status of a call, and closes by it', async () => {
		for (const mode of [collected, streaming]) deepEqual(await circuits(mode, true, [4]), [HALF_OPEN, CLOSED]);
	});

	it('closes at the head of a response that streams and is none to a call', async () => {
		deepEqual(await circuits(streaming, false, [14]), [CLOSED, CLOSED]);
		deepEqual(await circuits(streaming, true), [CLOSED, CLOSED]);
	});
});
