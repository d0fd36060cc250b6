import type { Trailers } from '../gates/trailers.ts';
import { ConnectionError, flowError, protocolError, sizeError } from './errors.ts';
import { CODE, FLAG, FRAME, MAX_WINDOW, pingFrame, SETTINGS_ACK } from './frame-format.ts';
import { FrameReader, type FrameSink, uint31At, uint32At } from './frame-reader.ts';
import { HeaderBlockReader } from './header-block-reader.ts';
import type { HeaderBlock, HpackDecoder } from './hpack-decoder.ts';
import type { TableEntry } from './hpack-table.ts';
import { Output } from './output.ts';
import { COSTS, type PeerBudget, priceOfHead, type ThreadShare } from './peer-budget.ts';
import { PeerSettings } from './peer-settings.ts';
import type { HttpStream, StreamSet } from './stream-set.ts';

/**
 * What both sides of an HTTP/2 connection do with frames (RFC 9113 sections 3.4 to 6), without I/O and without a clock: bytes and times
 * come in, frames are put together in `output`. Checks of frames are here; the sides differ in what a frame means for a request.
 */
export abstract class FrameProtocol<Stream extends HttpStream, Field extends TableEntry> implements FrameSink {
	readonly output: Output;
	readonly settings: PeerSettings;
	abstract readonly streams: StreamSet<Stream>;
	/** The peer's first SETTINGS have arrived: it speaks HTTP/2. */
	isGreeted = false;
	protected readonly decoder: HpackDecoder<Field>;
	protected readonly blocks: HeaderBlockReader;
	/** The peer has acknowledged our SETTINGS. */
	protected isSettled = false;
	/** Faults in words that fit the peer: of a first frame that is not SETTINGS, and of a push. */
	protected abstract readonly words: { readonly preface: string; readonly push: string };
	readonly #reader = new FrameReader();
	readonly #share: ThreadShare;
	readonly #budget: PeerBudget;
	/** Stream of the current DATA frame; `undefined`: its payload is dropped. */
	#dataStream: Stream | undefined;
	/** Bytes of its data so far. */
	#dataBytes = 0;

	constructor(
		onOutput: () => void,
		share: ThreadShare,
		budget: PeerBudget,
		decoder: HpackDecoder<Field>,
		maxHeaderBytes: number,
		mayPeerPush: boolean,
	) {
		this.output = new Output(onOutput, (bytes) => budget.sent(bytes));
		this.settings = new PeerSettings(mayPeerPush);
		this.#share = share;
		this.#budget = budget;
		this.decoder = decoder;
		this.blocks = new HeaderBlockReader(maxHeaderBytes);
	}

	/** A DATA frame has begun. @returns whether its payload is wanted. */
	protected abstract takesData(stream: Stream, length: number): boolean;
	protected abstract onBody(stream: Stream, bytes: Buffer): void;
	/** Charges for a complete DATA frame. @param length of its data. */
	protected abstract chargeData(stream: Stream | undefined, length: number, endStream: boolean): void;
	/** The body has the declared length. */
	protected abstract onMessageEnd(stream: Stream, trailers: Trailers | undefined): void;
	protected abstract onBlock(id: number, block: HeaderBlock<Field>, price: number): void;
	protected abstract onRstStream(id: number, code: number): void;
	protected abstract onPriority(id: number, bytes: Buffer, from: number, to: number): void;
	/** An acknowledgement of a ping of ours. @param opaque its 8 bytes. */
	protected abstract onPong(opaque: string): void;
	protected abstract onGoaway(lastId: number, code: number): void;
	/** The peer's SETTINGS have been applied. */
	protected onSettings(): void {}
	/** The peer has opened the connection's window. */
	protected onWindow(): void {}

	/** For the frame reader. */
	get isOverdrawn(): boolean {
		return this.#share.isOverdrawn;
	}

	/**
	 * @param now monotonic milliseconds.
	 * @returns how many bytes were taken, at least one: give the rest again when the share allows it.
	 * @throws ConnectionError; then call `streams.end`.
	 */
	receive(bytes: Buffer, now: number): number {
		if (this.streams.isOver) return bytes.length;
		this.streams.now = now;
		return this.#reader.push(bytes, this);
	}

