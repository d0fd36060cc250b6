import { ClosedStreams, ENDED, FORGOTTEN, RESET_BY_CLIENT, RESET_BY_US } from './closed-streams.ts';
import { ConnectionError } from './errors.ts';
import { ControlCosts, FrameBudget } from './frame-budget.ts';
import {
	CODE,
	FLAG,
	FRAME,
	goawayFrame,
	INITIAL_WINDOW,
	MAX_STREAM_ID,
	MAX_WINDOW,
	PREFACE,
	pingFrame,
	rstStreamFrame,
	SETTING,
	SETTINGS_ACK,
	settingsFrame,
	windowUpdateFrame,
} from './frame-format.ts';
import { endWithoutPadding, FrameReader, type FrameSink, uint31At, uint32At } from './frame-reader.ts';
import { HeaderBlockReader } from './header-block-reader.ts';
import type { HeaderBlock, HpackDecoder } from './hpack-decoder.ts';
import { NO_DYNAMIC_TABLE } from './hpack-encoder.ts';
import { Output } from './output.ts';
import { readSettings } from './peer-settings.ts';
import {
	areTrailers,
	maxFieldsOf,
	type RequestFacts,
	type RequestField,
	requestDecoder,
	requestFacts,
} from './request-fields.ts';
import type { Stream, StreamOwner } from './stream.ts';
import { StreamTable } from './stream-table.ts';

/** What the protocol asks of the one who has the socket. */
export interface ProtocolEvents {
	/** A request has been understood, or refused for reasons that deserve an answer. @returns its stream. */
	onRequest(id: number, facts: RequestFacts, endStream: boolean, sendWindow: number): Stream;
	/** There is something to take from `output`. */
	onOutput(): void;
	/** An acknowledgement of a ping of ours. @param opaque its 8 bytes. */
	onPong(opaque: string): void;
	/** The client says goodbye: no more streams are to be taken. */
	onGoodbye(): void;
	/** The last stream is gone, and there are to be no more. */
	onFinished(): void;
}

export interface ProtocolLimits {
	readonly maxConcurrentStreams: number;
	readonly maxHeaderBytes: number;
	/** As for `readHttp2Head`. */
	readonly traced?: boolean;
}

/**
 * The server's side of an HTTP/2 connection (RFC 9113 sections 3.4 to 8), without I/O and without a clock: bytes and times
 * come in, frames are put together in `output`, requests go out as events.
 */
export class Protocol implements FrameSink, StreamOwner {
	readonly output: Output;
	readonly #events: ProtocolEvents;
	readonly #limits: ProtocolLimits;
	readonly #reader = new FrameReader();
	readonly #decoder: HpackDecoder<RequestField>;
	readonly #blocks = new HeaderBlockReader();
	readonly #streams = new StreamTable<Stream>();
	readonly #closed = new ClosedStreams();
	readonly #budget = new FrameBudget();
	/** Bytes of the preface that have come. */
	#preface = 0;
	#settingsCame = false;
	#settingsAcknowledged = false;
	#hasSentBlock = false;
	/** The streams' windows at first, as the client has set them. */
	#sendWindow = INITIAL_WINDOW;
	/** What we allow the client to send on the connection, and what has been taken since it was last told, bytes. */
	#receiveWindow: number;
	#owed = 0;
	readonly #fullWindow: number;
	/** Highest stream that the client has opened, and highest that is served. */
	#lastStream = 0;
	#lastServed = MAX_STREAM_ID;
	/** Of the DATA frame whose payload is coming; `undefined`: it is dropped. */
	#dataStream: Stream | undefined;
	/** Monotonic milliseconds of this read. */
	#now = 0;
	/** Nothing is read any more. */
	isOver = false;

