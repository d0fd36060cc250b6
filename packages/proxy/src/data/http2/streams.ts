import type { Trailers } from '../../gates/trailers.ts';
import { ClosedStreams, ENDED, FORGOTTEN, RESET_BY_CLIENT, RESET_BY_US } from '../../http2/closed-streams.ts';
import { ConnectionError, flowError, protocolError } from '../../http2/errors.ts';
import {
	CODE,
	goawayFrame,
	INITIAL_WINDOW,
	MAX_STREAM_ID,
	MAX_WINDOW,
	rstStreamFrame,
	windowUpdateFrame,
} from '../../http2/frame-format.ts';
import { NO_DYNAMIC_TABLE } from '../../http2/hpack-encoder.ts';
import type { Output } from '../../http2/output.ts';
import { StreamTable } from '../../http2/stream-table.ts';
import { TokenBucket } from '../../http2/token-bucket.ts';
import { MAX_DROPPED, UnwantedBody } from '../client/unwanted-body.ts';
import type { FrameBudget } from './frame-budget.ts';
import type { Stream, StreamOwner } from './stream.ts';

/** Events of the streams for the connection. */
export interface StreamsEvents {
	/** Called once, when the last stream has ended and no more may begin. */
	onFinished(): void;
	/** A client goes on with a request that has its response: call `cutOverdue` from time to time. */
	onUnwanted(): void;
	/** An upload was cut because it went on too long after its response. @param dropped bytes. */
	onCut(dropped: number): void;
}

/** The streams of a connection: their states and windows, and those of the connection (RFC 9113 sections 5, 6.8 and 6.9). */
export class Streams implements StreamOwner {
	readonly output: Output;
	/** Monotonic milliseconds of the read at hand. */
	now = 0;
	/** The connection has ended, or is about to. */
	isOver = false;
	/** Our send window on a new stream, by the client's SETTINGS. */
	sendWindow = INITIAL_WINDOW;
	/** The connection's receive window when nothing is outstanding, bytes. */
	readonly fullWindow: number;
	readonly #budget: FrameBudget;
	readonly #events: StreamsEvents;
	/** Bytes of unwanted bodies that the connection may still send. */
	readonly #unwanted = new TokenBucket(MAX_DROPPED, DROPPED_PER_SECOND);
	readonly #open = new StreamTable<Stream>();
	readonly #closed: ClosedStreams;
	#receiveWindow: number;
	/** Bytes taken since the last window update. */
	#owed = 0;
	/** Highest stream that the client has opened. */
	#lastOpened = 0;
	/** Highest stream that is served, once `finish` has told the client. */
	#lastServed = UNDECIDED;
	#hasSentBlock = false;

	constructor(output: Output, budget: FrameBudget, maxConcurrent: number, events: StreamsEvents) {
		this.output = output;
		this.#budget = budget;
		this.#events = events;
		// Room for all streams at once, so that none can use up another's: a body is limited by its stream's window. Twice
		// that, since up to half of it may be taken but not given back yet.
		this.fullWindow = Math.min(MAX_WINDOW, 2 * maxConcurrent * INITIAL_WINDOW);
		this.#closed = new ClosedStreams(maxConcurrent);
		this.#receiveWindow = this.fullWindow;
	}

	/** Open ones. */
	get size(): number {
		return this.#open.size;
	}

	get(id: number): Stream | undefined {
		return this.#open.get(id);
	}

	/** Whether the stream was never opened and still may be (RFC 9113 section 5.1, "idle"). */
	isIdle(id: number): boolean {
		return id > this.#lastOpened && id <= this.#lastServed;
	}

	/** Whether the stream is above the last one in our GOAWAY: its frames are ignored (section 6.8). */
	isDisowned(id: number): boolean {
		return id > this.#lastServed;
	}

	/** Whether DATA that is ignored was on its way when its stream was closed: the client had a window for it, or learns of our GOAWAY. */
	isLate(id: number, bytes: number): boolean {
		return this.isDisowned(id) || this.#closed.takesLate(id, bytes);
	}

	/** Below the highest one and not among the last closed ones: most likely never opened (section 5.1.1). */
	isUnknown(id: number): boolean {
		return this.#open.get(id) === undefined && this.#closed.how(id) === FORGOTTEN;
	}

	/** The client opens the stream; `add` or `refuse` follows. */
	take(id: number): void {
		this.#lastOpened = id;
	}

	add(stream: Stream): void {
		this.#open.set(stream.id, stream);
	}

