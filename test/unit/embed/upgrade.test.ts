/** `upgrade` events, which no middleware sees. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { before, describe, it } from 'node:test';
import { WebSocket, WebSocketServer } from 'ws';
import { createGate, type Gate } from '../../../packages/gate/src/embed/gate.ts';
import {
	claimsOf,
	guardUpgrade,
	type UpgradeHandler,
	type UpgradeOptions,
} from '../../../packages/gate/src/embed/node.ts';
import { h1Raw, request } from '../../fixtures/clients.ts';
import { AUDIENCE, ISSUER, type TestPki, testPki } from '../../fixtures/pki.ts';
import { Changes } from '../../fixtures/wait.ts';
import { listening, type Running } from './mtls-server.ts';

let pki: TestPki;
let gate: Gate;
let authorization: string;

before(async () => {
	pki = await testPki();
	gate = createGate({ jwtPublicKey: pki.tokenKey.publicKeyPem, issuer: ISSUER, audience: AUDIENCE, tenantRps: 0 });
	authorization = `Bearer ${pki.token()}`;
});

const HANDSHAKE =
	'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
	'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n';

async function guarded(handler: UpgradeHandler, options: UpgradeOptions = {}, own: Gate = gate): Promise<Running> {
	const running = await listening({ http2: true });
	running.server.on('upgrade', guardUpgrade(own, handler, options));
	return running;
}

/** Tells each client who it is. */
function whoami(): UpgradeHandler {
	const wss = new WebSocketServer({ noServer: true });
	return (req, socket, head, { sub }) => {
		wss.handleUpgrade(req, socket, head, (ws) => ws.send(JSON.stringify([sub, claimsOf(req).sub])));
	};
}

function open({ port }: Running, headers: Record<string, string>): WebSocket {
	const { certPem: cert, keyPem: key } = pki.clients.valid;
	return new WebSocket(`wss://localhost:${port}`, { ca: pki.ca.certPem, cert, key, headers });
}

describe('a guarded upgrade', () => {
	it('opens a WebSocket with the claims of its token', async () => {
		await using running = await guarded(whoami());
		const ws = open(running, { authorization });
		assert.equal(String((await once(ws, 'message'))[0]), '["tenant","tenant"]');
		ws.terminate();
	});

	it('refuses what the gate refuses, with its answer, and closes the connection', async () => {
		const limited = createGate({
			jwtPublicKey: pki.tokenKey.publicKeyPem,
			issuer: ISSUER,
			audience: AUDIENCE,
			tenantRps: 1,
			clock: { now: () => 0, wallSeconds: () => Date.now() / 1000 },
		});
		await using running = await guarded((_req, socket) => socket.end(), {}, limited);
		limited.check(authorization);
		for (const [lines, status, signal, body] of [
			['', 'HTTP/1.1 401 Unauthorized', 'www-authenticate: Bearer', 'unauthorized'],
			['Authorization: Bearer x\r\n', 'HTTP/1.1 401 Unauthorized', 'www-authenticate: Bearer', 'unauthorized'],
			[
				`Authorization: ${authorization}\r\nauthorization: ${authorization}\r\n`,
				'HTTP/1.1 401 Unauthorized',
				'www-authenticate: Bearer',
				'unauthorized',
			],
			[`Authorization: ${authorization}\r\n`, 'HTTP/1.1 429 Too Many Requests', 'retry-after: 1', 'rate limited'],
		] as const) {
			using raw = await h1Raw(running);
			// Bytes after the handshake must not turn the response into a reset.
			raw.send(`${HANDSHAKE}${lines}\r\n${'x'.repeat(100_000)}`);
			const answer = await raw.readResponse();
			assert.equal(answer.startLine, status);
			const headers = answer.headers
				.filter(([name]) => !name.startsWith('ratelimit'))
				.map(([name, value]) => `${name}: ${value}`);
			assert.deepEqual(
				headers.sort(),
				['connection: close', 'content-length: 12', 'content-type: text/plain; charset=utf-8', signal].sort(),
			);
			assert.equal(answer.body.toString(), body);
			assert.equal(await raw.untilClosed(), 'closed');
		}
	});

	it('survives a client that goes away, and errors of a socket without a listener', async () => {
		const sockets: Duplex[] = [];
		const changes = new Changes();
		await using running = await guarded((_req, socket) => {
			sockets.push(socket);
			changes.notify();
		});
		for (const lines of ['', `Authorization: ${authorization}\r\n`]) {
			using raw = await h1Raw(running);
			raw.send(`${HANDSHAKE}${lines}\r\n`);
			if (lines !== '') await changes.until(() => sockets.length > 0, 'the upgrade');
			raw.close();
		}
		// As the kernel reports a reset, without a listener of the handler.
		sockets[0]!.emit('error', new Error('read ECONNRESET'));
		assert.equal((await request('h1', running, { token: null })).status, 200);
	});

	for (const [how, handler] of [
		['throws', () => assert.fail('boom')],
		['rejects', async () => assert.fail('boom')],
	] as const) {
		it(`a guarded upgrade whose handler ${how} ends only its own connection`, async () => {
			const faults: unknown[] = [];
			await using running = await guarded(handler, { onError: (error) => faults.push(error) });
			using raw = await h1Raw(running);
			raw.send(`${HANDSHAKE}Authorization: ${authorization}\r\n\r\n`);
			await raw.untilClosed();
			assert.equal((faults as Error[])[0]!.message, 'boom');
			assert.equal((await request('h1', running, { token: null })).status, 200);
		});
	}
});
