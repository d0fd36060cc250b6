import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ALLOWANCE, ConnectionShare, PeerShare, SHARE } from '../../../../packages/proxy/src/data/loop/read-share.ts';
import {
	dataFrame,
	FLAG,
	FRAME,
	frame,
	goawayFrame,
	headersFrame,
	pingFrame,
	priorityFrame,
	requestFields,
	rstStreamFrame,
	settingsFrame,
	windowUpdateFrame,
} from '../../../fixtures/h2-frames.ts';
import { LIMITS, ProtocolPeer } from './fixtures/protocol-peer.ts';

const GET = requestFields('GET', '/a');

/**
 * A frame that no request needs, and the least that it costs in microseconds, measured on one core of 2026: parsing 0.1, a field
 * 0.006, a field that is new 0.08, a byte of a record 0.0003, a request that is refused 10.
 */
interface Waste {
	readonly bytes: Buffer;
	readonly microseconds: number;
}

const PARSING = 0.1;
const waste = (bytes: Buffer, more = 0): Waste => ({
	bytes,
	microseconds: PARSING + bytes.length * 0.0003 + more,
});
const block = (id: number, count: number, bytes: readonly number[], each: number) =>
	waste(frame(FRAME.HEADERS, FLAG.END_HEADERS, id, Buffer.from(Array(count).fill(bytes).flat())), count * each);
const size = fc.constantFrom(1, 2, 16, 300, 4000);
const wastes: fc.Arbitrary<Waste> = fc.oneof(
	size.map((length) => waste(frame(0x42, 0, 0, Buffer.alloc(length)))),
	size.map((count) => block(1, count, [0x90], 0.006)),
	size.map((count) => block(1, count, [0x50, 0x00], 0.08)),
	fc.constant(waste(frame(FRAME.HEADERS, FLAG.END_HEADERS, 1))),
	fc.constant(waste(pingFrame())),
	fc.constant(waste(settingsFrame())),
	fc.constant(waste(priorityFrame(1))),
	fc.constant(waste(windowUpdateFrame(0, 1))),
	fc.constant(waste(rstStreamFrame(1))),
	size.map((length) => waste(dataFrame(1, Buffer.alloc(length)))),
	fc.constant(waste(dataFrame(3))),
	fc.constant(waste(dataFrame(3, 'x'))),
	fc
		.nat(255)
		.map((padding) =>
			waste(frame(FRAME.DATA, FLAG.PADDED, 3, Buffer.concat([Buffer.of(padding), Buffer.alloc(padding)]))),
		),
);

/** Streams 1, reset by us, and 3, an upload that is under way. */
function begun(share: ConnectionShare): ProtocolPeer {
	const open = (id: number) => headersFrame(id, GET, { endStream: false });
	return new ProtocolPeer(true, LIMITS, share).send(open(1), windowUpdateFrame(1, 0), open(3));
}

describe('frames without use', () => {
	it('costs a worker no more than the share allows, whatever the sequence of frames', () => {
		fc.assert(
			fc.property(fc.array(wastes, { minLength: 1, maxLength: 8 }), (pattern) => {
				const share = new ConnectionShare(new PeerShare());
				share.settle(0);
				const peer = begun(share);
				const largest = Math.max(...pattern.map(({ microseconds }) => microseconds));
				let spent = 0;
				for (let now = 0; now < 200 && peer.error === undefined; now++) {
					peer.now = now;
					// As `PacedReads` has it: a frame is taken as long as there are tokens.
					for (let i = 0; i < 2000 && peer.error === undefined; i++) {
						if (share.isOverdrawn && !share.settle(now)) break;
						const { bytes, microseconds } = pattern[i % pattern.length]!;
						peer.send(bytes);
						peer.frames.length = 0;
						spent += microseconds;
					}
					const allowed = SHARE.burst + ALLOWANCE.burst + now * (SHARE.perMs + ALLOWANCE.perMs) + largest;
					assert.ok(spent <= allowed, `${spent} µs of ${allowed} in ${now} ms`);
				}
			}),
			{ numRuns: 60 },
		);
	});

	it('ends a connection that goes on with it, whatever the sequence of frames', () => {
		fc.assert(
			fc.property(fc.array(wastes, { minLength: 1, maxLength: 8 }), (pattern) => {
				// Small DATA costs least, a quarter of a token: 48,000 of these frames are more than the budget has.
				const frames = Buffer.concat(Array.from({ length: 4 }, () => pattern.map(({ bytes }) => bytes)).flat());
				const peer = begun(new ConnectionShare(new PeerShare()));
				for (let i = 0; i < 12_000 && peer.error === undefined; i++) {
					peer.send(frames);
					peer.frames.length = 0;
				}
				assert.match(peer.error?.reason ?? 'none', /flood|flow-control/);
			}),
			{ numRuns: 30 },
		);
	});
});