	/** @param opaque 8 bytes. */
	ping(opaque: string): void {
		this.output.write(pingFrame(opaque, false));
	}

	// --- DATA (section 6.1). ---

	onDataHead(id: number, length: number): void {
		const { streams } = this;
		if (streams.isOver) return;
		this.#expectFrame(FRAME.DATA, false);
		if (id === 0) throw protocolError('DATA on stream 0');
		// The payload always uses up the windows; unwanted bytes are given back at once.
		streams.receive(length);
		this.#dataStream = undefined;
		this.#dataBytes = 0;
		const stream = streams.receiving(id, 'DATA');
		if (stream === undefined) {
			if (streams.isLate(id, length)) this.#budget.lateData(length, streams.now);
			else this.#budget.unknown(length, streams.now);
			return streams.giveBackToConnection(length);
		}
		stream.held += length;
		stream.paddingDue = length;
		if (length > stream.receiveWindow) return streams.fail(stream, CODE.FLOW_CONTROL_ERROR, 'DATA beyond the window');
		stream.receiveWindow -= length;
		if (this.takesData(stream, length)) this.#dataStream = stream;
	}

	onDataBytes(_id: number, bytes: Buffer): void {
		this.#dataBytes += bytes.length;
		const stream = this.#dataStream;
		if (stream === undefined || stream.isClosed) return;
		stream.received += bytes.length;
		stream.paddingDue -= bytes.length;
		if (stream.declaredLength >= 0 && stream.received > stream.declaredLength) {
			return this.streams.fail(stream, CODE.PROTOCOL_ERROR, OTHER_LENGTH);
		}
		this.onBody(stream, bytes);
	}

	onDataEnd(_id: number, endStream: boolean): void {
		if (this.streams.isOver) return;
		const stream = this.#dataStream;
		this.#dataStream = undefined;
		this.chargeData(stream, this.#dataBytes, endStream);
		if (stream === undefined || stream.isClosed) return;
		const padding = stream.paddingDue;
		stream.paddingDue = 0;
		if (padding > 0) this.streams.releasePadding(stream, padding);
		if (endStream && !stream.isClosed) this.endMessage(stream);
	}

	/** Section 8.1.1. */
	protected endMessage(stream: Stream, trailers?: Trailers): void {
		const { declaredLength, received } = stream;
		if (declaredLength < 0 || received === declaredLength) this.onMessageEnd(stream, trailers);
		else this.streams.fail(stream, CODE.PROTOCOL_ERROR, OTHER_LENGTH);
	}

	// --- All other frames. ---

	onFrame(type: number, flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		if (this.streams.isOver) return;
		const isAck = (flags & FLAG.ACK) !== 0;
		this.#expectFrame(type, isAck);
		switch (type) {
			case FRAME.HEADERS:
				// Section 5.1.1.
				if ((id & 1) === 0) throw protocolError('HEADERS on a stream that a client cannot open');
				if (this.blocks.begin(flags, id, bytes, from, to)) this.#onBlock(id);
				return;
			case FRAME.CONTINUATION:
				if (this.blocks.goOn(flags, id, bytes, from, to)) this.#onBlock(id);
				return;
			case FRAME.PRIORITY:
				if (id === 0) throw protocolError('PRIORITY on stream 0');
				return this.onPriority(id, bytes, from, to);
			case FRAME.RST_STREAM:
				if (to - from !== 4) throw sizeError('RST_STREAM of a wrong length');
				if (id === 0 || this.streams.isIdle(id)) throw protocolError('RST_STREAM on an idle stream');
				return this.onRstStream(id, uint32At(bytes, from));
			case FRAME.SETTINGS:
				return this.#onSettings(isAck, id, bytes, from, to);
			case FRAME.PUSH_PROMISE:
				throw protocolError(this.words.push);
			case FRAME.PING:
				return this.#onPing(isAck, id, bytes, from, to);
			case FRAME.GOAWAY:
				if (id !== 0) throw protocolError('GOAWAY on a stream');
				if (to - from < 8) throw sizeError('GOAWAY of a wrong length');
				this.#budget.take(COSTS.goaway, this.streams.now);
				return this.onGoaway(uint31At(bytes, from), uint32At(bytes, from + 4));
			case FRAME.WINDOW_UPDATE:
				return this.#onWindowUpdate(id, bytes, from, to);
		}
		// Section 5.5: unknown types are ignored.
		this.#budget.unknown(to - from, this.streams.now);
	}

	/** Section 3.4: SETTINGS first. Section 6.10: no other frame within a header block. */
	#expectFrame(type: number, isAck: boolean): void {
		if (!this.isGreeted && (type !== FRAME.SETTINGS || isAck)) {
			throw new ConnectionError(CODE.PROTOCOL_ERROR, 'preface', this.words.preface);
		}
		if (this.blocks.isOpen && type !== FRAME.CONTINUATION) throw protocolError('a frame inside a header block');
	}

