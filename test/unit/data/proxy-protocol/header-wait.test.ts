import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect as connectTcp, createServer, type Server, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { after, before, beforeEach, describe, it } from 'node:test';
import { connect, type TLSSocket } from 'node:tls';
import { createListenerContexts } from '../../../../packages/gate/src/tls/tls-options.ts';
import { Handshake } from '../../../../packages/proxy/src/data/listener/handshake.ts';
import { HeaderWait } from '../../../../packages/proxy/src/data/proxy-protocol/header-wait.ts';
import { type TestPki, testPki } from '../../../fixtures/pki.ts';
import { LOCAL, routeOf, SIGNATURE, version1, version2 } from '../../../fixtures/proxy-header.ts';
import { until, within } from '../../../fixtures/wait.ts';

let pki: TestPki;
let server: Server;
/** What was reported, in the order in which it was. */
let events: string[];
let accepted: Socket | undefined;
let wait: HeaderWait;
/** The callback that throws. */
let faulty: 'onHeader' | 'onNoHeader' | undefined;
let handshake: Handshake | undefined;

before(async () => {
	pki = await testPki();
	const contexts = createListenerContexts({ cert: pki.server.certPem, key: pki.server.keyPem, ca: pki.ca.certPem });
	server = createServer((tcp) => {
		accepted = tcp;
		tcp.on('error', () => tcp.destroy());
		tcp.once('close', () => events.push('closed'));
		wait = new HeaderWait(tcp, '10.0.0.5', {
			onFault: (error) => events.push(`${error}`),
			onNoHeader: (_, reason) => {
				if (faulty === 'onNoHeader') throw new Error('injected');
				events.push(reason);
			},
			onHeader: (_, { client, length }) => {
				if (faulty === 'onHeader') throw new Error('injected');
				events.push(`${client} ${length}`);
				handshake = new Handshake(tcp, { peer: '', headerBytes: length }, contexts, 0, {
					onFault: (error) => events.push(`${error}`),
					judge: () => undefined,
					onSecure: ({ socket }) => {
						events.push('secure');
						socket.pipe(socket);
					},
					onRefused: (_, reason) => events.push(reason),
				});
			},
		});
	}).listen(0, '127.0.0.1');
	await once(server, 'listening');
});
after(() => server.close());
beforeEach(begin);
function begin(): void {
	events = [];
	faulty = undefined;
	accepted = undefined;
	handshake = undefined;
}

async function connectPlain(): Promise<Socket> {
	const socket = connectTcp((server.address() as AddressInfo).port, '127.0.0.1').setNoDelay(true);
	socket.on('error', () => {});
	await until(() => accepted !== undefined, 'the connection');
	return socket;
}

/** Writes so that the server reads these pieces one by one. */
async function writePieces(socket: Socket, pieces: readonly Buffer[]): Promise<void> {
	const before = accepted!.bytesRead;
	let written = 0;
	for (const piece of pieces) {
		socket.write(piece);
		written += piece.length;
		// Or it has closed.
		await until(() => accepted!.bytesRead === before + written || accepted!.destroyed, 'the piece to be read');
	}
}

/** The writes of a TLS client; the first one follows a header, in pieces. */
class Balancer extends Duplex {
	readonly #tcp: Socket;
	#cut: ((first: Buffer) => readonly Buffer[]) | undefined;

	constructor(tcp: Socket, cut: (first: Buffer) => readonly Buffer[]) {
		super();
		this.#tcp = tcp;
		this.#cut = cut;
		tcp.on('data', (chunk: Buffer) => this.push(chunk));
		tcp.once('end', () => this.push(null));
	}

	override _read(): void {}

