import assert from 'node:assert/strict';
import { type Duplex, duplexPair } from 'node:stream';
import { describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { Http2Front } from '../../../../packages/proxy/src/data/http2/front.ts';
import { ConnectionShare, type PeerShare } from '../../../../packages/proxy/src/data/loop/read-share.ts';
import {
	dataFrame,
	ERROR_CODE,
	FLAG,
	FRAME,
	type Frame,
	FrameReader,
	goawayFrame,
	headersFrame,
	PREFACE,
	pingFrame,
	requestFields,
	rstStreamFrame,
	settingsFrame,
} from '../../../fixtures/h2-frames.ts';
import { until } from '../../../fixtures/wait.ts';
import { FakePlane, LIMITS, settle } from '../fixtures/fake-plane.ts';

const REQUEST = requestFields('GET', '/');

/** Whatever the connection does, it is read at once. */
const UNBOUNDED = new ConnectionShare({
	takeSome: (wanted: number) => wanted,
	release() {},
} as unknown as PeerShare);

/** The client's end of a connection, without any TLS. */
class Client {
	readonly frames: Frame[] = [];
	readonly socket: Duplex;
	/** The server's end. */
	readonly served: Duplex;
	/** Answers the server's pings. */
	answersPings = true;

	/** @param early bytes after preface and SETTINGS that arrive before the end of the handshake is noticed. */
	constructor(plane: FakePlane, early: readonly Buffer[] = [], share = plane.share()) {
		const [socket, served] = duplexPair();
		this.socket = socket;
		this.served = served;
		const reader = new FrameReader();
		socket.on('error', () => {});
		socket.on('data', (bytes: Buffer) => {
			for (const frame of reader.push(bytes)) {
				this.frames.push(frame);
				if (frame.type === FRAME.PING && !(frame.flags & FLAG.ACK) && this.answersPings) {
					this.send(pingFrame(frame.payload, true));
				}
			}
		});
		this.send(PREFACE, settingsFrame(), ...early);
		// Bytes that the socket has read before the connection takes them.
		served.read(0);
		new Http2Front(plane).accept(served as TLSSocket, '192.0.2.1', share);
	}

	send(...frames: Buffer[]): void {
		if (!this.socket.destroyed) this.socket.write(Buffer.concat(frames));
	}

	/** A request, and its response. */
	async request(streamId: number): Promise<void> {
		this.send(headersFrame(streamId, REQUEST));
		await until(() => this.count(FRAME.HEADERS, streamId) === 1, 'the response');
		await settle();
	}

	count(type: number, streamId: number): number {
		return this.frames.filter((frame) => frame.type === type && frame.streamId === streamId).length;
	}

	get pings(): number {
		return this.frames.filter(({ type, flags }) => type === FRAME.PING && !(flags & FLAG.ACK)).length;
	}
}

async function untilGone(plane: FakePlane): Promise<void> {
	await until(() => plane.connections === 0, 'the connection to be gone');
}

describe('an HTTP/2 connection', () => {
	it('is ended when its first request does not come in time, whatever else does', async () => {
		const plane = new FakePlane();
		const client = new Client(plane);
		await plane.pass(LIMITS.firstRequest - 1000);
		client.send(pingFrame(), settingsFrame());
		await settle();
		assert.equal(plane.connections, 1);
		await plane.pass(1100);
		await untilGone(plane);
		assert.equal(client.served.destroyed, true);
	});

	it('a connection whose first streams are reset before their turn continues', async () => {
		const plane = new FakePlane();
		const early: Buffer[] = [];
		// Fewer than may be open, for Node counts those that are gone for a turn more.
		for (let id = 1; id < 120; id += 2) {
			const lines = id % 4 === 1 ? REQUEST : [...REQUEST, ['expect', '100-continue'] as const];
			const code = id % 8 < 4 ? ERROR_CODE.CANCEL : ERROR_CODE.NO_ERROR;
			early.push(headersFrame(id, lines, { endStream: id % 16 < 8 }), rstStreamFrame(id, code));
		}
		for (const letsPass of [false, true]) {
			plane.letsPass = letsPass;
			const client = new Client(plane, early);
			await settle();
			await client.request(401);
			client.served.destroy();
			await untilGone(plane);
		}
		assert.deepEqual(
			plane.stats.read().responses,
			new Map([
				[401, 1],
				[404, 1],
			]),
		);
	});

	it('is pinged every 30 s, and stays for as long as the pings are answered', async () => {
		const plane = new FakePlane();
		const client = new Client(plane);
		await client.request(1);
		for (let pings = 1; pings <= 5; pings++) {
			await plane.pass(LIMITS.ping - 1000);
			assert.equal(client.pings, pings - 1);
			await plane.pass(1100);
			await until(() => client.pings === pings, 'a ping');
			await settle();
		}
		assert.equal(plane.connections, 1);
		await client.request(3);
		client.served.destroy();
		await untilGone(plane);
	});

	it('is ended 20 s after a ping that is not answered', async () => {
		const plane = new FakePlane();
		const client = new Client(plane);
		client.answersPings = false;
		await client.request(1);
		await plane.pass(LIMITS.ping + 100);
		await until(() => client.pings === 1, 'a ping');
		await plane.pass(LIMITS.pong - 1000);
		assert.equal(plane.connections, 1);
		await plane.pass(1100);
		await untilGone(plane);
	});

	it('is ended 20 s after a ping even if its client reads nothing', async () => {
		const plane = new FakePlane();
		const client = new Client(plane);
		await client.request(1);
		client.socket.pause();
		// The answers to these fill what there is of buffers.
		for (let i = 0; i < 900; i++) client.send(pingFrame());
		for (let i = 0; i < 200; i++) client.send(headersFrame(3 + 2 * i, [[':method', 'GET']]));
		await settle();
		await plane.pass(LIMITS.ping + 100);
		await plane.pass(LIMITS.pong + 100);
		await untilGone(plane);
		assert.equal(client.served.destroyed, true);
	});

	it("a connection ends after the client's GOAWAY, even if the client never closes it", async () => {
		const plane = new FakePlane();
		const client = new Client(plane);
		await client.request(1);
		client.send(goawayFrame());
		await until(() => client.count(FRAME.GOAWAY, 0) === 1, 'the goodbye of the server');
		await settle();
		assert.equal(plane.connections, 1);
		await plane.pass(LIMITS.ping + 100);
		await untilGone(plane);
		assert.equal(client.served.destroyed, true);
	});

	it("a connection stays after the client's GOAWAY while a request is in flight", async () => {
		const plane = new FakePlane();
		plane.letsPass = true;
		const client = new Client(plane);
		client.send(headersFrame(1, REQUEST, { endStream: false }), goawayFrame());
		await until(() => client.count(FRAME.GOAWAY, 0) === 1, 'the goodbye of the server');
		for (let seconds = 0; seconds < 180; seconds += 10) await plane.pass(10_000);
		assert.equal(plane.connections, 1);
		client.send(dataFrame(1, 'the end', true));
		await until(() => client.count(FRAME.DATA, 1) === 1, 'the response');
		await plane.pass(LIMITS.ping + 100);
		await untilGone(plane);
	});

	it("a connection whose last responses are read slowly stays until they are read, at most for the upstream's time limit", async () => {
		for (const isTaken of [true, false]) {
			const plane = new FakePlane();
			Object.assign(plane.limits, { h2MaxConcurrentStreams: 1000 });
			const client = new Client(plane, [], UNBOUNDED);
			client.socket.pause();
			// All in one turn, so that nothing is left to be written but what the socket has.
			const ids = Array.from({ length: 500 }, (_, i) => 1 + 2 * i);
			client.send(...ids.map((id) => headersFrame(id, REQUEST)), goawayFrame());
			await settle();
			assert.ok(client.served.writableEnded && !client.served.writableFinished);
			await plane.pass(LIMITS.linger + 1000);
			assert.equal(plane.connections, 1);
			if (isTaken) {
				client.socket.resume();
				await until(() => client.count(FRAME.DATA, ids.at(-1)!) === 1, 'the last response');
				await settle();
			} else {
				await plane.pass(LIMITS.upstream - LIMITS.linger - 2000);
				assert.equal(plane.connections, 1);
			}
			await plane.pass(LIMITS.linger + 100);
			await untilGone(plane);
		}
	});

	it("a connection ends at once after the client's GOAWAY with an error", async () => {
		const plane = new FakePlane();
		const client = new Client(plane);
		await client.request(1);
		client.send(goawayFrame(0, ERROR_CODE.PROTOCOL_ERROR));
		await untilGone(plane);
	});

	it('is gone when its client is gone, before the first request and after it', async () => {
		for (const requests of [0, 1]) {
			const plane = new FakePlane();
			const client = new Client(plane);
			if (requests === 1) await client.request(1);
			client.served.destroy();
			await untilGone(plane);
			await plane.pass(200_000);
		}
	});
});
