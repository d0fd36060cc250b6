import type { Identifiers } from '../../gates/field-kinds.ts';
import type { Trailers } from '../../gates/trailers.ts';
import { ConnectionError, flowError, protocolError, sizeError } from '../../http2/errors.ts';
import {
	CODE,
	FLAG,
	FRAME,
	INITIAL_WINDOW,
	MAX_WINDOW,
	PREFACE,
	pingFrame,
	SETTING,
	SETTINGS_ACK,
	settingsFrame,
	windowUpdateFrame,
} from '../../http2/frame-format.ts';
import { FrameReader, type FrameSink, uint31At, uint32At } from '../../http2/frame-reader.ts';
import { priceOfHead } from '../../http2/head-price.ts';
import { HeaderBlockReader } from '../../http2/header-block-reader.ts';
import type { HeaderBlock, HpackDecoder } from '../../http2/hpack-decoder.ts';
import { Output } from '../../http2/output.ts';
import { PeerSettings } from '../../http2/peer-settings.ts';
import type { ConnectionShare } from '../loop/read-share.ts';
import { ControlCosts, FrameBudget } from './frame-budget.ts';
import {
	areTrailers,
	maxFieldsOf,
	type RequestFacts,
	type RequestField,
	RequestFieldsReader,
	requestDecoder,
	trailersOf,
} from './request-fields.ts';
import type { Stream } from './stream.ts';
import { Streams, type StreamsEvents } from './streams.ts';

/** Events for the owner of the socket. */
export interface ProtocolEvents extends StreamsEvents {
	/** A request has been understood, or refused for reasons that deserve a response. @returns its stream. */
	onRequest(id: number, facts: RequestFacts, endStream: boolean, sendWindow: number): Stream;
	/** A stream was reset before there was a request. @param what the fault, in words. */
	onMalformed(what: string, code: number): void;
	/** `output` has something to send. */
	onOutput(): void;
	/** An acknowledgement of a ping of ours. @param opaque its 8 bytes. */
	onPong(opaque: string): void;
	/** The client has sent GOAWAY: take no more streams. */
	onGoodbye(): void;
}

export interface ProtocolLimits {
	readonly maxConcurrentStreams: number;
	readonly maxHeaderBytes: number;
	/** Some route takes WebSockets, so the extended CONNECT is announced (RFC 8441 section 3). */
	readonly extendsConnect?: boolean;
	/** As for `readHttp2Fields`. */
	readonly identifiers?: Identifiers;
}

/**
 * The server's side of an HTTP/2 connection (RFC 9113 sections 3.4 to 8), without I/O and without a clock: bytes and times
 * come in, frames are put together in `output`, requests go out as events.
 */
export class Protocol implements FrameSink {
	readonly output: Output;
	readonly streams: Streams;
	readonly #events: ProtocolEvents;
	readonly #limits: ProtocolLimits;
	readonly #reader = new FrameReader();
	readonly #decoder: HpackDecoder<RequestField>;
	readonly #requests: RequestFieldsReader;
	readonly #blocks: HeaderBlockReader;
	readonly #share: ConnectionShare;
	readonly #budget: FrameBudget;
	/** Bytes of the preface received so far. */
	#preface = 0;
	readonly #settings = new PeerSettings();
	#settingsCame = false;
	#settingsAcknowledged = false;
	/** Stream of the current DATA frame; `undefined`: its payload is dropped. */
	#dataStream: Stream | undefined;
	/** Bytes of its data so far. */
	#dataBytes = 0;
	/** Monotonic milliseconds of this read. */
	#now = 0;

	/** @param share charged for received frames. */
	constructor(events: ProtocolEvents, limits: ProtocolLimits, share: ConnectionShare) {
		this.#events = events;
		this.#share = share;
		this.#budget = new FrameBudget(share);
		this.#limits = limits;
		this.output = new Output(
			() => events.onOutput(),
			(bytes) => this.#budget.sent(bytes),
		);
		this.streams = new Streams(this.output, this.#budget, limits.maxConcurrentStreams, events);
		this.#blocks = new HeaderBlockReader(limits.maxHeaderBytes);
		this.#decoder = requestDecoder(limits.maxHeaderBytes);
		this.#requests = new RequestFieldsReader(
			limits.maxHeaderBytes,
			limits.identifiers ?? 'none',
			limits.extendsConnect === true,
		);
	}

