import { UNDECLARED } from '../../gates/body-limit.ts';
import { ClosedStreams, ENDED, RESET_BY_US } from '../closed-streams.ts';
import { ConnectionError, flowError, protocolError, sizeError } from '../errors.ts';
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
} from '../frame-format.ts';
import { FrameReader, type FrameSink, uint31At, uint32At } from '../frame-reader.ts';
import { priceOfHead } from '../head-price.ts';
import { HeaderBlockReader } from '../header-block-reader.ts';
import type { HeaderBlock, HpackDecoder } from '../hpack-decoder.ts';
import { NO_DYNAMIC_TABLE } from '../hpack-encoder.ts';
import { Output } from '../output.ts';
import { PeerSettings } from '../peer-settings.ts';
import { StreamTable } from '../stream-table.ts';
import type { ClientStream, StreamEnd } from './client-stream.ts';
import { type ReceivedField, readResponse, readTrailers, responseDecoder } from './response-fields.ts';
import { COSTS, ServerBudget, type ThreadShare } from './server-budget.ts';

/** Events that the protocol reports to the owner of the socket. */
export interface ClientEvents {
	/** `output` has frames to send. */
	onOutput(): void;
	/** SETTINGS of the server have arrived, the first or later ones. */
	onSettings(): void;
	/** A stream has ended, but not because the connection did. */
	onStreamEnd(): void;
	/** The server accepts no more streams. */
	onGoaway(): void;
	/** The server has acknowledged a PING. */
	onPong(): void;
	/** The share has lent tokens for the first time in this turn of the event loop. */
	onLent(): void;
}

interface ClientLimits {
	/** Streams at once, even if the server allows more. */
	readonly maxStreams: number;
	/** Streams at once before the server's SETTINGS. */
	readonly untoldStreams: number;
	/** Receive window of each stream, bytes. */
	readonly window: number;
	/** Limit of the names and values of a head, bytes. */
	readonly maxHeaderBytes: number;
}

/**
 * The client's side of an HTTP/2 connection (RFC 9113 sections 3.4 to 8), without I/O and without a clock: the owner passes in
 * bytes and times, `output` collects frames, and responses go to their streams. The server is trusted only with its own responses:
 * everything unsolicited is an error or costs tokens of a bounded budget.
 */
export class ClientProtocol implements FrameSink {
	readonly output: Output;
	readonly settings = new PeerSettings(true);
	/** The server's first SETTINGS have arrived: it speaks HTTP/2. */
	isGreeted = false;
	/** No more streams may be opened: the server has sent GOAWAY, the identifiers are used up, or the owner has retired the connection. */
	isGoingAway = false;
	/** The connection has ended or is about to end. */
	isOver = false;
	/** Streams that this side has reset: servers tolerate a limited number (CVE-2023-44487). */
	resets = 0;
	/** Bytes of acknowledgements written for the server. The owner of the socket resets it when the socket's buffer is empty. */
	acknowledged = 0;
	readonly #events: ClientEvents;
	readonly #limits: ClientLimits;
	readonly #reader = new FrameReader();
	readonly #decoder: HpackDecoder<ReceivedField>;
	readonly #blocks: HeaderBlockReader;
	readonly #share: ThreadShare;
	readonly #budget: ServerBudget;
	readonly #streams = new StreamTable<ClientStream>();
	readonly #closed = new ClosedStreams(REMEMBERED_RESETS);
	#nextId = 1;
	#hasSentBlock = false;
	#settingsAcknowledged = false;
	/** The full receive window of the connection, bytes. */
	readonly #fullWindow: number;
	#receiveWindow: number;
	#owed = 0;
	/** Since when the connection's send window has been empty, monotonic milliseconds; `undefined`: it is open. */
	#emptySince: number | undefined;
	/** Stream of the DATA frame that is being received; `undefined`: its payload is dropped. */
	#dataStream: ClientStream | undefined;
	/** Bytes of the frame's data so far. */
	#dataBytes = 0;
	/** Time of the current read, monotonic milliseconds. */
	#now = 0;