describe('admitted requests that are reset', () => {
	it('cost a worker no more than the share allows, although they have got back the tokens of their heads', () => {
		const share = new ConnectionShare(new PeerShare());
		share.settle(0);
		const peer = new ProtocolPeer(true, LIMITS, share).send(settingsFrame());
		let resets = 0;
		for (let now = 0; now < 200; now++) {
			peer.now = now;
			for (; !share.isOverdrawn || share.settle(now); resets++) {
				const id = 2 * resets + 1;
				peer.send(headersFrame(id, GET));
				const stream = peer.streams.get(id)!;
				// What `onPaid` does.
				stream.isAdmitted = true;
				share.release(stream.headPrice);
				peer.send(rstStreamFrame(id));
				assert.equal(peer.error, undefined);
			}
		}
		// The least that one costs: a request to an upstream, and a new connection to it.
		const most = (SHARE.burst + ALLOWANCE.burst + 200 * (SHARE.perMs + ALLOWANCE.perMs)) / 50;
		assert.ok(resets > most / 2 && resets <= most + 1, `${resets} resets`);
	});
});

describe('an honest client', () => {
	/** What it does in a millisecond of up to 30 requests. */
	const turn = fc.record({
		requests: fc.nat(30),
		fields: fc.nat(30),
		cookie: fc.constantFrom(0, 100, 4000),
		pieces: fc.nat(20),
		pieceBytes: fc.integer({ min: 5, max: 400 }),
		updates: fc.boolean(),
		cancels: fc.boolean(),
		others: fc.constantFrom(pingFrame(), priorityFrame(1), settingsFrame(), frame(0x10, 0, 0, 'u=1')),
	});

	it('is neither delayed nor ended at 30,000 admitted requests a second, whatever they are like', () => {
		fc.assert(
			fc.property(fc.array(turn, { minLength: 1, maxLength: 5 }), (pattern) => {
				const share = new ConnectionShare(new PeerShare());
				const peer = new ProtocolPeer(true, { ...LIMITS, maxConcurrentStreams: 128 }, share);
				peer.send(settingsFrame(), frame(FRAME.SETTINGS, FLAG.ACK, 0));
				let id = -1;
				for (let ms = 0; ms < 300; ms++) {
					peer.now = ms;
					const { requests, fields, cookie, pieces, pieceBytes, updates, cancels, others } =
						pattern[ms % pattern.length]!;
					const lines = [...GET, ...Array.from({ length: fields }, (_, n) => [`x-${n}`, `${ms}`] as const)];
					// A few large heads among many small ones, as a turn of the loop has room for.
					const large = cookie === 0 ? lines : [...lines, ['cookie', 'c'.repeat(cookie)] as const];
					const heads = [headersFrame(1, large, { endStream: false }), headersFrame(1, lines)] as const;
					for (let i = 0; i < requests; i++) {
						id += 2;
						const head = i === 0 ? heads[0] : heads[1];
						head.writeUInt32BE(id, 5);
						peer.send(head);
						assert.equal(peer.error?.message, undefined);
						const stream = peer.streams.get(id)!;
						stream.isAdmitted = true;
						share.release(stream.headPrice);
						if (i === 0) {
							for (let n = 0; n < Math.min(pieces, 5); n++) peer.send(dataFrame(id, 'x'.repeat(pieceBytes)));
							peer.send(dataFrame(id, 'x'.repeat(pieceBytes), true));
						}
						if (cancels && i === 1 && ms % 25 === 0) peer.send(rstStreamFrame(id));
						else stream.answer('x'.repeat(100));
						if (updates) peer.send(windowUpdateFrame(0, 100));
						peer.streams.delete(id);
						peer.flush();
					}
					if (!updates && requests > 0) peer.send(windowUpdateFrame(0, 100 * requests));
					if (ms % 20 === 0) peer.send(others);
					peer.frames.length = 0;
					assert.equal(peer.error?.message, undefined);
					assert.ok(!share.isOverdrawn || share.settle(ms), `delayed in millisecond ${ms}`);
				}
			}),
			{ numRuns: 10 },
		);
	});

	/** A request with trailers. It is admitted at the end of the turn in which its head arrives. */
	function sendWithTrailers(
		peer: ProtocolPeer,
		share: ConnectionShare,
		id: number,
		trailers: [string, string][],
		isOneTurn: boolean,
	): void {
		peer.send(headersFrame(id, GET, { endStream: false }));
		const stream = peer.streams.get(id)!;
		if (isOneTurn) peer.send(headersFrame(id, trailers));
		stream.isAdmitted = true;
		share.release(stream.headPrice);
		if (!isOneTurn) peer.send(headersFrame(id, trailers));
		stream.answer('');
		peer.flush();
		peer.frames.length = 0;
		assert.equal(peer.error?.message, undefined);
	}

	for (const isOneTurn of [true, false]) {
		const when = isOneTurn ? 'in the same turn' : 'in a later turn';
		it(`is not delayed if each of 30,000 requests a second ends with a few trailers, ${when}`, () => {
			const share = new ConnectionShare(new PeerShare());
			const peer = new ProtocolPeer(true, LIMITS, share).send(settingsFrame());
			for (let i = 0; i < 9_000; i++) {
				peer.now = Math.floor(i / 30);
				const trailers: [string, string][] = [
					['x-sum', `${i}`],
					['x-count', '1'],
				];
				sendWithTrailers(peer, share, 2 * i + 1, trailers, isOneTurn);
				assert.ok(!share.isOverdrawn || share.settle(peer.now), `delayed in millisecond ${peer.now}`);
			}
		});

		it(`pays the cost of long trailers, ${when}`, () => {
			const share = new ConnectionShare(new PeerShare());
			const peer = new ProtocolPeer(true, LIMITS, share).send(settingsFrame());
			let requests = 0;
			for (let now = 0; now < 100; now++) {
				peer.now = now;
				for (; !share.isOverdrawn || share.settle(now); requests++) {
					sendWithTrailers(peer, share, 2 * requests + 1, [['x-sum', 'x'.repeat(14_000)]], isOneTurn);
				}
			}
			const most = (SHARE.burst + ALLOWANCE.burst + 100 * (SHARE.perMs + ALLOWANCE.perMs)) / 400;
			assert.ok(requests > most / 2 && requests <= most + 1, `${requests} requests`);
		});
	}

	it('pays the cost of messages of a byte, and is not delayed at 30,000 messages of 50 bytes a second', () => {
		/** How many messages of an admitted call are taken in 100 ms. */
		const taken = (bytes: number, perMs: number) => {
			const share = new ConnectionShare(new PeerShare());
			const peer = begun(share);
			let messages = 0;
			for (let now = 0; now < 100; now++) {
				peer.now = now;
				for (let i = 0; i < perMs && (!share.isOverdrawn || share.settle(now)); i++, messages++) {
					peer.send(dataFrame(3, 'x'.repeat(bytes)));
				}
				assert.equal(peer.error, undefined);
			}
			return messages;
		};
		// The least cost of a message, µs: each goes to the upstream in a separate frame.
		const most = (SHARE.burst + ALLOWANCE.burst + 100 * (SHARE.perMs + ALLOWANCE.perMs)) / 2.9;
		const messages = taken(1, 1000);
		assert.ok(messages > most / 2 && messages <= most, `${messages} messages`);
		assert.equal(taken(50, 30), 3000);
	});

	it('is ended by none of the frames that it sends after its own GOAWAY', () => {
		const peer = begun(new ConnectionShare(new PeerShare()));
		peer.send(goawayFrame(), ...Array.from({ length: 500 }, () => dataFrame(3, 'x')), dataFrame(3, '', true));
		assert.equal(peer.error, undefined);
	});
});