	/** Sends our SETTINGS at once (RFC 9113 section 3.4). */
	begin(): void {
		const { maxConcurrentStreams, maxHeaderBytes, extendsConnect } = this.#limits;
		this.output.write(
			settingsFrame([
				...[SETTING.ENABLE_PUSH, 0],
				...[SETTING.MAX_CONCURRENT_STREAMS, maxConcurrentStreams],
				...[SETTING.MAX_HEADER_LIST_SIZE, maxHeaderBytes],
				...(extendsConnect ? [SETTING.ENABLE_CONNECT_PROTOCOL, 1] : []),
			]),
		);
		const more = this.streams.fullWindow - INITIAL_WINDOW;
		if (more > 0) this.output.write(windowUpdateFrame(0, more));
	}

	/**
	 * @param now monotonic milliseconds.
	 * @returns how many bytes were taken, at least one: give the rest again when the connection's share allows it.
	 * @throws ConnectionError; then end the connection with `streams.end`.
	 */
	receive(bytes: Buffer, now: number): number {
		if (this.streams.isOver) return bytes.length;
		this.#now = now;
		this.streams.now = now;
		const rest = this.#preface < PREFACE.length ? this.#readPreface(bytes) : bytes;
		return bytes.length - rest.length + (rest.length > 0 ? this.#reader.push(rest, this) : 0);
	}

	get isOverdrawn(): boolean {
		return this.#share.isOverdrawn;
	}

	/** A request has been admitted. */
	earn(): void {
		this.#decoder.earn();
	}

	ping(opaque: string): void {
		this.output.write(pingFrame(opaque, false));
	}

	// --- DATA (RFC 9113 section 6.1). ---

	onDataHead(id: number, length: number): void {
		if (this.streams.isOver) return;
		this.#expectFrame(FRAME.DATA);
		if (id === 0) throw protocolError('DATA on stream 0');
		// The payload always uses up the windows; unwanted bytes are given back at once.
		this.streams.receive(length);
		this.#dataStream = undefined;
		this.#dataBytes = 0;
		const stream = this.streams.receiving(id, 'DATA');
		if (stream === undefined) {
			if (this.streams.isLate(id, length)) this.#budget.lateData(length, this.#now);
			else this.#budget.unknown(length, this.#now);
			return this.streams.giveBackToConnection(length);
		}
		if (length > stream.receiveWindow) {
			this.streams.giveBackToConnection(length);
			return this.streams.fail(stream, CODE.FLOW_CONTROL_ERROR, 'DATA beyond the window');
		}
		stream.receiveWindow -= length;
		stream.held += length;
		stream.paddingDue = length;
		if (stream.unwanted !== undefined) this.#budget.unwantedData(length);
		this.#dataStream = stream;
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
		if (stream.unwanted === undefined) stream.onBody(bytes);
		else this.streams.drop(stream, bytes.length);
	}

	onDataEnd(_id: number, endStream: boolean): void {
		if (this.streams.isOver) return;
		const stream = this.#dataStream;
		this.#budget.data(this.#dataBytes, endStream, this.#now, stream?.isTunnel);
		this.#dataStream = undefined;
		if (stream === undefined || stream.isClosed) return;
		// Padding uses up the window, and only the proxy consumes it.
		const padding = stream.paddingDue;
		stream.paddingDue = 0;
		if (padding > 0 && stream.unwanted === undefined) this.streams.release(stream, padding);
		else if (padding > 0) this.streams.drop(stream, padding);
		if (stream.isClosed) return;
		if (endStream) this.#endBody(stream);
	}

	#endBody(stream: Stream, trailers?: Trailers): void {
		// RFC 9113 section 8.1.1.
		if (stream.declaredLength >= 0 && stream.received !== stream.declaredLength) {
			return this.streams.fail(stream, CODE.PROTOCOL_ERROR, OTHER_LENGTH);
		}
		this.streams.onRequestEnd(stream, trailers);
	}

	// --- All other frames. ---

	onFrame(type: number, flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		if (this.streams.isOver) return;
		this.#expectFrame(type, (flags & FLAG.ACK) !== 0);
		switch (type) {
			case FRAME.HEADERS:
				return this.#onHeaders(flags, id, bytes, from, to);
			case FRAME.CONTINUATION:
				return this.#onContinuation(flags, id, bytes, from, to);
			case FRAME.PRIORITY:
				return this.#onPriority(id, bytes, from, to);
			case FRAME.RST_STREAM:
				return this.#onRstStream(id, to - from);
			case FRAME.SETTINGS:
				return this.#onSettings(flags, id, bytes, from, to);
			case FRAME.PUSH_PROMISE:
				throw protocolError('PUSH_PROMISE from a client');
			case FRAME.PING:
				return this.#onPing(flags, id, bytes, from, to);
			case FRAME.GOAWAY:
				return this.#onGoaway(id, bytes, from, to);
			case FRAME.WINDOW_UPDATE:
				return this.#onWindowUpdate(id, bytes, from, to);
		}
		// Section 5.5: unknown types are ignored.
		this.#budget.unknown(to - from, this.#now);
	}