	constructor(events: ClientEvents, limits: ClientLimits, share: ThreadShare) {
		this.#events = events;
		this.#share = share;
		this.#budget = new ServerBudget(share);
		this.#limits = limits;
		this.output = new Output(
			() => events.onOutput(),
			(bytes) => this.#budget.earn(COSTS.earnedByUpload + bytes / COSTS.bytesPerToken),
		);
		this.#decoder = responseDecoder(limits.maxHeaderBytes);
		this.#blocks = new HeaderBlockReader(limits.maxHeaderBytes);
		// Room for the windows of all streams, so that a stream with a slow client does not block the others. Twice that, since up to
		// half may be consumed and not yet returned to the server.
		this.#fullWindow = Math.min(MAX_WINDOW, 2 * limits.maxStreams * limits.window);
		this.#receiveWindow = this.#fullWindow;
	}

	/** Section 3.4: writes the preface and the client's SETTINGS. */
	begin(): void {
		const { window, maxHeaderBytes } = this.#limits;
		this.output.write(
			PREFACE +
				settingsFrame([
					...[SETTING.ENABLE_PUSH, 0],
					...[SETTING.INITIAL_WINDOW_SIZE, window],
					...[SETTING.MAX_HEADER_LIST_SIZE, maxHeaderBytes],
				]) +
				windowUpdateFrame(0, this.#fullWindow - INITIAL_WINDOW),
		);
	}

	/** For the frame reader: the next frames must wait. */
	get isOverdrawn(): boolean {
		return this.#share.isOverdrawn;
	}

	/** Open streams. */
	get size(): number {
		return this.#streams.size;
	}

	/** Streams that may be open at once. */
	get maxStreams(): number {
		const allowed = this.isGreeted ? this.settings.maxStreams : this.#limits.untoldStreams;
		return Math.min(this.#limits.maxStreams, allowed);
	}

	/** Whether another stream may be opened. */
	get hasRoom(): boolean {
		return !this.isGoingAway && !this.isOver && this.#streams.size < this.maxStreams;
	}

	/** Called by streams with their first frame: identifiers are in that order (section 5.1.1). */
	open(stream: ClientStream): void {
		stream.id = this.#nextId;
		stream.sendWindow = this.settings.window;
		stream.receiveWindow = this.#limits.window;
		this.#nextId += 2;
		// Section 5.1.1: identifiers are not reused.
		if (this.#nextId > MAX_STREAM_ID) this.isGoingAway = true;
		this.#streams.set(stream.id, stream);
	}

	/** Called by streams: the prefix of the connection's first header block; empty for later ones. */
	blockPrefix(): string {
		if (this.#hasSentBlock) return '';
		this.#hasSentBlock = true;
		return NO_DYNAMIC_TABLE;
	}

	/** @param opaque 8 bytes. */
	ping(opaque: string): void {
		this.output.write(pingFrame(opaque, false));
	}

	/**
	 * Bytes have arrived, and their read has been charged to the share. `receive` follows, perhaps later.
	 *
	 * @param isHeld earlier bytes come first, and wait for tokens.
	 */
	onRead(isHeld: boolean): void {
		this.#budget.read(isHeld);
	}

	/**
	 * @param now monotonic milliseconds.
	 * @returns how many bytes were taken; the others must be passed again once the share has tokens.
	 * @throws ConnectionError; then call `end`.
	 */
	receive(bytes: Buffer, now: number): number {
		if (this.isOver) return bytes.length;
		this.#now = now;
		return this.#reader.push(bytes, this);
	}

	// --- DATA (RFC 9113 section 6.1). ---

	onDataHead(id: number, length: number): void {
		if (this.isOver) return;
		this.#expectFrame(FRAME.DATA);
		if (length > this.#receiveWindow) throw flowError('DATA beyond the window');
		this.#receiveWindow -= length;
		this.#dataStream = undefined;
		this.#dataBytes = 0;
		const stream = this.#receiving(id, 'DATA');
		if (stream === undefined) {
			// A server that goes on beyond the window that it had does so in vain.
			if (this.#closed.takesLate(id, length))
				this.#budget.take(COSTS.lateData + length / COSTS.lateDataBytes, this.#now);
			else this.#budget.take(COSTS.unknown + length / COSTS.vainBytes, this.#now);
			return this.#giveBackToConnection(length);
		}
		stream.held += length;
		stream.paddingDue = length;
		if (length > stream.receiveWindow) return this.#fail(stream, CODE.FLOW_CONTROL_ERROR, 'DATA beyond the window');
		stream.receiveWindow -= length;
		if (!stream.hasHead) return this.#fail(stream, CODE.PROTOCOL_ERROR, 'DATA before the head');
		this.#dataStream = stream;
	}

	onDataBytes(_id: number, bytes: Buffer): void {
		this.#dataBytes += bytes.length;
		const stream = this.#dataStream;
		if (stream === undefined || stream.isClosed) return;
		stream.received += bytes.length;
		stream.paddingDue -= bytes.length;
		if (!stream.hasBody) return this.#fail(stream, CODE.PROTOCOL_ERROR, 'a body in a response that cannot have one');
		if (stream.declaredLength >= 0 && stream.received > stream.declaredLength) {
			return this.#fail(stream, CODE.PROTOCOL_ERROR, OTHER_LENGTH);
		}
		stream.onBody(bytes);
	}

	onDataEnd(_id: number, endStream: boolean): void {
		if (this.isOver) return;
		const stream = this.#dataStream;
		this.#dataStream = undefined;
		// Data of open responses pays for the control frames that it causes.
		if (this.#dataBytes > 0 && stream !== undefined) this.#budget.data(this.#dataBytes);
		else if (this.#dataBytes === 0 && !endStream) this.#budget.take(COSTS.emptyData, this.#now);
		if (stream === undefined || stream.isClosed) return;
		// Padding uses up the window as well, and no reader consumes it.
		const padding = stream.paddingDue;
		stream.paddingDue = 0;
		if (padding > 0) this.release(stream, padding);
		if (endStream) this.#endResponse(stream, undefined);
	}

	#endResponse(stream: ClientStream, trailers: readonly string[] | undefined): void {
		// Section 8.1.1.
		if (stream.hasBody && stream.declaredLength >= 0 && stream.received !== stream.declaredLength) {
			return this.#fail(stream, CODE.PROTOCOL_ERROR, OTHER_LENGTH);
		}
		stream.isRemoteOpen = false;
		this.#budget.response();
		this.#decoder.earn();
		// Section 5.1, half-closed: the client's side may go on.
		if (stream.isTunnel && stream.isLocalOpen) return stream.onResponseEnd(undefined);
		// The server answered before the end of the request, and does not need the rest.
		if (stream.isLocalOpen) this.#reset(stream, CODE.NO_ERROR);
		else this.#remove(stream, ENDED);
		stream.onResponseEnd(trailers);
	}

	// --- All other frames. ---

	onFrame(type: number, flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		if (this.isOver) return;
		this.#expectFrame(type, (flags & FLAG.ACK) !== 0);
		switch (type) {
			case FRAME.HEADERS:
				if (this.#blocks.begin(flags, id, bytes, from, to)) this.#onBlock(id);
				return;
			case FRAME.CONTINUATION:
				if (this.#blocks.goOn(flags, id, bytes, from, to)) this.#onBlock(id);
				return;
			case FRAME.RST_STREAM:
				return this.#onRstStream(id, bytes, from, to);
			case FRAME.SETTINGS:
				return this.#onSettings(flags, id, bytes, from, to);
			case FRAME.PING:
				return this.#onPing(flags, id, bytes, from, to);
			case FRAME.GOAWAY:
				return this.#onGoaway(id, bytes, from, to);
			case FRAME.WINDOW_UPDATE:
				return this.#onWindowUpdate(id, bytes, from, to);
			case FRAME.PUSH_PROMISE:
				throw protocolError('PUSH_PROMISE, which the proxy has disabled');
			case FRAME.PRIORITY:
				// Section 6.3: checked, then ignored. The frame is deprecated.
				if (id === 0) throw protocolError('PRIORITY on stream 0');
				if (to - from !== 5) throw sizeError('PRIORITY of a wrong length');
		}
		// Unknown types are ignored (section 5.5).
		this.#budget.take(COSTS.unknown + (to - from) / COSTS.vainBytes, this.#now);
	}

	/** Section 3.4: SETTINGS come first. Section 6.10: no other frame between those of a header block. */
	#expectFrame(type: number, isAck = false): void {
		if (!this.isGreeted && (type !== FRAME.SETTINGS || isAck)) {
			throw new ConnectionError(CODE.PROTOCOL_ERROR, 'preface', NO_HTTP2);
		}
		if (this.#blocks.isOpen && type !== FRAME.CONTINUATION) throw protocolError('a frame inside a header block');
	}

	/** The stream of a DATA or HEADERS frame, if it may still receive them (section 5.1). @returns `undefined`: ignore the frame. */
	#receiving(id: number, what: string): ClientStream | undefined {
		const stream = this.#streams.get(id);
		if (stream !== undefined) {
			if (stream.isRemoteOpen) return stream;
			this.#fail(stream, CODE.STREAM_CLOSED, `${what} after the end of the response`);
			return undefined;
		}
		if ((id & 1) === 0 || id >= this.#nextId) throw protocolError(`${what} on an idle stream`);
		if (this.#closed.how(id) === RESET_BY_US) return undefined;
		throw new ConnectionError(CODE.STREAM_CLOSED, 'stream-closed', `${what} on a stream that has ended`);
	}

	/** Decodes the block even if it is then ignored: both sides' tables must agree (RFC 7541 section 2.2). */
	#onBlock(id: number): void {
		const { bytes, from, to, endStream } = this.#blocks;
		const { made } = this.#decoder;
		const block = this.#decoder.decode(bytes, from, to, endStream);
		this.#blocks.forget();
		const price = priceOfHead(to - from, block.count, this.#decoder.made - made);
		const stream = this.#receiving(id, 'HEADERS');
		if (stream === undefined) return this.#budget.lateHead(price, this.#closed.takesLateHead(id), this.#now);
		if (!stream.hasHead) return this.#onHead(stream, block, endStream, price);
		this.#lend(price);
		// RFC 9113 section 8.5.
		if (stream.isTunnel) this.#fail(stream, CODE.PROTOCOL_ERROR, 'HEADERS in a tunnel');
		else this.#onTrailers(stream, block, endStream);
	}

	/** For work that a request has asked for: the head and the trailers of its response. */
	#lend(tokens: number): void {
		if (this.#share.lend(tokens)) this.#events.onLent();
	}

	#onHead(stream: ClientStream, block: HeaderBlock<ReceivedField>, endStream: boolean, price: number): void {
		const facts = readResponse(block);
		if (typeof facts !== 'string' && facts.status < 200) return this.#onInterim(stream, endStream, price);
		this.#lend(price);
		if (typeof facts === 'string') return this.#fail(stream, CODE.PROTOCOL_ERROR, facts);
		const { status, length } = facts;
		stream.hasHead = true;
		// RFC 9110 section 9.3.6: `content-length` has no meaning here.
		stream.isTunnel = stream.method === 'CONNECT' && status < 300;
		// RFC 9110 sections 9.3.2 and 15.3.5 to 15.4.5.
		const isWithout = stream.method === 'HEAD' || status === 204 || status === 205 || status === 304;
		stream.hasBody = stream.isTunnel || !isWithout;
		stream.declaredLength = stream.hasBody && !stream.isTunnel ? length : UNDECLARED;
		if (endStream && stream.declaredLength > 0) return this.#fail(stream, CODE.PROTOCOL_ERROR, OTHER_LENGTH);
		stream.onResponse(facts, endStream);
		if (endStream && !stream.isClosed) this.#endResponse(stream, undefined);
	}

	#onInterim(stream: ClientStream, endStream: boolean, price: number): void {
		this.#budget.interim(price, stream.interim, this.#now);
		if (endStream) return this.#fail(stream, CODE.PROTOCOL_ERROR, 'interim response that ends the stream');
		if (++stream.interim > MAX_INTERIM) this.#fail(stream, CODE.ENHANCE_YOUR_CALM, 'too many interim responses');
	}

	#onTrailers(stream: ClientStream, block: HeaderBlock<ReceivedField>, endStream: boolean): void {
		const trailers = endStream ? readTrailers(block) : undefined;
		if (trailers === undefined) return this.#fail(stream, CODE.PROTOCOL_ERROR, 'malformed trailers');
		this.#endResponse(stream, trailers.length === 0 ? undefined : trailers);
	}

	#onRstStream(id: number, bytes: Buffer, from: number, to: number): void {
		if (to - from !== 4) throw sizeError('RST_STREAM of a wrong length');
		if ((id & 1) === 0 || id >= this.#nextId) throw protocolError('RST_STREAM on an idle stream');
		const stream = this.#streams.get(id);
		if (stream === undefined) return this.#budget.take(COSTS.lateReset, this.#now);
		const code = uint32At(bytes, from);
		this.#remove(stream, ENDED);
		// Section 8.7.
		if (code === CODE.REFUSED_STREAM && !stream.hasHead) return stream.onClosed(REFUSED);
		const kind = code === CODE.ENHANCE_YOUR_CALM && !stream.hasHead ? 'excessive' : 'reset';
		stream.onClosed({ kind, cause: `stream reset with ${nameOfCode(code)}` });
	}

	#onSettings(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		if (id !== 0) throw protocolError('SETTINGS on a stream');
		if ((flags & FLAG.ACK) !== 0) {
			if (to !== from) throw sizeError('SETTINGS acknowledgement with a payload');
			if (this.#settingsAcknowledged) throw protocolError('an acknowledgement of SETTINGS that were not sent');
			this.#settingsAcknowledged = true;
			return;
		}
		this.#budget.take(COSTS.settings, this.#now);
		const { window } = this.settings;
		this.settings.read(bytes, from, to);
		this.#acknowledge(SETTINGS_ACK);
		this.isGreeted = true;
		this.#moveWindows(this.settings.window - window);
		this.#events.onSettings();
	}

	/** Section 6.9.2: a new initial window also changes open streams. */
	#moveWindows(change: number): void {
		if (change === 0) return;
		this.#streams.forEach((stream) => {
			if (stream.sendWindow + change > MAX_WINDOW) throw flowError('a window above 2^31-1');
			stream.sendWindow += change;
			stream.resumeSending();
		});
		this.output.pump();
	}

	#onPing(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
		if (id !== 0) throw protocolError('PING on a stream');
		if (to - from !== 8) throw sizeError('PING of a wrong length');
		if ((flags & FLAG.ACK) !== 0) return this.#events.onPong();
		this.#budget.take(COSTS.ping, this.#now);
		this.#acknowledge(pingFrame(bytes.toString('latin1', from, to), true));
	}

	#acknowledge(frame: string): void {
		this.acknowledged += frame.length;
		this.output.write(frame);
	}

	/** Section 6.8: the server has not processed streams above the last one. The others go on. */
	#onGoaway(id: number, bytes: Buffer, from: number, to: number): void {
		if (id !== 0) throw protocolError('GOAWAY on a stream');
		if (to - from < 8) throw sizeError('GOAWAY of a wrong length');
		this.#budget.take(COSTS.goaway, this.#now);
		const last = uint31At(bytes, from);
		this.isGoingAway = true;
		this.#streams.forEach((stream) => {
			if (stream.id <= last || stream.isClosed) return;
			this.#remove(stream, RESET_BY_US);
			stream.onClosed(NOT_PROCESSED);
		});
		this.#events.onGoaway();
	}

	#onWindowUpdate(id: number, bytes: Buffer, from: number, to: number): void {
		if (to - from !== 4) throw sizeError('WINDOW_UPDATE of a wrong length');
		this.#budget.take(COSTS.windowUpdate, this.#now);
		const increment = uint31At(bytes, from);
		if (id === 0) {
			if (increment === 0) throw protocolError('WINDOW_UPDATE of 0');
			this.output.window += increment;
			this.#emptySince = undefined;
			if (this.output.window > MAX_WINDOW) throw flowError('a window above 2^31-1');
			return this.output.pump();
		}
		if ((id & 1) === 0 || id >= this.#nextId) throw protocolError('WINDOW_UPDATE on an idle stream');
		const stream = this.#streams.get(id);
		if (stream === undefined) return;
		if (increment === 0) return this.#fail(stream, CODE.PROTOCOL_ERROR, 'WINDOW_UPDATE of 0');
		if (stream.sendWindow + increment > MAX_WINDOW) {
			return this.#fail(stream, CODE.FLOW_CONTROL_ERROR, 'a window above 2^31-1');
		}
		stream.sendWindow += increment;
		stream.resumeSending();
		this.output.pump();
	}

	// --- Ends of streams. ---

	/** Section 5.4.2: the server has made an error on an open stream. */
	#fail(stream: ClientStream, code: number, what: string): void {
		this.#reset(stream, code);
		stream.onClosed({ kind: 'malformed', cause: what });
	}

	/** Called by tunnels: the client's side has ended, after the server's. */
	tunnelEnded(stream: ClientStream): void {
		if (!stream.isClosed) this.#remove(stream, ENDED);
	}

	/** The request is abandoned. The stream gets no more events. */
	cancel(stream: ClientStream): void {
		if (!stream.isClosed) this.#reset(stream, CODE.CANCEL);
	}

	#reset(stream: ClientStream, code: number): void {
		this.resets++;
		this.output.write(rstStreamFrame(stream.id, code));
		this.#remove(stream, RESET_BY_US);
	}

	#remove(stream: ClientStream, how: number): void {
		stream.isClosed = true;
		stream.isRemoteOpen = false;
		stream.isLocalOpen = false;
		stream.dropPending();
		this.#streams.delete(stream.id);
		this.#closed.add(stream.id, how, stream.receiveWindow);
		// The part of the connection's window that it held.
		if (stream.held > 0) this.#giveBackToConnection(stream.held);
		stream.held = 0;
		this.#events.onStreamEnd();
	}

	// --- Windows. ---

	/** Call it when the content of `output` is sent. @param now monotonic milliseconds. */
	sends(now: number): void {
		if (this.output.window <= 0) this.#emptySince ??= now;
	}

	/**
	 * Whether request bodies have waited for the connection's window for longer than a reading server needs. Many servers return it
	 * only as their handlers read, so one handler that reads nothing blocks all others.
	 *
	 * @param now monotonic milliseconds.
	 */
	isStarved(now: number): boolean {
		return this.#emptySince !== undefined && now - this.#emptySince > STARVED_MS;
	}

	/**
	 * The reader has consumed bytes of a body. A window is opened again when half of it has been consumed: a frame for each piece
	 * would cost more than the piece.
	 */
	release(stream: ClientStream, bytes: number): void {
		if (stream.isClosed) return;
		stream.held -= bytes;
		this.#giveBackToConnection(bytes);
		stream.owed += bytes;
		if (stream.owed < this.#limits.window / 2 || !stream.isRemoteOpen) return;
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

	// --- The end of the connection (section 6.8). ---

	/** Ends the connection. The content of `output` may still be sent. @returns the streams that were open; they get no event. */
	end(code: number): ClientStream[] {
		if (this.isOver) return [];
		this.output.write(goawayFrame(0, code));
		const open: ClientStream[] = [];
		this.#streams.forEach((stream) => {
			open.push(stream);
		});
		for (const stream of open) {
			stream.isClosed = true;
			stream.dropPending();
			this.#streams.delete(stream.id);
		}
		this.isOver = true;
		return open;
	}
}

/** A healthy bulk upload also empties the window, but for a shorter time than this, ms. */
const STARVED_MS = 100;
/** More interim responses before the final one are a flood. */
const MAX_INTERIM = 32;
/** About as many as a connection resets in its life. Late frames on any of its resets are not errors. */
const REMEMBERED_RESETS = 512;
const OTHER_LENGTH = 'a body whose length differs from content-length';
const NO_HTTP2 = 'no HTTP/2 preface';
const REFUSED: StreamEnd = { kind: 'refused', cause: 'stream refused before it was processed' };
const NOT_PROCESSED: StreamEnd = { kind: 'refused', cause: 'not processed: the upstream was about to close (GOAWAY)' };

const CODE_NAMES = new Map<number, string>(Object.entries(CODE).map(([name, code]) => [code, name]));

function nameOfCode(code: number): string {
	return CODE_NAMES.get(code) ?? 'an unknown code';
}