	constructor(events: ProtocolEvents, limits: ProtocolLimits) {
		this.#events = events;
		this.#limits = limits;
		this.output = new Output(
			() => events.onOutput(),
			(bytes) => this.#budget.sent(bytes),
		);
		this.#decoder = requestDecoder(limits.maxHeaderBytes);
		// Room for all streams at once, so that none can take another one's: what bounds a body is its stream's window.
		this.#fullWindow = Math.min(MAX_WINDOW, Math.max(INITIAL_WINDOW, limits.maxConcurrentStreams * INITIAL_WINDOW));
		this.#receiveWindow = this.#fullWindow;
	}

	/** Open streams. */
	get size(): number {
		return this.#streams.size;
	}

	/** RFC 9113 section 3.4: our SETTINGS, at once. */
	begin(): void {
		const { maxConcurrentStreams, maxHeaderBytes } = this.#limits;
		this.output.write(
			settingsFrame([
				...[SETTING.ENABLE_PUSH, 0],
				...[SETTING.MAX_CONCURRENT_STREAMS, maxConcurrentStreams],
				...[SETTING.MAX_HEADER_LIST_SIZE, maxHeaderBytes],
			]),
		);
		const more = this.#fullWindow - INITIAL_WINDOW;
		if (more > 0) this.output.write(windowUpdateFrame(0, more));
	}

	/**
	 * @param now monotonic milliseconds.
	 * @throws ConnectionError; the connection is to be ended with `fail`.
	 */
	receive(bytes: Buffer, now: number): void {
		if (this.isOver) return;
		this.#now = now;
		const rest = this.#preface < PREFACE.length ? this.#readPreface(bytes) : bytes;
		if (rest.length > 0) this.#reader.push(rest, this);
	}

	/** Ends the connection with an error. All streams are gone; what is in `output` may still go out. */
	fail(code: number): void {
		if (this.isOver) return;
		this.isOver = true;
		this.output.write(goawayFrame(this.#lastStream, code));
		this.closeStreams();
	}

	/** The connection is gone, or about to be. */
	closeStreams(): void {
		this.isOver = true;
		this.#streams.forEach((stream) => {
			this.#close(stream, RESET_BY_US);
		});
	}

	ping(opaque: string): void {
		this.output.write(pingFrame(opaque, false));
	}

	/** RFC 9113 section 6.8: says that the connection is about to end. Streams on their way are still served. */
	announceEnd(): void {
		this.output.write(goawayFrame(MAX_STREAM_ID, CODE.NO_ERROR));
	}

