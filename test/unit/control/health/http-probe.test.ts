import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { issue } from '../../../../packages/proxy/src/cli/demo/pki.ts';
import type { Verdict } from '../../../../packages/proxy/src/control/health/health.ts';
import { httpProbe } from '../../../../packages/proxy/src/control/health/http-probe.ts';
import type { UpstreamTlsSeed } from '../../../../packages/proxy/src/shared/messages.ts';
import { createUpstreamContext, upstreamTlsOptions } from '../../../../packages/proxy/src/tls/upstream-tls.ts';
import { testPki } from '../../../fixtures/pki.ts';
import { HEALTH } from '../fixtures/routes.ts';

const WANTED = new AbortController().signal;
/** Generous where an answer comes, short where none does. */
const PLENTY_MS = 5_000;
const BRIEF_MS = 50;

const settings = (timeoutMs = PLENTY_MS) => ({ ...HEALTH, timeoutMs });
const PASSED: Verdict = { healthy: true, cause: 'status 200', status: 200 };

async function probeHttp(listener: RequestListener, limitMs = PLENTY_MS): Promise<Verdict> {
	await using server = await listening(createServer(listener));
	return await httpProbe(server.address, settings(limitMs), WANTED);
}

/** @param onSocket speaks raw bytes. */
async function probeTcp(onSocket: (socket: Socket) => void, limitMs = PLENTY_MS): Promise<Verdict> {
	await using server = await listening(
		createTcpServer((socket) => {
			socket.on('error', () => {});
			onSocket(socket);
		}) as Server,
	);
	return await httpProbe(server.address, settings(limitMs), WANTED);
}

async function listening(server: Server) {
	const sockets = new Set<Socket>();
	server.on('connection', (socket: Socket) => sockets.add(socket));
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address() as AddressInfo;
	return {
		address: { authority: `127.0.0.1:${port}`, host: '127.0.0.1', port },
		async [Symbol.asyncDispose]() {
			for (const socket of sockets) socket.destroy();
			server.close();
			await once(server, 'close');
		},
	};
}