	/**
	 * The stream of a DATA or HEADERS frame, if it still takes them (section 5.1).
	 *
	 * @returns `undefined` if the frame must be ignored. @throws ConnectionError
	 */
	receiving(id: number, what: 'DATA' | 'HEADERS'): Stream | undefined {
		const stream = this.#open.get(id);
		if (stream !== undefined) {
			if (stream.isRemoteOpen) return stream;
			// "half-closed (remote)".
			this.fail(stream, CODE.STREAM_CLOSED, `${what} after the end of the request`);
			return undefined;
		}
		if (this.isDisowned(id)) return undefined;
		if (this.isIdle(id) || (id & 1) === 0) {
			throw protocolError(`${what} on an idle stream`);
		}
		const how = this.#closed.how(id);
		if (how === RESET_BY_US) return undefined;
		if (how !== RESET_BY_CLIENT) {
			throw new ConnectionError(CODE.STREAM_CLOSED, 'stream-closed', `${what} on a stream that has ended`);
		}
		this.#provokedReset(id, CODE.STREAM_CLOSED);
		return undefined;
	}

	// --- Errors and ends of streams. ---

	/** Refuses a stream that has only just been opened. */
	refuse(id: number, code: number): void {
		this.#closed.add(id, RESET_BY_US, INITIAL_WINDOW);
		this.#provokedReset(id, code);
	}

	/** Section 5.4.2: an error of the client on an open stream. @param what the error, in words. */
	fail(stream: Stream, code: number, what: string): void {
		this.#budget.reset(this.now, stream.isAdmitted);
		this.reset(stream, code, what);
	}

	/** Like `fail`, for a stream that may not be open; if it never was, no RST_STREAM may name it (section 6.4). */
	failAt(id: number, code: number, what: string): void {
		const stream = this.#open.get(id);
		if (stream !== undefined) return this.fail(stream, code, what);
		if (id <= this.#lastOpened) return this.#provokedReset(id, code);
		throw new ConnectionError(code, code === CODE.FRAME_SIZE_ERROR ? 'frame-size' : 'protocol', what);
	}

	/** A reset that the client provokes (CVE-2025-8671) counts like one of its own. */
	#provokedReset(id: number, code: number): void {
		this.#budget.reset(this.now, false);
		this.output.write(rstStreamFrame(id, code));
	}

	/** The client has sent RST_STREAM. */
	resetByClient(id: number): void {
		const stream = this.#open.get(id);
		if (stream === undefined) return;
		// A client with its response may properly give up the rest of its request.
		if (stream.isLocalOpen) this.#budget.reset(this.now, stream.isAdmitted);
		this.#close(stream, RESET_BY_CLIENT);
	}

	reset(stream: Stream, code: number, why?: string): void {
		if (stream.isClosed) return;
		this.output.write(rstStreamFrame(stream.id, code));
		this.#close(stream, RESET_BY_US, why, code);
	}

	onResponseEnd(stream: Stream): void {
		if (!stream.isRemoteOpen) this.#remove(stream, ENDED);
		else if (!stream.isTunnel) this.dropBody(stream);
		stream.onResponseSent();
	}

	/** The client has ended its request. */
	onRequestEnd(stream: Stream, trailers?: Trailers): void {
		stream.isRemoteOpen = false;
		if (!stream.isLocalOpen) this.#remove(stream, ENDED);
		if (!stream.isClosed || stream.isTunnel) stream.onBodyEnd(trailers);
	}

