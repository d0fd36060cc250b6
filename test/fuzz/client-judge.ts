/** Two readings of what a server sends: ours, and nghttp2's through `node:http2`. */
import { connect } from 'node:http2';
import { duplexPair } from 'node:stream';
import { FRAME, FrameReader, PREFACE } from '../fixtures/h2-frames.ts';
import { ClientPeer, LIMITS } from '../unit/http2/client/fixtures/client-peer.ts';
import type { Field } from './responses.ts';
import type { AskedRequest } from './server-frames.ts';

/** One response, as far as it was parsed. */
export interface ReadResponse {
	readonly status: string | undefined;
	/** `:status` first. */
	readonly fields: readonly Field[];
	/** Latin1. */
	readonly body: string;
	readonly trailers: readonly Field[];
	readonly isWhole: boolean;
	/** Why it is not complete, in our words. */
	readonly cause?: string;
}

export interface ConnectionReading {
	readonly responses: readonly ReadResponse[];
	/** Number of the frame that ended the connection; `Infinity`: none did. */
	readonly brokenAt: number;
	/** The reason, in our words or nghttp2's. */
	readonly why: string;
	/** Frames from this number on are not judged. */
	readonly silentFrom: number;
	/** Refused streams, by number of the frame. */
	readonly resets: ReadonlyMap<number, number>;
}

/** Our own invariant is broken, whatever nghttp2 says. */
export class BrokenInvariant extends Error {}

/** @returns whole frames, as far as their lengths are plausible; the rest is one piece. */
export function frameByFrame(bytes: Buffer): Buffer[] {
	const pieces: Buffer[] = [];
	for (let at = 0; at < bytes.length; ) {
		const length = bytes.length - at < 9 ? bytes.length : 9 + bytes.readUIntBE(at, 3);
		pieces.push(bytes.subarray(at, at + length));
		at += length;
	}
	return pieces;
}

/** @param pieces one read each. @throws BrokenInvariant */
export function readByUs(requests: readonly AskedRequest[], pieces: readonly Buffer[]): ConnectionReading {
	const peer = new ClientPeer(false);
	const { protocol } = peer;
	for (const { method, body, isOpen } of requests) {
		peer.request(method, body > 0 ? 'b'.repeat(body) : undefined, !isOpen);
	}
	let brokenAt = Number.POSITIVE_INFINITY;
	let received = 0;
	const resets = new Map<number, number>();
	for (const [at, piece] of pieces.entries()) {
		const before = peer.frames.length;
		received += piece.length;
		try {
			peer.send(piece);
		} catch (error) {
			throw new BrokenInvariant(`${(error as Error).stack}`);
		}
		for (const { type, streamId, payload } of peer.frames.slice(before)) {
			// Without an error: the response is complete, and the rest of the request is not wanted.
			if (type === FRAME.RST_STREAM && payload.readUInt32BE(0) !== 0 && !resets.has(streamId)) resets.set(streamId, at);
		}
		if (peer.error !== undefined && brokenAt === Number.POSITIVE_INFINITY) brokenAt = at;
		checkInvariants(peer, received);
	}
	for (const stream of protocol.streams.end(0))
		stream.onClosed({ kind: 'lost', cause: peer.error?.message ?? 'the input is over' });
	checkEnds(peer);
	const responses = peer.streams.map(({ facts, body, trailers, isWhole, end }): ReadResponse => {
		const fields = facts?.fields.map(({ name, value }): Field => [name, value]) ?? [];
		const read = { status: fields[0]?.[1], fields, body, trailers: pairs(trailers ?? []), isWhole };
		return end === undefined ? read : { ...read, cause: end.cause };
	});
	return { responses, brokenAt, why: peer.error?.message ?? '', silentFrom: Number.POSITIVE_INFINITY, resets };
}

function checkInvariants({ protocol, streams }: ClientPeer, received: number): void {
	const wrong = (what: string) => new BrokenInvariant(`${what}, ${JSON.stringify({ window: protocol.output.window })}`);
	if (protocol.output.window < 0) throw wrong('more is sent than the connection’s window allows');
	if (protocol.output.bytes > 0) throw wrong('output that nobody is told of');
	if (protocol.streams.size > streams.length) throw wrong('more streams than requests');
	let bytes = 0;
	for (const { id, receiveWindow, held, owed, paddingDue, body, isClosed } of streams) {
		if (receiveWindow < 0 || receiveWindow > LIMITS.window)
			throw wrong(`stream ${id} has a window of ${receiveWindow}`);
		if (!isClosed && (held < 0 || owed < 0 || paddingDue < 0)) throw wrong(`stream ${id} holds less than nothing`);
		bytes += body.length;
	}
	if (bytes > received) throw wrong('bodies are longer than what has come');
}

