/** What a gate does to the process and the servers around it: hooks that fail, closing, HTTP/2 sessions, Socket.IO. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { TLSSocket } from 'node:tls';
import express from 'express';
import Fastify from 'fastify';
import { Server as SocketServer } from 'socket.io';
import { WebSocket } from 'ws';
import { guard as fastifyGuard } from '../../../packages/gate/src/embed/fastify.ts';
import { createGate, type Gate, type GateError, type GateEvent } from '../../../packages/gate/src/embed/gate.ts';
import { claimsOf, guard } from '../../../packages/gate/src/embed/node.ts';
import { createMtlsServer } from '../../../packages/gate/src/embed/tls.ts';
import { PROTOCOLS, request } from '../../fixtures/clients.ts';
import { startIssuer } from '../../fixtures/issuer.ts';
import { jwkOf, jwks, keyFor } from '../../fixtures/issuer-keys.ts';
import { testPki } from '../../fixtures/pki.ts';
import { until } from '../../fixtures/wait.ts';
import { FAILING, warningsOf } from './failing-hooks.ts';
import { files, listening } from './mtls-server.ts';
import { bearer, newGate } from './new-gate.ts';

const gate = newGate();
const authorization = bearer();

const remoteGate = (jwksUrl: string, onEvent: (event: GateEvent) => void, readyTimeoutMs = 30_000) =>
	createGate({ issuers: [{ issuer: 'i', audience: 'a', jwksUrl, refreshMs: 20 }], readyTimeoutMs, onEvent });

describe('hooks of a gate and of its server', () => {
	for (const [how, hook] of FAILING) {
		it(`onEvent that ${how} ends neither the process nor the refresh`, async () => {
			await using issuer = await startIssuer('http', jwks(jwkOf(keyFor('RS256'), { kid: 'one' })));
			await warningsOf(async () => {
				const one = remoteGate(issuer.jwksUrl, hook);
				await one.ready;
				await until(() => issuer.asked.length >= 3, 'the refresh to go on');
				one.close();
			});
		});

		it(`onReload that ${how} becomes one warning`, async () => {
			await using _server = await listening({ reloadOnSignal: true, onReload: hook });
			const warnings = await warningsOf(async () => process.emit('SIGUSR1'));
			assert.deepEqual(
				warnings.map((text) => text.split('\n')[0]),
				['onReload has failed: Error: from the hook'],
			);
		});

		it(`a certificate that ${how} refuses the request`, () => {
			const verdict = gate.check(authorization, { certificate: hook });
			assert.equal(verdict.ok, true, 'it is not asked for a token without cnf');
			gate.setRevoked({ certificates: ['00'.repeat(32)] });
			try {
				assert.equal(gate.check(authorization, { certificate: hook }).ok, false);
			} finally {
				gate.setRevoked({});
			}
		});
	}
});

describe('gate.ready', () => {
	it('rejects when the gate is closed before, and stays resolved when it is closed later', async () => {
		await using silent = await startIssuer('http', (_, response) => response.writeHead(500).end());
		const one = remoteGate(silent.jwksUrl, () => {});
		one.close();
		await assert.rejects(one.ready, { name: 'GateError', code: 'ERR_GATE_CLOSED' });
		gate.close();
		await gate.ready;
	});

	it('rejects after readyTimeoutMs, names the issuers without keys, and the gate goes on fetching', async () => {
		const held = Promise.withResolvers<void>();
		await using issuer = await startIssuer('http', (_, response) => {
			held.promise.then(() => response.end(jwks(jwkOf(keyFor('RS256'), { kid: 'one' }))));
		});
		const events: string[] = [];
		const one = remoteGate(issuer.jwksUrl, ({ message }) => events.push(message), 1);
		await assert.rejects(one.ready, {
			code: 'ERR_GATE_NOT_READY',
			message: 'no keys after 1 ms from i; onEvent says why',
		});
		held.resolve();
		await until(() => events.length > 0, 'the keys');
		one.close();
	});

	it('counts its time from the moment that it is asked for', async (t) => {
		t.mock.timers.enable({ apis: ['setTimeout'] });
		const one = remoteGate('http://127.0.0.1:1/jwks.json', () => {}, 50);
		t.mock.timers.tick(60_000);
		let code: string | undefined;
		const settled = one.ready.catch((error: GateError) => {
			code = error.code;
		});
		t.mock.timers.tick(49);
		await Promise.resolve();
		assert.equal(code, undefined);
		t.mock.timers.tick(1);
		await settled;
		assert.equal(code, 'ERR_GATE_NOT_READY');
		one.close();
	});
});

describe('an mTLS server', () => {
	it('reads the certificate of an HTTP/2 session once, however many requests it brings', async (t) => {
		const certified = await testPki();
		const thumbprint = Buffer.alloc(32).toString('base64url');
		const token = bearer({ cnf: { 'x5t#S256': thumbprint } });
		const guarded = guard(gate);
		await using running = await listening({ http2: true }, (req, res) => guarded(req, res, () => res.end('in')));
		const read = t.mock.method(TLSSocket.prototype, 'getPeerX509Certificate');
		const { certPem, keyPem } = certified.clients.valid;
		const session = connectHttp2(`https://127.0.0.1:${running.port}`, {
			ca: certified.ca.certPem,
			cert: certPem,
			key: keyPem,
			servername: 'localhost',
		});
		for (let i = 0; i < 5; i++) {
			const stream = session.request({ ':path': '/', authorization: token });
			const [head] = await once(stream, 'response');
			assert.equal(head[':status'], 401);
			stream.resume();
			await once(stream, 'close');
		}
		session.close();
		assert.equal(read.mock.callCount(), 1);
	});

	it('refuses a field value that ends with white space over HTTP/2 as the proxy does; HTTP/1.1 strips it', async () => {
		const guarded = guard(gate);
		await using running = await listening({ http2: true }, (req, res) => guarded(req, res, () => res.end('in')));
		const statuses = [];
		for (const protocol of PROTOCOLS) {
			const headers = { authorization: 'Bearer ' };
			const options = { path: '/', token: null, headers, strictFieldWhitespaceValidation: false };
			statuses.push((await request(protocol, running, options as never)).status);
		}
		assert.deepEqual(statuses, [401, 400]);
	});

	for (const http2 of [false, true]) {
		it(`bounds Fastify's close by drainMs while a request hangs (http2: ${http2})`, async () => {
			const paths = await files();
			const app = Fastify({
				serverFactory: (handler) => createMtlsServer({ ...paths, http2, drainMs: 50 }, handler),
			});
			await app.register(fastifyGuard, { gate });
			const started = Promise.withResolvers<void>();
			app.get('/', { config: { gate: false } }, () => {
				started.resolve();
				return new Promise(() => {});
			});
			await app.listen({ port: 0, host: '127.0.0.1' });
			const { port } = app.server.address() as AddressInfo;
			const answer = request(http2 ? 'h2' : 'h1', { port }, { token: null });
			await started.promise;
			await app.close();
			assert.equal((await answer).status, 0);
		});
	}
});

describe('Socket.IO', () => {
	/** With `onEngine` the guard is where it belongs; otherwise only in front of the application. */
	const served = async (one: Gate, onEngine: boolean, use: (port: number) => Promise<void>) => {
		const app = express().use(guard(one));
		const server = createServer(app);
		const io = new SocketServer(server);
		if (onEngine) io.engine.use(guard(one));
		io.on('connection', (socket) => socket.emit('hello', onEngine && claimsOf(socket.request).sub));
		server.listen(0, '127.0.0.1');
		await once(server, 'listening');
		try {
			await use((server.address() as AddressInfo).port);
		} finally {
			await io.close();
		}
	};
	const polled = async (port: number, headers = {}) =>
		(await fetch(`http://127.0.0.1:${port}/socket.io/?EIO=4&transport=polling`, { headers })).status;
	const upgraded = (port: number, headers = {}) => {
		const socket = new WebSocket(`ws://127.0.0.1:${port}/socket.io/?EIO=4&transport=websocket`, { headers });
		const { promise, resolve } = Promise.withResolvers<number | string>();
		socket.on('unexpected-response', (_request, response) => {
			response.resume();
			resolve(response.statusCode!);
		});
		socket.on('error', (error) => resolve(error.message));
		// Engine.IO opens with its own packet; then the client asks for the namespace.
		socket.on('message', (data) => {
			const text = String(data);
			if (text.startsWith('0')) socket.send('40');
			if (!text.startsWith('42')) return;
			resolve(text);
			socket.close();
		});
		return promise;
	};

	it('bypasses app.use(guard(gate)): clients without a token connect', () =>
		served(gate, false, async (port) => {
			assert.equal(await polled(port), 200);
			assert.equal(await upgraded(port), '42["hello",false]');
		}));

	it('behind io.engine.use(guard(gate)) refuses both transports with 401 and admits a token', () =>
		served(gate, true, async (port) => {
			assert.equal(await polled(port), 401);
			assert.equal(await upgraded(port), 401);
			assert.equal(await polled(port, { authorization }), 200);
			assert.equal(await upgraded(port, { authorization }), '42["hello","tenant"]');
		}));
});
