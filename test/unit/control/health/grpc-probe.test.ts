/** Health by grpc.health.v1, asked of a server of `@grpc/grpc-js`. */
import { deepEqual, equal } from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { type ConnectionOptions, createServer as createTlsServer } from 'node:tls';
import { httpProbe } from '../../../../packages/proxy/src/control/health/http-probe.ts';
import { outcomeOf } from '../../../../packages/proxy/src/control/health/outcome.ts';
import { type GrpcServer, startGrpcServer } from '../../../fixtures/grpc-interop.ts';
import { testPki } from '../../../fixtures/pki.ts';

const DEADLINE_MS = 15_000;

describe('a health check by grpc.health.v1', () => {
	let server: GrpcServer;
	before(async () => {
		server = await startGrpcServer();
	});
	after(() => server[Symbol.asyncDispose]());

	async function ask(
		grpcService: string,
		port = server.port,
		tls?: ConnectionOptions,
	): Promise<readonly [unknown, string]> {
		const address = { host: '127.0.0.1', port, authority: `127.0.0.1:${port}` };
		const settings = { path: '/health', grpcService, timeoutMs: DEADLINE_MS, unhealthyAfter: 1, healthyAfter: 1 };
		const verdict = await httpProbe(address, settings, new AbortController().signal, tls);
		const { found, remedy } = outcomeOf(verdict, settings, 0);
		return [verdict.healthy, [found, remedy].filter(Boolean).join(': ')];
	}

	it('passes if the server, or the named service, is SERVING', async () => {
		server.health.set('a.B', 1);
		deepEqual(await ask(''), [true, 'serving']);
		deepEqual(await ask('a.B'), [true, 'serving']);
	});

	it('fails if it is not serving', async () => {
		server.health.set('a.B', 2);
		deepEqual(await ask('a.B'), [false, 'not serving']);
	});

	it('fails if the server does not know the service, and says so', async () => {
		deepEqual(await ask('a.C'), [false, 'grpc-status 5: health_grpc names a service that the server does not know']);
	});

	for (const [what, options] of [
		['refuses HTTP/2 by an alert', { ALPNProtocols: ['http/1.1'] }],
		['knows nothing of ALPN', {}],
	] as const) {
		it(`fails over TLS with one reason if the server ${what}`, async () => {
			const { server: identity } = await testPki();
			const secure = createTlsServer({ ...options, cert: identity.certPem, key: identity.keyPem }).listen(
				0,
				'127.0.0.1',
			);
			secure.on('tlsClientError', () => {});
			await new Promise((resolve) => secure.once('listening', resolve));
			const { port } = secure.address() as AddressInfo;
			const outcome = await ask('', port, { rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] });
			secure.close();
			deepEqual(outcome, [
				false,
				'it did not choose HTTP/2 (ALPN): switch HTTP/2 on there, which gRPC needs; without gRPC, set protocol = "auto"',
			]);
		});
	}

	it('fails if the server speaks HTTP/1.1', async () => {
		const http1 = createServer((_, res) => res.end()).listen(0, '127.0.0.1');
		await new Promise((resolve) => http1.once('listening', resolve));
		const [healthy] = await ask('', (http1.address() as { port: number }).port);
		http1.close();
		equal(healthy, false);
	});
});