	override _write(chunk: Buffer, _: string, done: (error?: Error) => void): void {
		const pieces = this.#cut?.(chunk) ?? [chunk];
		this.#cut = undefined;
		writePieces(this.#tcp, pieces).then(() => done(), done);
	}
}

/** One TLS connection after a header, cut at these places; an echo through it. */
async function echoBehind(cut: (hello: Buffer) => readonly Buffer[]): Promise<void> {
	begin();
	const tcp = await connectPlain();
	const { certPem, keyPem } = pki.clients.valid;
	const socket: TLSSocket = connect({
		socket: new Balancer(tcp, cut),
		rejectUnauthorized: false,
		cert: certPem,
		key: keyPem,
	});
	socket.on('error', () => {});
	socket.write('over TLS');
	const [echo] = await within(once(socket, 'data') as Promise<[Buffer]>, () => `the echo; ${events}`);
	assert.equal(echo.toString(), 'over TLS');
	tcp.destroy();
	await until(() => events.at(-1) === 'closed', 'the end');
}

const CLIENT = routeOf('192.0.2.1');
const HEADERS = { 'version 1': version1(CLIENT), 'version 2': version2(CLIENT, { checksum: true }) };

describe('a connection with a PROXY header', () => {
	for (const [name, header] of Object.entries(HEADERS)) {
		const heard = [`192.0.2.1 ${header.length}`, 'secure', 'closed'];

		it(`a PROXY header of ${name} is followed by TLS, wherever the reads cut it`, async () => {
			// Also after the header, within the TLS record that follows.
			for (let at = 1; at < header.length + 7; at++) {
				await echoBehind((hello) => {
					const bytes = Buffer.concat([header, hello]);
					return [bytes.subarray(0, at), bytes.subarray(at)];
				});
				assert.deepEqual(events, heard, `cut at ${at}`);
			}
		});

		it(`a PROXY header of ${name} may arrive in one read with TLS, or byte by byte`, async () => {
			await echoBehind((hello) => [Buffer.concat([header, hello])]);
			assert.deepEqual(events, heard);
			await echoBehind((hello) => [...Array.from(header, (byte) => Buffer.from([byte])), hello]);
			assert.deepEqual(events, heard);
		});
	}

	it('a PROXY header of a health check ends the connection without TLS', async () => {
		for (const leave of [(socket: Socket) => socket.end(), (socket: Socket) => socket.resetAndDestroy()]) {
			begin();
			const socket = await connectPlain();
			socket.write(LOCAL);
			await until(() => handshake !== undefined, 'the handshake');
			assert.equal(handshake!.bytesRead, 0);
			leave(socket);
			await until(() => events.includes('closed'), 'the end');
			assert.deepEqual(events.toSorted(), ['closed', 'nothing sent', 'undefined 16']);
		}
	});

	it('does not count as an aborted handshake: the header is not TLS', async () => {
		const socket = await connectPlain();
		socket.write(Buffer.concat([LOCAL, Buffer.from('\x16\x03\x01')]));
		await until(() => handshake?.bytesRead === 3, 'the record');
		socket.end();
		await until(() => events.includes('closed'), 'the end');
		assert.deepEqual(events.toSorted(), ['aborted', 'closed', 'undefined 16']);
	});
});

describe('an internal error in a callback of a connection that waits for its PROXY header', () => {
	for (const [callback, bytes, reported] of [
		['onHeader', LOCAL, ['Error: injected', 'aborted', 'closed']],
		['onNoHeader', Buffer.from('GET / HTTP/1.1\r\n\r\n'), ['Error: injected', 'closed']],
	] as const) {
		it(`ends only that connection (${callback})`, async () => {
			const waiting = await connectPlain();
			faulty = callback;
			accepted = undefined;
			const socket = await connectPlain();
			socket.write(bytes);
			await until(
				() => events.length === reported.length,
				() => `the end; ${events}`,
			);
			assert.deepEqual(events.toSorted(), reported);
			faulty = undefined;
			waiting.write(LOCAL);
			await until(() => events.includes('undefined 16'), 'the header of the other one');
			waiting.destroy();
			await until(() => events.length === reported.length + 3, 'its end');
		});
	}
});

describe('a connection without a good PROXY header', () => {
	for (const [what, bytes, reason] of [
		['TLS at once', Buffer.from('1603010200', 'hex'), 'no PROXY header'],
		['an HTTP request', Buffer.from('GET / HTTP/1.1\r\n\r\n'), 'no PROXY header'],
		['a line of other words', Buffer.from('PROXY SCTP 1.2.3.4 1.2.3.4 1 2\r\n'), 'bad PROXY header'],
		['a line without end', Buffer.from(`PROXY UNKNOWN ${'x'.repeat(100_000)}`), 'bad PROXY header'],
		['version 3', Buffer.concat([SIGNATURE, Buffer.from([0x31])]), 'bad PROXY header'],
		['a length beyond all bounds', Buffer.concat([SIGNATURE, Buffer.from('2111ffff', 'hex')]), 'bad PROXY header'],
	] as const) {
		it(`is closed at once: ${what}`, async () => {
			const socket = await connectPlain();
			socket.write(bytes);
			await until(() => events.includes('closed'), 'the end');
			assert.deepEqual(events, [reason, 'closed']);
		});
	}

	it('is closed at its deadline, however much of it drips in', async () => {
		for (const bytes of [Buffer.alloc(0), version1(CLIENT).subarray(0, -1), version2(CLIENT).subarray(0, -1)]) {
			begin();
			const socket = await connectPlain();
			await writePieces(
				socket,
				Array.from(bytes, (byte) => Buffer.from([byte])),
			);
			assert.deepEqual(events, []);
			wait.onDeadline();
			await until(() => events.includes('closed'), 'the end');
			assert.deepEqual(events, ['PROXY header timeout', 'closed']);
		}
	});

	it('is distinguished from one whose balancer has left', async () => {
		for (const [bytes, reason] of [
			['', 'nothing sent'],
			['PROXY TCP4 ', 'aborted'],
		] as const) {
			for (const leave of [(socket: Socket) => socket.end(), (socket: Socket) => socket.resetAndDestroy()]) {
				begin();
				const socket = await connectPlain();
				await writePieces(socket, [Buffer.from(bytes)]);
				leave(socket);
				await until(() => events.length === 2, 'the end');
				assert.deepEqual(events.toSorted(), [reason, 'closed'].toSorted());
			}
		}
	});
});
