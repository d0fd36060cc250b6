import assert from 'node:assert/strict';
import { connect, performServerHandshake, type ServerHttp2Stream } from 'node:http2';
import { duplexPair } from 'node:stream';
import { describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { HEADERS_TOO_LARGE, Rejection } from '../../../../packages/gate/src/gates/rejection.ts';
import { Http2Front } from '../../../../packages/proxy/src/data/http2/front.ts';
import { ERROR_CODE, FLAG, FRAME } from '../../../fixtures/h2-frames.ts';
import { readHttp2Head } from '../../../fixtures/http2-head.ts';
import { until } from '../../../fixtures/wait.ts';
import { readCorpus } from '../../../fuzz/corpus.ts';
import { FRAME_KINDS, type FrameKind, type FramesCase, oddFrames, serialize } from '../../../fuzz/frames.ts';
import { Random } from '../../../fuzz/random.ts';
import { FakePlane, settle } from '../fixtures/fake-plane.ts';
import { LIMITS, ProtocolPeer } from './fixtures/protocol-peer.ts';

/** A request as one of the servers understands it. */
interface Seen {
	/** What the gates make of it. */
	readonly head: string;
	readonly isRefused: boolean;
	readonly body: string;
	readonly isWhole: boolean;
}

const MAX_STREAMS = 100;

/** What nghttp2 makes of a client's bytes, by stream, through `node:http2`. */
async function seenByNghttp2(bytes: Buffer): Promise<{ seen: Map<number, Seen>; hasFailed: boolean }> {
	const [client, server] = duplexPair();
	client.on('error', () => {}).resume();
	server.on('error', () => {});
	const session = performServerHandshake(server, {
		settings: { maxConcurrentStreams: MAX_STREAMS, maxHeaderListSize: LIMITS.maxHeaderBytes },
		maxHeaderListPairs: LIMITS.maxHeaderBytes / 32 + 8,
		strictFieldWhitespaceValidation: false,
		strictSingleValueFields: false,
	} as object);
	let hasFailed = false;
	session.on('error', () => {
		hasFailed = true;
	});
	const seen = new Map<number, { head: string; isRefused: boolean; body: string; isWhole: boolean }>();
	session.on('stream', (stream: ServerHttp2Stream, _headers: unknown, flags: number, raw: unknown) => {
		const isWhole = (flags & FLAG.END_STREAM) !== 0;
		const isTooLarge = (raw as string[]).join('').length > LIMITS.maxHeaderBytes;
		const head = isTooLarge ? HEADERS_TOO_LARGE : readHttp2Head(raw as string[], isWhole);
		const request = { head: JSON.stringify(head), isRefused: head instanceof Rejection, body: '', isWhole };
		seen.set(stream.id!, request);
		stream.on('error', () => {});
		stream.on('data', (chunk: Buffer) => {
			request.body += chunk.toString('latin1');
		});
		stream.on('end', () => {
			if (!stream.aborted && stream.rstCode === 0) request.isWhole = true;
		});
	});
	client.write(bytes);
	for (let turns = 0; turns < 40; turns++) await new Promise(setImmediate);
	session.destroy();
	client.destroy();
	return { seen, hasFailed };
}

/** What ours makes of them; a stream that is reset in the end was none. */
function seenByUs(bytes: Buffer, random: Random): { seen: Map<number, Seen>; peer: ProtocolPeer } {
	const peer = new ProtocolPeer(false, { ...LIMITS, maxConcurrentStreams: MAX_STREAMS });
	const cuts = random.list(random.below(6), () => random.below(bytes.length + 1)).sort((a, b) => a - b);
	peer.sendCut(bytes, cuts);
	const seen = new Map<number, Seen>();
	for (const [id, { facts, body, ended, isWholeHead }] of peer.streams) {
		seen.set(id, {
			head: JSON.stringify(facts.head),
			isRefused: facts.head instanceof Rejection,
			body,
			isWhole: ended || isWholeHead,
		});
	}
	return { seen, peer };
}

describe('our HTTP/2 and nghttp2', () => {
	const corpus = readCorpus<FramesCase>('http2').map(({ input }) => input);
	const tokens = ['a'.repeat(300), 'b'.repeat(300)] as const;

	for (const kind of Object.keys(FRAME_KINDS) as FrameKind[]) {
		it(`understand the same requests, or ours refuses: ${kind}`, async () => {
			let understood = 0;
			for (let seed = 0; seed < 25; seed++) {
				const random = new Random(seed, kind.length);
				const input = oddFrames(random, kind, corpus);
				const bytes = Buffer.from(serialize(input, tokens), 'latin1');
				const { seen: theirs, hasFailed } = await seenByNghttp2(bytes);
				const { seen: ours, peer } = seenByUs(bytes, random);
				// Node ends a connection over an acknowledgement of a ping that was never sent; RFC 9113 section 6.7 does not.
				if (input.frames.some(({ type, flags }) => type === FRAME.PING && (flags & FLAG.ACK) !== 0)) continue;
				// nghttp2 ends a connection over DATA on a half-closed stream, which by section 5.1 costs only the stream.
				const resets = peer.of(FRAME.RST_STREAM).map(({ payload }) => payload.readUInt32BE(0));
				if (resets.includes(ERROR_CODE.STREAM_CLOSED)) continue;
				// Node ends a connection over a body of another length than declared, which costs the stream only (section 8.1.1).
				const isOver = hasFailed && resets.includes(ERROR_CODE.PROTOCOL_ERROR);
				for (const [id, request] of ours) {
					// Refused with a response; nghttp2 refuses some of these without one.
					if (request.isRefused) continue;
					const other = theirs.get(id);
					if (other === undefined && isOver) continue;
					assert.ok(other !== undefined, `${kind} ${seed}: nghttp2 knows no request on stream ${id}: ${request.head}`);
					assert.equal(request.head, other.head, `${kind} ${seed}: stream ${id}`);
					// The server that ended the connection earlier has read less of it.
					if (request.isWhole)
						assert.ok(!other.isWhole || request.body === other.body, `${kind} ${seed}: stream ${id}`);
					understood++;
				}
				if (input.valid === undefined) continue;
				assert.equal(peer.outcome, '', `${kind} ${seed}`);
				assert.deepEqual([...ours.keys()], [...theirs.keys()]);
				for (const [id, request] of ours) assert.deepEqual(request, theirs.get(id), `${kind} ${seed}: stream ${id}`);
			}
			if (kind !== 'garbage') assert.ok(understood > 0);
		});
	}
});

describe('our HTTP/2 server and the client of node:http2', () => {
	it('get along: bodies of all sizes, many streams, cancelled and refused ones', async () => {
		const plane = new FakePlane();
		plane.letsPass = true;
		const [inner, outer] = duplexPair();
		new Http2Front(plane).accept(outer as unknown as TLSSocket, '192.0.2.1', plane.share());
		const session = connect('https://localhost', { createConnection: () => inner });
		let failed: Error | undefined;
		session.on('error', (error) => {
			failed = error;
		});
		const random = new Random(7);
		for (let round = 0; round < 30; round++) {
			const answers = random.list(random.between(1, 40), () => {
				const stream = session.request({
					':path': `/${random.text(random.below(40), 'abc')}`,
					':method': random.pick(['PUT', 'POST']),
				});
				const { promise, resolve } = Promise.withResolvers<string>();
				const cancels = random.chance(0.2);
				let status = 0;
				let body = '';
				stream.on('response', (headers) => {
					status = Number(headers[':status']);
				});
				stream.setEncoding('latin1').on('data', (text: string) => {
					body += text;
				});
				stream.on('error', () => {}).on('close', () => resolve(cancels ? 'cancelled' : `${status} ${body}`));
				stream.end(Buffer.alloc(random.pick([0, 1, 100, 16_384, 70_000, 200_000])));
				if (cancels) setImmediate(() => stream.close(8));
				return promise;
			});
			const outcomes = new Set(await Promise.all(answers));
			outcomes.delete('cancelled');
			// The fake plane knows no route.
			if (outcomes.size > 0) assert.deepEqual([...outcomes], ['404 no route']);
		}
		assert.equal(failed, undefined);
		session.close();
		await until(() => plane.connections === 0, 'the connection to end');
		await settle();
	});
});