	/** Section 3.4: SETTINGS first. Section 6.10: no other frame within a header block. */
	#expectFrame(type: number, isAck = false): void {
		if (!this.#settingsCame) {
			if (type !== FRAME.SETTINGS || isAck)
				throw new ConnectionError(CODE.PROTOCOL_ERROR, 'preface', 'the first frame is not SETTINGS');
			this.#settingsCame = true;
		}
		if (this.#blocks.isOpen && type !== FRAME.CONTINUATION) throw protocolError('a frame inside a header block');
	}

	#onHeaders(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		// Section 5.1.1.
		if (id === 0 || (id & 1) === 0) throw protocolError('HEADERS on a stream that a client cannot open');
		if (this.#blocks.begin(flags, id, bytes, from, to)) this.#onBlock(id);
	}

	#onContinuation(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		if (this.#blocks.goOn(flags, id, bytes, from, to)) this.#onBlock(id);
	}

	/** The block is always decoded: the tables must agree (RFC 7541 section 2.2). */
	#onBlock(id: number): void {
		const { bytes, from, to, endStream } = this.#blocks;
		const { made } = this.#decoder;
		const { streams } = this;
		const isHead = streams.isIdle(id);
		const block = this.#decoder.decode(bytes, from, to, endStream, isHead);
		this.#blocks.forget();
		const price = priceOfHead(to - from, block.count, this.#decoder.made - made);
		this.#budget.head(price);
		const isWanted = isHead
			? this.#onRequest(id, block, price)
			: !streams.isDisowned(id) && this.#onTrailers(id, block, price);
		if (!isWanted) this.#budget.vainHead(price, this.#now);
	}

	/** @returns whether it has become a request; otherwise the stream is refused. */
	#onRequest(id: number, block: HeaderBlock<RequestField>, price: number): boolean {
		const { streams } = this;
		const { endStream, dependsOnItself } = this.#blocks;
		const { maxConcurrentStreams, maxHeaderBytes } = this.#limits;
		streams.take(id);
		if (streams.size >= maxConcurrentStreams) return this.#refuseStream(id);
		if (dependsOnItself) return this.#refuseMalformed(id, CODE.PROTOCOL_ERROR, DEPENDS_ON_ITSELF);
		if (block.count > maxFieldsOf(maxHeaderBytes)) {
			return this.#refuseMalformed(id, CODE.ENHANCE_YOUR_CALM, 'too many fields');
		}
		const facts = this.#requests.read(block, endStream);
		if (typeof facts === 'string') return this.#refuseMalformed(id, CODE.PROTOCOL_ERROR, facts);
		const stream = this.#events.onRequest(id, facts, endStream, streams.sendWindow);
		stream.headPrice = price;
		streams.add(stream);
		return true;
	}

	#refuseMalformed(id: number, code: number, what: string): false {
		this.#events.onMalformed(what, code);
		this.streams.refuse(id, code);
		return false;
	}

	/** Trailers (section 8.1), or a header block on a stream that takes none. @returns whether they have ended a request. */
	#onTrailers(id: number, block: HeaderBlock<RequestField>, price: number): boolean {
		if (this.streams.isUnknown(id)) throw protocolError('a stream identifier below an earlier one');
		const open = this.streams.receiving(id, 'HEADERS');
		if (open === undefined) return false;
		const { endStream, dependsOnItself } = this.#blocks;
		// A block over a limit is incomplete.
		if (block.fields.length !== block.count) this.streams.fail(open, CODE.ENHANCE_YOUR_CALM, 'too many fields');
		else if (endStream && !dependsOnItself && areTrailers(block)) {
			this.#budget.trailers(price, block.bytes, open);
			this.#endBody(open, trailersOf(block));
		} else this.streams.fail(open, CODE.PROTOCOL_ERROR, 'malformed trailers');
		return true;
	}

	/** Section 5.1.2. A client that knows the limit is at fault; one that cannot know it yet may try again. */
	#refuseStream(id: number): false {
		if (this.#settingsAcknowledged) {
			throw new ConnectionError(CODE.PROTOCOL_ERROR, 'stream-limit', 'more streams than allowed');
		}
		this.streams.refuse(id, CODE.REFUSED_STREAM);
		return false;
	}

	/** Section 5.3.1 of RFC 7540: a stream that depends on itself is an error, although priorities are obsolete. */
	#onPriority(id: number, bytes: Buffer, from: number, to: number): void {
		this.#budget.take(ControlCosts.priority, this.#now);
		if (id === 0) throw protocolError('PRIORITY on stream 0');
		// An error of the stream (section 6.3) even if its length is wrong.
		if (to - from !== 5) this.streams.failAt(id, CODE.FRAME_SIZE_ERROR, 'PRIORITY of a wrong length');
		else if (uint31At(bytes, from) === id) this.streams.failAt(id, CODE.PROTOCOL_ERROR, DEPENDS_ON_ITSELF);
	}

	#onRstStream(id: number, length: number): void {
		if (length !== 4) throw sizeError('RST_STREAM of a wrong length');
		this.#budget.take(ControlCosts.reset, this.#now);
		if (id === 0 || this.streams.isIdle(id)) throw protocolError('RST_STREAM on an idle stream');
		this.streams.resetByClient(id);
	}

	#onSettings(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		if (id !== 0) throw protocolError('SETTINGS on a stream');
		if ((flags & FLAG.ACK) !== 0) {
			if (to !== from) throw sizeError('SETTINGS acknowledgement with a payload');
			if (this.#settingsAcknowledged) throw protocolError('an acknowledgement of SETTINGS that were not sent');
			this.#settingsAcknowledged = true;
			return;
		}
		this.#budget.take(ControlCosts.settings, this.#now);
		this.#settings.read(bytes, from, to);
		this.output.write(SETTINGS_ACK);
		this.streams.setSendWindow(this.#settings.window);
	}

	/** Section 6.7. An acknowledgement without a ping is ignored. */
	#onPing(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		if (id !== 0) throw protocolError('PING on a stream');
		if (to - from !== 8) throw sizeError('PING of a wrong length');
		this.#budget.take(ControlCosts.ping, this.#now);
		const opaque = bytes.toString('latin1', from, to);
		if ((flags & FLAG.ACK) !== 0) this.#events.onPong(opaque);
		else this.output.write(pingFrame(opaque, true));
	}

	#onGoaway(id: number, bytes: Buffer, from: number, to: number): void {
		if (id !== 0) throw protocolError('GOAWAY on a stream');
		if (to - from < 8) throw sizeError('GOAWAY of a wrong length');
		this.#budget.take(ControlCosts.goaway, this.#now);
		if (uint32At(bytes, from + 4) !== CODE.NO_ERROR) {
			throw new ConnectionError(CODE.NO_ERROR, 'client-error', 'the client has ended the connection with an error');
		}
		this.#events.onGoodbye();
	}

	#onWindowUpdate(id: number, bytes: Buffer, from: number, to: number): void {
		if (to - from !== 4) throw sizeError('WINDOW_UPDATE of a wrong length');
		this.#budget.take(ControlCosts.windowUpdate, this.#now);
		const increment = uint31At(bytes, from);
		if (id === 0) {
			if (increment === 0) throw protocolError('WINDOW_UPDATE of 0');
			this.output.window += increment;
			if (this.output.window > MAX_WINDOW) {
				throw flowError('a window above 2^31-1');
			}
			return this.output.pump();
		}
		if (this.streams.isIdle(id)) throw protocolError('WINDOW_UPDATE on an idle stream');
		const stream = this.streams.get(id);
		if (stream === undefined) return;
		if (increment === 0) return this.streams.fail(stream, CODE.PROTOCOL_ERROR, 'WINDOW_UPDATE of 0');
		if (stream.sendWindow + increment > MAX_WINDOW) {
			return this.streams.fail(stream, CODE.FLOW_CONTROL_ERROR, 'a window above 2^31-1');
		}
		stream.sendWindow += increment;
		stream.resumeSending();
		this.output.pump();
	}

	/** @returns the bytes after it. */
	#readPreface(bytes: Buffer): Buffer {
		const length = Math.min(PREFACE.length - this.#preface, bytes.length);
		if (bytes.toString('latin1', 0, length) !== PREFACE.slice(this.#preface, this.#preface + length)) {
			throw new ConnectionError(CODE.PROTOCOL_ERROR, 'preface', 'no HTTP/2 preface');
		}
		this.#preface += length;
		return bytes.subarray(length);
	}
}

const DEPENDS_ON_ITSELF = 'a stream that depends on itself';
const OTHER_LENGTH = 'a body whose length differs from content-length';