	#close(stream: Stream, how: number, why?: string, code?: number): void {
		const hasResponded = !stream.isLocalOpen;
		this.#remove(stream, how);
		if (!hasResponded || stream.isTunnel) stream.onGone(why, code);
	}

	#remove(stream: Stream, how: number): void {
		stream.isClosed = true;
		stream.isRemoteOpen = false;
		stream.isLocalOpen = false;
		stream.dropPending();
		this.#open.delete(stream.id);
		this.#closed.add(stream.id, how, stream.receiveWindow);
		// Its part of the connection's window.
		if (stream.held > 0) this.giveBackToConnection(stream.held);
		stream.held = 0;
		if (how === ENDED) this.#budget.answered();
		if (this.size === 0 && this.#lastServed !== UNDECIDED && !this.isOver) this.#events.onFinished();
	}

	// --- Unwanted bodies. ---

	dropBody(stream: Stream): void {
		if (stream.unwanted === undefined) {
			stream.unwanted = new UnwantedBody(-1);
			this.#events.onUnwanted();
		}
		this.drop(stream, stream.held - stream.paddingDue);
	}

	/**
	 * Both windows are reopened for dropped bytes, so that a client which sends before it reads reaches its response. Beyond the
	 * limit the stream's window stays closed, and after a whole response the stream is reset without an error (section 8.1).
	 */
	drop(stream: Stream, bytes: number): void {
		const isWithin = stream.unwanted!.drop(bytes) && this.#unwanted.take(bytes, this.now);
		if (isWithin) return this.release(stream, bytes);
		stream.held -= bytes;
		this.giveBackToConnection(bytes);
		if (!stream.isLocalOpen) this.#cut(stream);
	}

	/** @returns whether there are still unwanted bodies that have not ended. */
	cutOverdue(): boolean {
		let left = false;
		const isEnding = this.#lastServed !== UNDECIDED;
		this.#open.forEach((stream) => {
			if (stream.unwanted === undefined || !stream.isRemoteOpen) return;
			if (!stream.isLocalOpen && stream.unwanted.isOverdue(isEnding)) this.#cut(stream);
			else left = true;
		});
		return left;
	}

	#cut(stream: Stream): void {
		this.#events.onCut(stream.unwanted!.dropped);
		this.output.write(rstStreamFrame(stream.id, CODE.NO_ERROR));
		this.#remove(stream, RESET_BY_US);
	}

	blockPrefix(): string {
		if (this.#hasSentBlock) return '';
		this.#hasSentBlock = true;
		return NO_DYNAMIC_TABLE;
	}

	// --- Windows. ---

	/** Counts bytes against the connection's window. @throws ConnectionError */
	receive(bytes: number): void {
		if (bytes > this.#receiveWindow) {
			throw flowError('DATA beyond the window');
		}
		this.#receiveWindow -= bytes;
	}

	/** A window is reopened when half of it has been taken: a frame for every piece would cost more than the piece. */
	release(stream: Stream, bytes: number): void {
		// The held bytes of a closed stream were given back with it.
		if (stream.isClosed) return;
		stream.held -= bytes;
		this.giveBackToConnection(bytes);
		if (!stream.isRemoteOpen) return;
		stream.owed += bytes;
		if (stream.owed < stream.fullWindow / 2) return;
		if (stream.isTakenAtOnce) {
			stream.owed += WIDE_WINDOW - stream.fullWindow;
			stream.fullWindow = WIDE_WINDOW;
		}
		stream.receiveWindow += stream.owed;
		this.output.write(windowUpdateFrame(stream.id, stream.owed));
		stream.owed = 0;
	}

	giveBackToConnection(bytes: number): void {
		this.#owed += bytes;
		if (this.#owed < this.fullWindow / 2 || this.isOver) return;
		this.#receiveWindow += this.#owed;
		this.output.write(windowUpdateFrame(0, this.#owed));
		this.#owed = 0;
	}

	/** Applies the client's SETTINGS, also to open streams (section 6.9.2). @throws ConnectionError */
	setSendWindow(window: number): void {
		const change = window - this.sendWindow;
		this.sendWindow = window;
		if (change === 0) return;
		this.#open.forEach((stream) => {
			if (stream.sendWindow + change > MAX_WINDOW) {
				throw flowError('a window above 2^31-1');
			}
			stream.sendWindow += change;
			stream.resumeSending();
		});
		this.output.pump();
	}

	// --- The end of the connection (section 6.8). ---

	/** Announces the end. Streams on their way are still served. */
	announceEnd(): void {
		this.output.write(goawayFrame(MAX_STREAM_ID, CODE.NO_ERROR));
	}

	/** Names the last stream. Later ones are not served, and may be sent elsewhere. */
	finish(): void {
		if (this.#lastServed !== UNDECIDED || this.isOver) return;
		this.#lastServed = this.#lastOpened;
		this.output.write(goawayFrame(this.#lastOpened, CODE.NO_ERROR));
		if (this.size === 0) this.#events.onFinished();
	}

	/** The proxy ends: so does each request. */
	outOfTime(): void {
		this.#open.forEach((stream) => {
			stream.outOfTime();
		});
	}

	/** Ends the connection with an error. `output` may still be sent. */
	end(code: number): void {
		if (this.isOver) return;
		this.isOver = true;
		this.output.write(goawayFrame(this.#lastOpened, code));
		this.closeAll();
	}

	closeAll(): void {
		this.isOver = true;
		this.#open.forEach((stream) => {
			this.#close(stream, RESET_BY_US);
		});
	}
}

/** Window of a stream whose body is taken at once, bytes: fewer frames and pauses. */
const WIDE_WINDOW = 262_144;
/** Rate for a connection's unwanted bodies beyond the first `MAX_DROPPED` bytes. */
const DROPPED_PER_SECOND = 4_194_304;
/** Above all stream identifiers. */
const UNDECIDED = Number.POSITIVE_INFINITY;