	/** Says which stream was the last one. Whatever comes behind it is not served, and may be sent elsewhere. */
	finish(): void {
		if (this.#lastServed !== MAX_STREAM_ID || this.isOver) return;
		this.#lastServed = this.#lastStream;
		this.output.write(goawayFrame(this.#lastStream, CODE.NO_ERROR));
		if (this.#streams.size === 0) this.#events.onFinished();
	}

	// --- What streams ask for. ---

	blockPrefix(): string {
		if (this.#hasSentBlock) return '';
		this.#hasSentBlock = true;
		return NO_DYNAMIC_TABLE;
	}

	/** RFC 9113 section 8.1: after a whole answer, the rest of the request is asked to stay away without an error. */
	onAnswerEnd(stream: Stream): void {
		if (stream.isRemoteOpen) this.output.write(rstStreamFrame(stream.id, CODE.NO_ERROR));
		this.#remove(stream, stream.isRemoteOpen ? RESET_BY_US : ENDED);
		stream.onAnswerSent();
	}

	reset(stream: Stream, code: number): void {
		if (stream.isClosed) return;
		this.output.write(rstStreamFrame(stream.id, code));
		this.#close(stream, RESET_BY_US);
	}

	/** Windows are opened when half of them has been taken: a frame for every piece would cost more than the piece. */
	giveBack(stream: Stream, bytes: number): void {
		// What a closed stream held has been given back with it.
		if (stream.isClosed) return;
		stream.held -= bytes;
		this.#giveBackToConnection(bytes);
		if (!stream.isRemoteOpen) return;
		stream.owed += bytes;
		if (stream.owed < INITIAL_WINDOW / 2) return;
		stream.receiveWindow += stream.owed;
		this.output.write(windowUpdateFrame(stream.id, stream.owed));
		stream.owed = 0;
	}

	#giveBackToConnection(bytes: number): void {
		this.#owed += bytes;
		if (this.#owed < this.#fullWindow / 2 || this.isOver) return;
		this.#receiveWindow += this.#owed;
		this.output.write(windowUpdateFrame(0, this.#owed));
		this.#owed = 0;
	}

	// --- DATA (RFC 9113 section 6.1). ---

	onDataHead(id: number, length: number, endStream: boolean): void {
		if (this.isOver) return;
		this.#expectFrame(FRAME.DATA);
		if (id === 0) throw protocolError('DATA on stream 0');
		// What its payload takes of the windows, whatever becomes of it; bodies that nobody wants are given back at once.
		if (length > this.#receiveWindow)
			throw new ConnectionError(CODE.FLOW_CONTROL_ERROR, 'flow-control', 'DATA beyond the window');
		this.#receiveWindow -= length;
		this.#budget.data(length, endStream, this.#now);
		const stream = this.#streamOf(id, 'DATA');
		this.#dataStream = undefined;
		if (stream === undefined) return this.#giveBackToConnection(length);
		if (length > stream.receiveWindow) {
			this.#giveBackToConnection(length);
			return this.#streamError(stream, CODE.FLOW_CONTROL_ERROR);
		}
		stream.receiveWindow -= length;
		stream.held += length;
		stream.paddingDue = length;
		this.#dataStream = stream;
	}

	onDataBytes(_id: number, bytes: Buffer): void {
		const stream = this.#dataStream;
		if (stream === undefined || stream.isClosed) return;
		stream.received += bytes.length;
		stream.paddingDue -= bytes.length;
		if (stream.declaredLength >= 0 && stream.received > stream.declaredLength) {
			return this.#streamError(stream, CODE.PROTOCOL_ERROR);
		}
		stream.onBody(bytes);
	}

	onDataEnd(_id: number, endStream: boolean): void {
		const stream = this.#dataStream;
		this.#dataStream = undefined;
		if (stream === undefined || stream.isClosed) return;
		// Padding takes of the window what it has, and nobody but us takes it.
		if (stream.paddingDue > 0) this.giveBack(stream, stream.paddingDue);
		stream.paddingDue = 0;
		if (endStream) this.#endBody(stream);
	}

	#endBody(stream: Stream): void {
		// RFC 9113 section 8.1.1.
		if (stream.declaredLength >= 0 && stream.received !== stream.declaredLength) {
			return this.#streamError(stream, CODE.PROTOCOL_ERROR);
		}
		stream.isRemoteOpen = false;
		stream.onBodyEnd();
	}

	// --- All other frames. ---

	onFrame(type: number, flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		if (this.isOver) return;
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
		// Section 5.5: types that nobody knows are ignored.
		this.#budget.take(ControlCosts.unknown, this.#now);
	}

	/** Section 3.4: SETTINGS first. Section 6.10: between the frames of a header block nothing else. */
	#expectFrame(type: number, isAck = false): void {
		if (!this.#settingsCame) {
			if (type !== FRAME.SETTINGS || isAck)
				throw new ConnectionError(CODE.PROTOCOL_ERROR, 'preface', 'no SETTINGS first');
			this.#settingsCame = true;
		}
		if (this.#blocks.isOpen && type !== FRAME.CONTINUATION) throw protocolError('a frame inside of a header block');
	}

	#onHeaders(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		// Section 5.1.1.
		if (id === 0 || (id & 1) === 0) throw protocolError('HEADERS on a stream that no client opens');
		let begin = from;
		let end = to;
		if ((flags & FLAG.PADDED) !== 0) {
			end = endWithoutPadding(bytes, from, to);
			begin++;
		}
		let dependsOnItself = false;
		if ((flags & FLAG.PRIORITY) !== 0) {
			if (end - begin < 5)
				throw new ConnectionError(CODE.FRAME_SIZE_ERROR, 'frame-size', 'HEADERS without its priority');
			dependsOnItself = uint31At(bytes, begin) === id;
			begin += 5;
		}
		const endStream = (flags & FLAG.END_STREAM) !== 0;
		if ((flags & FLAG.END_HEADERS) === 0) return this.#blocks.begin(id, endStream, dependsOnItself, bytes, begin, end);
		this.#onBlock(id, endStream, dependsOnItself, this.#decoder.decode(bytes, begin, end));
	}

	#onContinuation(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		const blocks = this.#blocks;
		blocks.add(id, bytes, from, to);
		if ((flags & FLAG.END_HEADERS) === 0) return;
		const { endStream, dependsOnItself } = blocks;
		const block = blocks.take();
		this.#onBlock(id, endStream, dependsOnItself, this.#decoder.decode(block, 0, block.length));
	}

	/** The block has been decoded whatever is done with it: the tables must agree (RFC 7541 section 2.2). */
	#onBlock(id: number, endStream: boolean, dependsOnItself: boolean, block: HeaderBlock<RequestField>): void {
		if (id <= this.#lastStream) return this.#onLaterBlock(id, endStream, dependsOnItself, block);
		// Behind the last stream that a GOAWAY has named.
		if (id > this.#lastServed) return;
		this.#lastStream = id;
		if (this.#streams.size >= this.#limits.maxConcurrentStreams) return this.#refuseStream(id);
		if (dependsOnItself) return this.#refuse(id, CODE.PROTOCOL_ERROR);
		if (block.count > maxFieldsOf(this.#limits.maxHeaderBytes)) return this.#refuse(id, CODE.ENHANCE_YOUR_CALM);
		const facts = requestFacts(block, endStream, this.#limits.maxHeaderBytes, this.#limits.traced === true);
		if (facts === undefined) return this.#refuse(id, CODE.PROTOCOL_ERROR);
		this.#streams.set(id, this.#events.onRequest(id, facts, endStream, this.#sendWindow));
	}

	/** Trailers (section 8.1), or a header block on a stream that takes none. */
	#onLaterBlock(id: number, endStream: boolean, dependsOnItself: boolean, block: HeaderBlock<RequestField>): void {
		const stream = this.#streams.get(id);
		if (stream === undefined && this.#closed.how(id) === FORGOTTEN)
			throw protocolError('a stream below the highest one');
		const open = this.#streamOf(id, 'HEADERS');
		if (open === undefined) return;
		// What is not all there cannot be judged; it would be dropped in any case.
		if (block.fields.length !== block.count) return this.#streamError(open, CODE.ENHANCE_YOUR_CALM);
		if (!endStream || dependsOnItself || !areTrailers(block)) return this.#streamError(open, CODE.PROTOCOL_ERROR);
		this.#endBody(open);
	}

	/** Section 5.1.2. A client that knows the limit has no excuse; one that cannot know it yet may try again. */
	#refuseStream(id: number): void {
		if (this.#settingsAcknowledged) {
			throw new ConnectionError(CODE.PROTOCOL_ERROR, 'stream-limit', 'more streams than allowed');
		}
		this.#refuse(id, CODE.REFUSED_STREAM);
	}

	/** Section 5.3.1 of RFC 7540: a stream on itself is an error, though priorities mean nothing any more. */
	#onPriority(id: number, bytes: Buffer, from: number, to: number): void {
		this.#budget.take(ControlCosts.priority, this.#now);
		if (id === 0) throw protocolError('PRIORITY on stream 0');
		// An error of the stream (section 6.3) even where its length is wrong.
		if (to - from !== 5) this.#streamErrorAt(id, CODE.FRAME_SIZE_ERROR, 'PRIORITY of a wrong length');
		else if (uint31At(bytes, from) === id)
			this.#streamErrorAt(id, CODE.PROTOCOL_ERROR, 'a stream that depends on itself');
	}

	#onRstStream(id: number, length: number): void {
		if (length !== 4) throw new ConnectionError(CODE.FRAME_SIZE_ERROR, 'frame-size', 'RST_STREAM of a wrong length');
		this.#budget.take(ControlCosts.reset, this.#now);
		if (id === 0 || id > this.#lastStream) {
			// Behind a GOAWAY streams are opened that we do not follow.
			if (id > this.#lastServed && (id & 1) === 1) return;
			throw protocolError('RST_STREAM on an idle stream');
		}
		const stream = this.#streams.get(id);
		if (stream === undefined) return;
		this.#budget.reset(this.#now);
		this.#close(stream, RESET_BY_CLIENT);
	}

	#onSettings(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		if (id !== 0) throw protocolError('SETTINGS on a stream');
		if ((flags & FLAG.ACK) !== 0) {
			if (to !== from)
				throw new ConnectionError(CODE.FRAME_SIZE_ERROR, 'frame-size', 'SETTINGS that acknowledge and say more');
			if (this.#settingsAcknowledged) throw protocolError('an acknowledgement of nothing');
			this.#settingsAcknowledged = true;
			return;
		}
		this.#budget.take(ControlCosts.settings, this.#now);
		const window = readSettings(bytes, from, to, this.#sendWindow);
		this.output.write(SETTINGS_ACK);
		const change = window - this.#sendWindow;
		this.#sendWindow = window;
		if (change !== 0) this.#openWindows(change);
		this.output.pump();
	}

	/** Section 6.9.2. */
	#openWindows(change: number): void {
		this.#streams.forEach((stream) => {
			if (stream.sendWindow + change > MAX_WINDOW) {
				throw new ConnectionError(CODE.FLOW_CONTROL_ERROR, 'flow-control', 'a window opened too far');
			}
			stream.sendWindow += change;
			stream.resumeSending();
		});
	}

	/** Section 6.7. An acknowledgement of a ping that was never sent is nobody's. */
	#onPing(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		if (id !== 0) throw protocolError('PING on a stream');
		if (to - from !== 8) throw new ConnectionError(CODE.FRAME_SIZE_ERROR, 'frame-size', 'PING of a wrong length');
		this.#budget.take(ControlCosts.ping, this.#now);
		const opaque = bytes.toString('latin1', from, to);
		if ((flags & FLAG.ACK) !== 0) this.#events.onPong(opaque);
		else this.output.write(pingFrame(opaque, true));
	}

	#onGoaway(id: number, bytes: Buffer, from: number, to: number): void {
		if (id !== 0) throw protocolError('GOAWAY on a stream');
		if (to - from < 8) throw new ConnectionError(CODE.FRAME_SIZE_ERROR, 'frame-size', 'GOAWAY of a wrong length');
		this.#budget.take(ControlCosts.goaway, this.#now);
		if (uint32At(bytes, from + 4) !== CODE.NO_ERROR) {
			throw new ConnectionError(CODE.NO_ERROR, 'client-error', 'the client has ended the connection with an error');
		}
		this.#events.onGoodbye();
	}

	#onWindowUpdate(id: number, bytes: Buffer, from: number, to: number): void {
		if (to - from !== 4)
			throw new ConnectionError(CODE.FRAME_SIZE_ERROR, 'frame-size', 'WINDOW_UPDATE of a wrong length');
		this.#budget.take(ControlCosts.windowUpdate, this.#now);
		const increment = uint31At(bytes, from);
		if (id === 0) {
			if (increment === 0) throw protocolError('WINDOW_UPDATE by nothing');
			this.output.window += increment;
			if (this.output.window > MAX_WINDOW) {
				throw new ConnectionError(CODE.FLOW_CONTROL_ERROR, 'flow-control', 'a window opened too far');
			}
			return this.output.pump();
		}
		const stream = this.#streams.get(id);
		if (stream === undefined) {
			if (id > this.#lastStream && id <= this.#lastServed) throw protocolError('WINDOW_UPDATE on an idle stream');
			return;
		}
		if (increment === 0) return this.#streamError(stream, CODE.PROTOCOL_ERROR);
		if (stream.sendWindow + increment > MAX_WINDOW) return this.#streamError(stream, CODE.FLOW_CONTROL_ERROR);
		stream.sendWindow += increment;
		stream.resumeSending();
		this.output.pump();
	}

	// --- Streams. ---

	/**
	 * The stream of a DATA or HEADERS frame, if it still takes them (RFC 9113 section 5.1).
	 *
	 * @returns `undefined` where the frame is to be ignored. @throws ConnectionError
	 */
	#streamOf(id: number, what: 'DATA' | 'HEADERS'): Stream | undefined {
		const stream = this.#streams.get(id);
		if (stream !== undefined) {
			if (stream.isRemoteOpen) return stream;
			// "half-closed (remote)".
			this.#streamError(stream, CODE.STREAM_CLOSED);
			return undefined;
		}
		if (id > this.#lastServed) return undefined;
		if (id > this.#lastStream || (id & 1) === 0) throw protocolError(`${what} on an idle stream`);
		const how = this.#closed.how(id);
		if (how === RESET_BY_US) return undefined;
		if (how === RESET_BY_CLIENT) {
			this.#budget.reset(this.#now);
			this.output.write(rstStreamFrame(id, CODE.STREAM_CLOSED));
			return undefined;
		}
		throw new ConnectionError(CODE.STREAM_CLOSED, 'stream-closed', `${what} on a stream that has ended`);
	}

	/** Refuses a stream that has only just been opened. */
	#refuse(id: number, code: number): void {
		this.#budget.reset(this.#now);
		this.#closed.add(id, RESET_BY_US);
		this.output.write(rstStreamFrame(id, code));
	}

	/** Section 5.4.2. The client has provoked it (CVE-2025-8671), so it counts like a reset of the client's own. */
	#streamError(stream: Stream, code: number): void {
		this.#budget.reset(this.#now);
		this.reset(stream, code);
	}

	/** An error of a stream that need not be open; where it never was, no RST_STREAM may name it (section 6.4). */
	#streamErrorAt(id: number, code: number, what: string): void {
		const stream = this.#streams.get(id);
		if (stream !== undefined) return this.#streamError(stream, code);
		if (id > this.#lastStream)
			throw new ConnectionError(code, code === CODE.FRAME_SIZE_ERROR ? 'frame-size' : 'protocol', what);
		this.#budget.reset(this.#now);
		this.output.write(rstStreamFrame(id, code));
	}

	#close(stream: Stream, how: number): void {
		this.#remove(stream, how);
		stream.onGone();
	}

	#remove(stream: Stream, how: number): void {
		stream.isClosed = true;
		stream.isRemoteOpen = false;
		stream.isLocalOpen = false;
		stream.dropPending();
		this.#streams.delete(stream.id);
		this.#closed.add(stream.id, how);
		// What it held of the connection's window.
		if (stream.held > 0) this.#giveBackToConnection(stream.held);
		stream.held = 0;
		if (how === ENDED) this.#budget.answered();
		if (this.#streams.size === 0 && this.#lastServed !== MAX_STREAM_ID && !this.isOver) this.#events.onFinished();
	}

	/** @returns what follows it. */
	#readPreface(bytes: Buffer): Buffer {
		const length = Math.min(PREFACE.length - this.#preface, bytes.length);
		if (bytes.toString('latin1', 0, length) !== PREFACE.slice(this.#preface, this.#preface + length)) {
			throw new ConnectionError(CODE.PROTOCOL_ERROR, 'preface', 'no HTTP/2 preface');
		}
		this.#preface += length;
		return bytes.subarray(length);
	}
}

function protocolError(what: string): ConnectionError {
	return new ConnectionError(CODE.PROTOCOL_ERROR, 'protocol', what);
}
