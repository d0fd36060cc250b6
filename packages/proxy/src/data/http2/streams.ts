import type { Trailers } from '../../gates/trailers.ts';
import { ENDED, FORGOTTEN, RESET_BY_CLIENT, RESET_BY_US } from '../../http2/closed-streams.ts';
import { ConnectionError, protocolError } from '../../http2/errors.ts';
import { CODE, goawayFrame, INITIAL_WINDOW, MAX_STREAM_ID, rstStreamFrame } from '../../http2/frame-format.ts';
import type { Output } from '../../http2/output.ts';
import { StreamSet } from '../../http2/stream-set.ts';
import { TokenBucket } from '../../shared/token-bucket.ts';
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

/** The streams that a client has opened. */
export class Streams extends StreamSet<Stream> implements StreamOwner {
	readonly #budget: FrameBudget;
	readonly #events: StreamsEvents;
	/** Bytes of unwanted bodies that the connection may still send. */
	readonly #unwanted = new TokenBucket(MAX_DROPPED, DROPPED_PER_SECOND);
	/** Highest stream that the client has opened. */
	#lastOpened = 0;
	/** Highest stream that is served, once `finish` has told the client. */
	#lastServed = UNDECIDED;

	constructor(output: Output, budget: FrameBudget, maxConcurrent: number, events: StreamsEvents) {
		super(output, maxConcurrent, INITIAL_WINDOW, maxConcurrent);
		this.#budget = budget;
		this.#events = events;
	}

	override isIdle(id: number): boolean {
		return id > this.#lastOpened && id <= this.#lastServed;
	}

	/** Whether the stream is above the last one in our GOAWAY: its frames are ignored (section 6.8). */
	isDisowned(id: number): boolean {
		return id > this.#lastServed;
	}

	/** So is DATA on a stream whose client learns of our GOAWAY. */
	override isLate(id: number, bytes: number): boolean {
		return this.isDisowned(id) || super.isLate(id, bytes);
	}

	/** Below the highest one and not among the last closed ones: most likely never opened (section 5.1.1). */
	isUnknown(id: number): boolean {
		return this.open.get(id) === undefined && this.closed.how(id) === FORGOTTEN;
	}

	/** The client opens the stream; `add` or `refuse` follows. */
	take(id: number): void {
		this.#lastOpened = id;
	}

	add(stream: Stream): void {
		this.open.set(stream.id, stream);
	}

	override receiving(id: number, what: 'DATA' | 'HEADERS'): Stream | undefined {
		const stream = this.open.get(id);
		if (stream !== undefined) {
			if (stream.isRemoteOpen) return stream;
			// "half-closed (remote)".
			this.fail(stream, CODE.STREAM_CLOSED, `${what} after the end of the request`);
			return undefined;
		}
		if (this.isDisowned(id)) return undefined;
		if (this.isIdle(id) || (id & 1) === 0) throw protocolError(`${what} on an idle stream`);
		const how = this.closed.how(id);
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
		this.closed.add(id, RESET_BY_US, INITIAL_WINDOW);
		this.#provokedReset(id, code);
	}

	override fail(stream: Stream, code: number, what: string): void {
		this.#budget.reset(this.now, stream.isAdmitted);
		this.reset(stream, code, what);
	}

	/** Like `fail`, for a stream that may not be open; if it never was, no RST_STREAM may name it (section 6.4). */
	failAt(id: number, code: number, what: string): void {
		const stream = this.open.get(id);
		if (stream !== undefined) return this.fail(stream, code, what);
		if (id <= this.#lastOpened) return this.#provokedReset(id, code);
		throw new ConnectionError(code, code === CODE.FRAME_SIZE_ERROR ? 'frame-size' : 'protocol', what);
	}

	/** A reset that the client provokes (CVE-2025-8671) counts like one of its own. */
	#provokedReset(id: number, code: number): void {
		this.#budget.reset(this.now, false);
		this.output.write(rstStreamFrame(id, code));
	}

	resetByClient(id: number): void {
		const stream = this.open.get(id);
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
		if (!stream.isRemoteOpen) this.remove(stream, ENDED);
		else if (!stream.isTunnel) this.dropBody(stream);
		stream.onResponseSent();
	}

	onRequestEnd(stream: Stream, trailers?: Trailers): void {
		stream.isRemoteOpen = false;
		if (!stream.isLocalOpen) this.remove(stream, ENDED);
		if (!stream.isClosed || stream.isTunnel) stream.onBodyEnd(trailers);
	}

	#close(stream: Stream, how: number, why?: string, code?: number): void {
		const hasResponded = !stream.isLocalOpen;
		this.remove(stream, how);
		if (!hasResponded || stream.isTunnel) stream.onGone(why, code);
	}

	protected override remove(stream: Stream, how: number): void {
		super.remove(stream, how);
		if (how === ENDED) this.#budget.responded();
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

	override releasePadding(stream: Stream, bytes: number): void {
		if (stream.unwanted === undefined) this.release(stream, bytes);
		else this.drop(stream, bytes);
	}

	/** @returns whether there are still unwanted bodies that have not ended. */
	cutOverdue(): boolean {
		let left = false;
		const isEnding = this.#lastServed !== UNDECIDED;
		this.open.forEach((stream) => {
			if (stream.unwanted === undefined || !stream.isRemoteOpen) return;
			if (!stream.isLocalOpen && stream.unwanted.isOverdue(isEnding)) this.#cut(stream);
			else left = true;
		});
		return left;
	}

	#cut(stream: Stream): void {
		this.#events.onCut(stream.unwanted!.dropped);
		this.output.write(rstStreamFrame(stream.id, CODE.NO_ERROR));
		this.remove(stream, RESET_BY_US);
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

	outOfTime(): void {
		this.open.forEach((stream) => {
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
		this.open.forEach((stream) => {
			this.#close(stream, RESET_BY_US);
		});
	}
}

/** Rate for a connection's unwanted bodies beyond the first `MAX_DROPPED` bytes. */
const DROPPED_PER_SECOND = 4_194_304;
/** Above all stream identifiers. */
const UNDECIDED = Number.POSITIVE_INFINITY;
