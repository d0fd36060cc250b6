import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect as connectTcp, createServer, type Server, type Socket } from 'node:net';
import { after, before, beforeEach, describe, it } from 'node:test';
import { type ConnectionOptions, connect } from 'node:tls';
import { createListenerContexts } from '../../../../packages/gate/src/tls/tls-options.ts';
import { Handshake } from '../../../../packages/proxy/src/data/listener/handshake.ts';
import { type ClientCert, type TestPki, testPki } from '../../../fixtures/pki.ts';
import { until } from '../../../fixtures/wait.ts';

const VERSIONS = ['TLSv1.2', 'TLSv1.3'] as const;

let pki: TestPki;
let server: Server;
/** What was reported, in the order in which it was. */
let events: string[];
/** Connections that have ended. */
let ended: number;
let last: Handshake;
let judge: () => undefined;
let accept: () => void;
before(async () => {
	pki = await testPki();
	const contexts = createListenerContexts({ cert: pki.server.certPem, key: pki.server.keyPem, ca: pki.ca.certPem });
	server = createServer((tcp) => {
		tcp.on('error', () => {});
		last = new Handshake(tcp, { peer: '192.0.2.1', headerBytes: 0 }, contexts, 0, {
			judge: () => judge(),
			onFault: (error) => events.push(`${error}`),
			onSecure: ({ socket }) => {
				accept();
				events.push(`secure ${socket.authorized} ${socket.alpnProtocol}`);
				socket.on('data', () => {});
			},
			onRefused: ({ socket }, reason) => {
				events.push(`${reason} ${socket.getPeerX509Certificate()?.subject ?? 'without a certificate'}`);
			},
		});
		tcp.once('close', () => ended++);
	}).listen(0, '127.0.0.1');
	await once(server, 'listening');
});
after(() => server.close());
beforeEach(() => {
	judge = () => undefined;
	accept = () => {};
	events = [];
	ended = 0;
});

function port(): number {
	return (server.address() as AddressInfo).port;
}

/** Connects, and leaves once the server has said something or has ended the connection. */
async function visit(cert: ClientCert | null, options: ConnectionOptions = {}): Promise<string[]> {
	const socket = connect({
		host: '127.0.0.1',
		port: port(),
		rejectUnauthorized: false,
		...(cert && { cert: cert.certPem, key: cert.keyPem }),
		...options,
	});
	socket.on('error', () => {});
	await until(() => events.length > 0, 'a report');
	socket.destroy();
	return reported();
}

/** All that was reported by the end of the connection. */
async function reported(): Promise<string[]> {
	await until(() => ended === 1, 'the end of the connection');
	// Node reports some failures at the end of the connection, after another report.
	await new Promise(setImmediate);
	return events;
}

async function plain(leave: (socket: Socket) => void): Promise<string[]> {
	const socket = connectTcp(port(), '127.0.0.1');
	socket.on('error', () => {});
	await once(socket, 'connect');
	leave(socket);
	const all = await reported();
	socket.destroy();
	return all;
}

describe('a handshake', () => {
	for (const version of VERSIONS) {
		const only = { minVersion: version, maxVersion: version } as const;

		it(`a handshake of ${version} admits clients of the bundle's CAs, with and without a server name`, async () => {
			for (const servername of ['localhost', '']) {
				for (const alpn of ['h2', 'http/1.1']) {
					events = [];
					ended = 0;
					const options = { ...only, servername, ALPNProtocols: [alpn] };
					assert.deepEqual(await visit(pki.clients.valid, options), [`secure true ${alpn}`]);
				}
			}
		});

		it(`a handshake of ${version} is refused once, while the certificate can be read`, async () => {
			const { otherCa, expired, notYetValid, serverAuthOnly } = pki.clients;
			for (const [cert, report] of [
				[null, 'no certificate without a certificate'],
				[otherCa, 'unknown CA CN=client'],
				[expired, 'expired CN=client'],
				[notYetValid, 'not yet valid CN=client'],
				[serverAuthOnly, 'wrong purpose CN=client'],
			] as const) {
				events = [];
				ended = 0;
				assert.deepEqual(await visit(cert, only), [report]);
			}
		});
	}

	it('is refused if its certificate cannot be checked', async () => {
		judge = () => {
			throw new Error('unreadable');
		};
		assert.deepEqual(await visit(pki.clients.valid), ['bad certificate CN=client']);
	});

	it('an internal error in a handshake ends only its connection', async () => {
		accept = () => {
			throw new Error('injected');
		};
		assert.deepEqual(await visit(pki.clients.valid), ['Error: injected']);
		events = [];
		ended = 0;
		accept = () => {};
		assert.deepEqual(await visit(pki.clients.valid), ['secure true false']);
	});

	it('a finished handshake is not reported again, however its connection ends', async () => {
		const { certPem, keyPem } = pki.clients.valid;
		const tcp = connectTcp(port(), '127.0.0.1');
		const socket = connect({ socket: tcp, rejectUnauthorized: false, cert: certPem, key: keyPem });
		for (const end of [socket, tcp]) end.on('error', () => {});
		await until(() => events.length > 0, 'a report');
		// No TLS record: an error after the handshake ends the connection.
		tcp.write('no TLS');
		assert.deepEqual(await reported(), ['secure true false']);
		assert.equal(last.socket.destroyed, true);
		last.onDeadline();
		assert.equal(events.length, 1);
	});

	it('fails at its deadline', async () => {
		const all = await plain(async () => {
			await until(() => last !== undefined && last.bytesRead === 0 && !last.socket.destroyed, 'the server to accept');
			last.onDeadline();
		});
		assert.deepEqual(all, ['timeout without a certificate']);
	});

	it('fails if the client leaves, or does not speak TLS', async () => {
		for (const [leave, report] of [
			[(socket: Socket) => socket.end(), 'nothing sent without a certificate'],
			[(socket: Socket) => socket.end('\x16\x03\x01'), 'aborted without a certificate'],
			[(socket: Socket) => socket.end('GET / HTTP/1.1\r\n\r\n'), 'plain HTTP without a certificate'],
			[(socket: Socket) => socket.end('SSH-2.0-OpenSSH_9.9\r\n'), 'not TLS without a certificate'],
		] as const) {
			events = [];
			ended = 0;
			assert.deepEqual(await plain(leave), [report]);
		}
	});
});