describe('the verdict of a health probe', () => {
	for (const status of [200, 204, 299]) {
		test(`${status} is healthy`, async () => {
			const verdict = await probeHttp((_, response) => response.writeHead(status).end());
			assert.deepEqual(verdict, { healthy: true, cause: `status ${status}`, status });
		});
	}

	for (const status of [199, 301, 302, 404, 500, 503]) {
		test(`${status} is not`, async () => {
			const verdict = await probeTcp((socket) =>
				socket.end(`HTTP/1.1 ${status} Whatever\r\ncontent-length: 0\r\n\r\n`),
			);
			// A 1xx is no answer yet, and none follows.
			const wanted = status === 199 ? { cause: 'connection reset' } : { cause: `status ${status}`, status };
			assert.deepEqual(verdict, { healthy: false, ...wanted });
		});
	}

	test('a redirect is not followed', async () => {
		const paths: (string | undefined)[] = [];
		const verdict = await probeHttp((request, response) => {
			paths.push(request.url);
			response.writeHead(307, { location: '/elsewhere' }).end();
		});
		assert.deepEqual(verdict, { healthy: false, cause: 'status 307', status: 307 });
		assert.deepEqual(paths, ['/health']);
	});

	test('a refused connection is unhealthy', async () => {
		const server = await listening(createServer());
		await server[Symbol.asyncDispose]();
		const verdict = await httpProbe(server.address, settings(), WANTED);
		assert.deepEqual(verdict, { healthy: false, cause: 'connection refused' });
	});

	test('no response within the limit is unhealthy', async () => {
		const verdict = await probeHttp(() => {}, BRIEF_MS);
		assert.deepEqual(verdict, { healthy: false, cause: 'no response within 0.05 s' });
	});

	test('a head that arrives byte by byte has the same time limit', async () => {
		const verdict = await probeTcp((socket) => {
			const timer = setInterval(() => socket.write('H'), 5);
			socket.on('close', () => clearInterval(timer));
			socket.write('HTTP/1.1 200 OK\r\nx: ');
		}, BRIEF_MS);
		assert.deepEqual(verdict, { healthy: false, cause: 'no response within 0.05 s' });
	});

	for (const [what, bytes] of [
		['bytes that are not HTTP', 'SSH-2.0-OpenSSH\r\n'],
		[
			'a protocol upgrade that nobody asked for',
			'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
		],
		['a head over 16 KiB', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`],
		['a connection that ends before the head does', 'HTTP/1.1 200 OK\r\n'],
	] as const) {
		test(`${what}: unhealthy`, async () => {
			assert.equal((await probeTcp((socket) => socket.end(bytes))).healthy, false);
		});
	}

	test('interim responses are passed over', async () => {
		const verdict = await probeTcp((socket) => {
			socket.end('HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
		});
		assert.deepEqual(verdict, PASSED);
	});
});

describe('a plain probe of an upstream that speaks TLS', () => {
	test('says so, whether that closes, wants a certificate, or answers 400 in plain HTTP', async () => {
		const pki = await testPki();
		const { certPem: cert, keyPem: key } = pki.server;
		const mutual = { cert, key, requestCert: true, ca: pki.ca.certPem };
		for (const options of [{ cert, key }, mutual, { ...mutual, maxVersion: 'TLSv1.2' as const }]) {
			await using server = await listening(createTlsServer(options));
			const verdict = await httpProbe(server.address, settings(), WANTED);
			assert.deepEqual(verdict, { healthy: false, cause: 'it speaks TLS on this port' });
		}
		await using tls = await listening(createTlsServer({ cert, key }));
		await using front = await listening(
			createTcpServer((socket) => {
				socket.on('error', () => {});
				socket.once('data', (first) => {
					if (first[0] !== 0x16) return socket.end('HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n');
					const behind = connect(tls.address).on('error', () => {});
					behind.write(first);
					socket.pipe(behind).pipe(socket);
				});
			}) as Server,
		);
		const verdict = await httpProbe(front.address, settings(), WANTED);
		assert.deepEqual(verdict, { healthy: false, cause: 'it speaks TLS on this port' });
	});

	test('is made on one connection if nothing suggests TLS, and leaves a plain 400 what it is', async () => {
		let connections = 0;
		const answering = (status: number) => async () => {
			connections = 0;
			return probeTcp((socket) => {
				connections++;
				socket.end(`HTTP/1.1 ${status} x\r\ncontent-length: 0\r\n\r\n`);
			});
		};
		assert.deepEqual(await answering(404)(), { healthy: false, cause: 'status 404', status: 404 });
		assert.equal(connections, 1);
		assert.deepEqual(await answering(400)(), { healthy: false, cause: 'status 400', status: 400 });
	});
});

describe('what a health probe costs', () => {
	test('one connection, one GET /health with the upstream as its host, then the end', async () => {
		const requests: string[] = [];
		await probeHttp((request, response) => {
			requests.push(`${request.method} ${request.url} ${request.headers.connection} ${request.headers.host}`);
			response.end();
		});
		assert.match(requests.join(), /^GET \/health close 127\.0\.0\.1:\d+$/);
	});

	test('the path is that of the settings, query and all', async () => {
		const paths: (string | undefined)[] = [];
		await using server = await listening(
			createServer((request, response) => {
				paths.push(request.url);
				response.end();
			}),
		);
		await httpProbe(server.address, { ...settings(), path: '/ready?deep=1' }, WANTED);
		assert.deepEqual(paths, ['/ready?deep=1']);
	});

	test('an endless body is closed after the verdict', async () => {
		const cut = Promise.withResolvers<void>();
		await using server = await listening(
			createServer((_, response) => {
				const pour = () => {
					while (!response.destroyed && response.write('x'.repeat(10_000)));
				};
				response.on('drain', pour).on('close', cut.resolve);
				pour();
			}),
		);
		assert.deepEqual(await httpProbe(server.address, settings(), WANTED), PASSED);
		await cut.promise;
	});

	test('a body that never ends is cut off at the limit', async () => {
		const cut = Promise.withResolvers<void>();
		await using server = await listening(
			createServer((_, response) => {
				response.on('close', cut.resolve).write('x');
			}),
		);
		assert.deepEqual(await httpProbe(server.address, settings(1000), WANTED), PASSED);
		await cut.promise;
	});

	test('an abandoned probe closes its connection', async () => {
		const asked = Promise.withResolvers<void>();
		const gone = Promise.withResolvers<void>();
		await using server = await listening(
			createServer((request) => {
				request.socket.on('close', () => gone.resolve());
				asked.resolve();
			}),
		);
		const abandoned = new AbortController();
		const probe = httpProbe(server.address, settings(), abandoned.signal);
		await asked.promise;
		abandoned.abort();
		assert.equal((await probe).healthy, false);
		await gone.promise;
	});
});

describe('a health probe over TLS', () => {
	test('verifies, and sends the certificate, as requests do', async () => {
		const pki = await testPki();
		const { certPem: cert, keyPem: key } = pki.server;
		const options = { cert, key, requestCert: true, ca: pki.ca.certPem };
		const names: unknown[] = [];
		await using server = await listening(
			createTlsServer(options, ({ socket, headers }, response) => {
				names.push(headers.host, (socket as TLSSocket).getPeerCertificate().subject.CN);
				response.end();
			}),
		);
		const client = { cert: pki.clients.valid.certPem, key: pki.clients.valid.keyPem };
		const seed = { ...client, ca: pki.ca.certPem, serverName: undefined, minVersion: undefined, verify: true };
		const probe = (tls: UpstreamTlsSeed) =>
			httpProbe(server.address, settings(), WANTED, upstreamTlsOptions(tls, '127.0.0.1', createUpstreamContext(tls)));
		assert.deepEqual(await probe(seed), PASSED);
		assert.deepEqual(await probe({ ...seed, serverName: 'localhost' }), PASSED);
		assert.deepEqual(names, [server.address.authority, 'client', server.address.authority, 'client']);
		for (const [change, cause] of [
			[{ ca: pki.otherCa.certPem }, 'its certificate chains to no CA that is trusted here'],
			[{ serverName: 'other.internal' }, 'its certificate is for another name'],
			[{ cert: undefined, key: undefined }, 'refused in the TLS handshake: certificate required'],
		] as const) {
			assert.deepEqual(await probe({ ...seed, ...change }), { healthy: false, cause });
		}
		assert.equal(names.length, 4);
	});

	test('names the cause if the upstream speaks plain HTTP or refuses the handshake', async () => {
		const { certPem: cert, keyPem: key } = (await testPki()).server;
		const asking = { cert, key, requestCert: true, maxVersion: 'TLSv1.2' as const };
		for (const [server, cause] of [
			[createServer(), 'it does not speak TLS on this port'],
			[createTlsServer(asking), 'refused in the TLS handshake: handshake failure'],
		] as const) {
			await using listener = await listening(server);
			const verdict = await httpProbe(listener.address, settings(), WANTED, { rejectUnauthorized: false });
			assert.deepEqual(verdict, { healthy: false, cause });
		}
	});

	test('explains that a certificate for *.internal is not valid for up.internal', async () => {
		const pki = await testPki();
		const day = 24 * 3_600_000;
		const validity = { notBefore: new Date(Date.now() - day), notAfter: new Date(Date.now() + day) };
		for (const [san, name, cause] of [
			['*.internal', 'up.internal', 'its certificate has a wildcard followed by only one label, which matches no name'],
			['*.internal', 'a.up.internal', 'its certificate is for another name'],
			['*.svc.internal', 'up.svc.internal', undefined],
		] as const) {
			const own = await issue(pki.ca, { commonName: 'up', sans: [san], usages: 'server', ...validity });
			await using server = await listening(
				createTlsServer({ cert: own.certPem, key: own.keyPem }, (_, response) => void response.end()),
			);
			const tls = {
				cert: undefined,
				key: undefined,
				ca: pki.ca.certPem,
				serverName: name,
				minVersion: undefined,
				verify: true,
			};
			const options = upstreamTlsOptions(tls, '127.0.0.1', createUpstreamContext(tls));
			const outcome = await httpProbe(server.address, settings(), WANTED, options);
			assert.deepEqual(outcome, cause === undefined ? PASSED : { healthy: false, cause }, `${san} for ${name}`);
		}
	});
});
