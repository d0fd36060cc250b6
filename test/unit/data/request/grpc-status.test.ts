/** What a gRPC call's status at the upstream becomes here: a count, a member of the access line, a failure for the breaker. */
import { deepEqual, equal } from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as collected from '../../../../packages/proxy/src/data/body/collected.ts';
import * as streaming from '../../../../packages/proxy/src/data/body/streaming.ts';
import { Client, Edge } from '../fixtures/fake-edge.ts';
import { settle } from '../fixtures/fake-plane.ts';

const IN_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ngrpc-status: 14\r\ncontent-length: 0\r\n\r\n';
const IN_TRAILERS =
	'HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ntransfer-encoding: chunked\r\n\r\n5\r\n\0\0\0\0\0\r\n0\r\ngrpc-status: 14\r\n\r\n';

/** What the head says comes too early: there is a body behind it. */
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