/** Every opened stream must report its end once; a second report is an error of `TestRequest`. */
function checkEnds({ streams, protocol, ends }: ClientPeer): void {
	const untold = streams.find(({ isWhole, end }) => !isWhole && end === undefined);
	if (untold !== undefined) throw new BrokenInvariant(`stream ${untold.id} is not told that it has ended`);
	if (protocol.streams.size !== 0) throw new BrokenInvariant('streams are left behind');
	const lost = streams.filter(({ end }) => end?.kind === 'lost').length;
	if (ends !== streams.length - lost) throw new BrokenInvariant(`${ends} ends of ${streams.length - lost} streams`);
}

/** @param pieces one read each, with time in between for nghttp2 to report an error. */
export async function readByNghttp2(
	requests: readonly AskedRequest[],
	pieces: readonly Buffer[],
): Promise<ConnectionReading> {
	const [client, server] = duplexPair();
	server.on('error', () => {});
	const session = connect('http://upstream', {
		createConnection: () => client,
		settings: { enablePush: false, initialWindowSize: LIMITS.window, maxHeaderListSize: 1_000_000 },
		maxHeaderListPairs: 10_000,
	});
	let at = -1;
	const resets = new Map<number, number>();
	let brokenAt = Number.POSITIVE_INFINITY;
	let silentFrom = Number.POSITIVE_INFINITY;
	let why = '';
	const broken = (what: string) => {
		// Its reaction to a closed connection is not a verdict.
		if (brokenAt === Number.POSITIVE_INFINITY && silentFrom > at) [brokenAt, why] = [at, what];
	};
	session.on('error', (error) => broken(error.message));
	session.on('goaway', () => {
		silentFrom = Math.min(silentFrom, at);
	});
	const responses = requests.map(({ method, body, isOpen }) => {
		const read = {
			status: undefined as string | undefined,
			fields: [] as Field[],
			body: '',
			trailers: [] as Field[],
			isWhole: false,
		};
		const stream = session.request({ ':method': method, ':path': '/' }, { endStream: body === 0 && !isOpen });
		stream.on('response', (_fields, _flags, ...[raw]: unknown[]) => {
			read.fields = pairs(raw as string[]);
			read.status = read.fields[0]?.[1];
		});
		stream.on('trailers', (_fields, _flags, ...[raw]: unknown[]) => {
			read.trailers = pairs(raw as string[]);
		});
		stream.setEncoding('latin1').on('data', (text: string) => {
			read.body += text;
		});
		// Node also ends a body on a reset with NO_ERROR; the comparison allows for it.
		stream.on('end', () => {
			read.isWhole ||= stream.rstCode === 0 && !stream.destroyed;
		});
		stream.on('error', () => {});
		if (body > 0) stream.write('b'.repeat(body));
		if (!isOpen && body > 0) stream.end();
		return read;
	});
	const sent = new FrameReader();
	let preface = PREFACE.length;
	let reads = 0;
	server.on('data', (bytes: Buffer) => {
		reads++;
		const skipped = Math.min(preface, bytes.length);
		preface -= skipped;
		for (const { type, streamId, payload } of sent.push(bytes.subarray(skipped))) {
			if (type === FRAME.GOAWAY && payload.readUInt32BE(4) !== 0) broken(payload.toString('latin1', 8));
			if (type !== FRAME.RST_STREAM || payload.readUInt32BE(0) === 0 || resets.has(streamId)) continue;
			resets.set(streamId, at);
		}
	});
	/** Waits until Node reports nothing more: it writes a body piece by piece, and reports on a frame later. */
	const quiet = async () => {
		for (let before = -1; before !== reads; ) {
			before = reads;
			await turns(4);
		}
	};
	await quiet();
	for (const piece of pieces) {
		if (session.destroyed || brokenAt < Number.POSITIVE_INFINITY) break;
		at++;
		server.write(piece);
		await quiet();
	}
	if (session.destroyed && brokenAt === Number.POSITIVE_INFINITY) silentFrom = Math.min(silentFrom, at);
	const reading = { responses: structuredClone(responses), brokenAt, why, silentFrom, resets: new Map(resets) };
	session.on('error', () => {}).destroy();
	server.destroy();
	return reading;
}

async function turns(count: number): Promise<void> {
	for (let turn = 0; turn < count; turn++) await new Promise(setImmediate);
}

function pairs(list: readonly string[]): Field[] {
	return Array.from({ length: list.length / 2 }, (_, i): Field => [list[2 * i]!, list[2 * i + 1]!]);
}
