/** Health by grpc.health.v1, asked of a server of `@grpc/grpc-js`. */
import { deepEqual, equal } from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { httpProbe } from '../../../../packages/proxy/src/control/health/http-probe.ts';
import { outcomeOf } from '../../../../packages/proxy/src/control/health/outcome.ts';
import { type GrpcServer, startGrpcServer } from '../../../fixtures/grpc-interop.ts';

const DEADLINE_MS = 15_000;

describe('a health check by grpc.health.v1', () => {
	let server: GrpcServer;
	before(async () => {
		server = await startGrpcServer();
	});
	after(() => server[Symbol.asyncDispose]());

	async function ask(grpcService: string, port = server.port): Promise<readonly [unknown, string]> {
		const address = { host: '127.0.0.1', port, authority: `127.0.0.1:${port}` };
		const settings = { path: '/health', grpcService, timeoutMs: DEADLINE_MS, unhealthyAfter: 1, healthyAfter: 1 };
		const verdict = await httpProbe(address, settings, new AbortController().signal);
		const { found, remedy } = outcomeOf(verdict, settings, 0);
		return [verdict.healthy, [found, remedy].filter(Boolean).join(': ')];
	}

	it('passes where the server, or the named service, is SERVING', async () => {
		server.health.set('a.B', 1);
		deepEqual(await ask(''), [true, 'serving']);
		deepEqual(await ask('a.B'), [true, 'serving']);
	});

	it('fails where it is not serving', async () => {
		server.health.set('a.B', 2);
		deepEqual(await ask('a.B'), [false, 'not serving']);
	});

	it('fails where the server does not know the service, and says so', async () => {
		deepEqual(await ask('a.C'), [false, 'grpc-status 5: health_grpc names a service that the server does not know']);
	});

	it('fails where the server speaks HTTP/1.1', async () => {
		const http1 = createServer((_, res) => res.end()).listen(0, '127.0.0.1');
		await new Promise((resolve) => http1.once('listening', resolve));
		const [healthy] = await ask('', (http1.address() as { port: number }).port);
		http1.close();
		equal(healthy, false);
	});
});