	/** The block is always decoded, even if it is then ignored: the tables must agree (RFC 7541 section 2.2). */
	#onBlock(id: number): void {
		const { bytes, from, to, endStream } = this.blocks;
		const { made } = this.decoder;
		const block = this.decoder.decode(bytes, from, to, endStream, this.streams.isIdle(id));
		this.blocks.forget();
		this.onBlock(id, block, priceOfHead(to - from, block.count, this.decoder.made - made));
	}

	#onSettings(isAck: boolean, id: number, bytes: Buffer, from: number, to: number): void {
		if (id !== 0) throw protocolError('SETTINGS on a stream');
		if (isAck) {
			if (to !== from) throw sizeError('SETTINGS acknowledgement with a payload');
			if (this.isSettled) throw protocolError('an acknowledgement of SETTINGS that were not sent');
			this.isSettled = true;
			return;
		}
		this.#budget.take(COSTS.settings, this.streams.now);
		this.settings.read(bytes, from, to);
		this.acknowledge(SETTINGS_ACK);
		this.isGreeted = true;
		this.streams.apply(this.settings);
		this.onSettings();
	}

	/** Section 6.7. An acknowledgement without a ping is ignored. */
	#onPing(isAck: boolean, id: number, bytes: Buffer, from: number, to: number): void {
		if (id !== 0) throw protocolError('PING on a stream');
		if (to - from !== 8) throw sizeError('PING of a wrong length');
		this.#budget.take(COSTS.ping, this.streams.now);
		const opaque = bytes.toString('latin1', from, to);
		if (isAck) this.onPong(opaque);
		else this.acknowledge(pingFrame(opaque, true));
	}

	protected acknowledge(frame: string): void {
		this.output.write(frame);
	}

	#onWindowUpdate(id: number, bytes: Buffer, from: number, to: number): void {
		const { streams, output } = this;
		if (to - from !== 4) throw sizeError('WINDOW_UPDATE of a wrong length');
		this.#budget.take(COSTS.windowUpdate, streams.now);
		const increment = uint31At(bytes, from);
		if (id === 0) {
			if (increment === 0) throw protocolError('WINDOW_UPDATE of 0');
			output.window += increment;
			if (output.window > MAX_WINDOW) throw flowError('a window above 2^31-1');
			this.onWindow();
			return output.pump();
		}
		if (streams.isIdle(id)) throw protocolError('WINDOW_UPDATE on an idle stream');
		const stream = streams.get(id);
		if (stream === undefined) return;
		if (increment === 0) return streams.fail(stream, CODE.PROTOCOL_ERROR, 'WINDOW_UPDATE of 0');
		if (stream.sendWindow + increment > MAX_WINDOW) {
			return streams.fail(stream, CODE.FLOW_CONTROL_ERROR, 'a window above 2^31-1');
		}
		stream.sendWindow += increment;
		stream.resumeSending();
		output.pump();
	}
}

export const OTHER_LENGTH = 'a body whose length differs from content-length';
