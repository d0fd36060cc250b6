import { UNDECLARED } from '../gates/body-limit.ts';
import { ClosedStreams } from './closed-streams.ts';
import { flowError } from './errors.ts';
import { INITIAL_WINDOW, MAX_WINDOW, windowUpdateFrame } from './frame-format.ts';
import type { Output } from './output.ts';
import type { PeerSettings } from './peer-settings.ts';
import { SendingStream } from './sending-stream.ts';
import { StreamTable } from './stream-table.ts';

/** One request and its response, as far as frames and windows go (RFC 9113 section 5). */
export abstract class HttpStream extends SendingStream {
	/** The peer may still send. */
	isRemoteOpen = true;
	/** It gets no more events. */
	isClosed = false;
	/** An extended CONNECT was accepted (RFC 8441 section 4): each side ends independently. */
	isTunnel = false;
	/** How much the peer may still send, bytes. */
	receiveWindow = INITIAL_WINDOW;
	/** The same when nothing is outstanding. */
	fullWindow = INITIAL_WINDOW;
	/** The body is taken at once, so a larger window makes no bytes wait here. */
	isTakenAtOnce = false;
	/** Taken, and not yet given back to the peer's window, bytes. */
	owed = 0;
	/** Received and not taken, bytes. */
	held = 0;
	/** Bytes of the current DATA frame without the data so far: its padding, in the end. */
	paddingDue = 0;
	/** `content-length`, or `UNDECLARED`. */
	declaredLength = UNDECLARED;
	/** Bytes of the body so far. */
	received = 0;
}

/** The streams of a connection and its receive window, as both sides keep them (RFC 9113 sections 5, 6.8 and 6.9). */
export abstract class StreamSet<Stream extends HttpStream> {
	readonly output: Output;
	/** Monotonic milliseconds of the read at hand. */
	now = 0;
	/** The connection has ended, or is about to. */
	isOver = false;
	/** Our send window on a new stream, by the peer's SETTINGS. */
	sendWindow = INITIAL_WINDOW;
	/** The connection's receive window when nothing is outstanding, bytes. */
	readonly fullWindow: number;
	protected readonly open = new StreamTable<Stream>();
	protected readonly closed: ClosedStreams;
	#receiveWindow: number;
	/** Bytes taken since the last window update. */
	#owed = 0;

	/** @param maxStreams at once. @param window of each, bytes. @param maxResets as for `ClosedStreams`. */
	constructor(output: Output, maxStreams: number, window: number, maxResets: number) {
		this.output = output;
		// Room for all streams at once, so that none can use up another's: a body is limited by its stream's window. Twice
		// that, since up to half of it may be taken but not given back yet.
		this.fullWindow = Math.min(MAX_WINDOW, 2 * maxStreams * window);
		this.closed = new ClosedStreams(maxResets);
		this.#receiveWindow = this.fullWindow;
	}

	/** Whether the stream was never opened and still may be (section 5.1, "idle"). */
	abstract isIdle(id: number): boolean;
	/**
	 * The stream of a DATA or HEADERS frame, if it still takes them (section 5.1).
	 *
	 * @returns `undefined` if the frame must be ignored. @throws ConnectionError
	 */
	abstract receiving(id: number, what: 'DATA' | 'HEADERS'): Stream | undefined;
	/** Section 5.4.2: an error of the peer on an open stream. @param what the error, in words. */
	abstract fail(stream: Stream, code: number, what: string): void;

	get size(): number {
		return this.open.size;
	}

	get(id: number): Stream | undefined {
		return this.open.get(id);
	}

	/** Whether DATA that is ignored was on its way when its stream was closed: the peer had a window for it. */
	isLate(id: number, bytes: number): boolean {
		return this.closed.takesLate(id, bytes);
	}

	protected remove(stream: Stream, how: number): void {
		stream.isClosed = true;
		stream.isRemoteOpen = false;
		stream.isLocalOpen = false;
		stream.dropPending();
		this.open.delete(stream.id);
		this.closed.add(stream.id, how, stream.receiveWindow);
		// Its part of the connection's window.
		if (stream.held > 0) this.giveBackToConnection(stream.held);
		stream.held = 0;
	}

	/** Counts bytes against the connection's window. @throws ConnectionError */
	receive(bytes: number): void {
		if (bytes > this.#receiveWindow) throw flowError('DATA beyond the window');
		this.#receiveWindow -= bytes;
	}

	/**
	 * Bytes of a body have been taken. A window is reopened when half of it has been taken: a frame for every piece would cost more
	 * than the piece.
	 */
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

	/** Padding uses up the windows as well, and no reader takes it. */
	releasePadding(stream: Stream, bytes: number): void {
		this.release(stream, bytes);
	}

	giveBackToConnection(bytes: number): void {
		this.#owed += bytes;
		if (this.#owed < this.fullWindow / 2 || this.isOver) return;
		this.#receiveWindow += this.#owed;
		this.output.write(windowUpdateFrame(0, this.#owed));
		this.#owed = 0;
	}

	/** The peer's SETTINGS, which also change the windows of open streams (section 6.9.2). @throws ConnectionError */
	apply({ window }: PeerSettings): void {
		const change = window - this.sendWindow;
		this.sendWindow = window;
		if (change === 0) return;
		this.open.forEach((stream) => {
			if (stream.sendWindow + change > MAX_WINDOW) throw flowError('a window above 2^31-1');
			stream.sendWindow += change;
			stream.resumeSending();
		});
		this.output.pump();
	}
}

/** Window of a stream whose body is taken at once, bytes: fewer frames and pauses. */
const WIDE_WINDOW = 262_144;
