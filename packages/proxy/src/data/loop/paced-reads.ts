import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import { readInto, readOn } from '@mtls-edge-proxy/gate/tls/node-internals.ts';
import { READ_BUFFER, type ReadCallback, reader, readView } from '#read-buffer';
import { endOwner, type FaultOwner } from './faults.ts';
import type { ConnectionShare } from './read-share.ts';
import { STEP, type TurnEnd } from './turn-end.ts';

/** Receives the bytes that a socket reads. If it throws, `onFault` gets the error, and the current bytes are lost. */
export interface ReadSink extends FaultOwner {
	/**
	 * @param bytes a view that is valid only during the call: the memory is that of the thread's next read, of any connection.
	 * @returns how many of the bytes were taken, at least one; the rest is given again as soon as there are tokens for it.
	 */
	onData(bytes: Buffer): number;
	/** The socket has no more bytes. Called before its `end` event, with which Node ends our side as well. */
	onLast?(): void;
	/** There are tokens again for work that `mayGoOn` has deferred. */
	onTokens?(): void;
	/** The connection has used up its share of the worker, and waits for more than this turn. */
	onDelayed(): void;
}

/**
 * Reads one connection as fast as its share of the worker allows (`ConnectionShare`). Bytes that have been read but cannot be taken yet
 * are held here, and the socket is stopped: Node has decrypted at most 64 KiB ahead.
 *
 * A socket is read into `READ_BUFFER`, and its bytes are handed on at once. As `data` events they would pass a queue and a tick in which
 * the stream asks for more, which a socket does not need: a twentieth of the cost of an HTTP/1.1 request. Any other stream gives events.
 */
export class PacedReads implements Deferred {
	/** The connection wants no bytes at the moment. */
	isPaused = false;
	/** Takes a read of `READ_BUFFER`. */
	readonly callback: ReadCallback = reader((length) => this.#onRead(readView(length)));
	readonly #socket: Duplex;
	readonly #share: ConnectionShare;
	readonly #queue: ReadQueue;
	readonly #sink: ReadSink;
	/** Read and not taken, oldest first: copies. */
	#held: Buffer[] = [];
	/** The socket has ended after the held bytes. */
	#endHeld = false;
	#isQueued = false;
	#isDelayed = false;
	#recordBytes = BULK;

	constructor(socket: Duplex, share: ConnectionShare, queue: ReadQueue, sink: ReadSink) {
		this.#socket = socket;
		this.#share = share;
		this.#queue = queue;
		this.#sink = sink;
		if (socket instanceof Socket) this.#holdEnd(socket);
	}

	/** Reads the socket. One that was made with `onread` has `callback` called instead. */
	begin(): void {
		this.#socket.on('data', (bytes: Buffer) => void this.#onRead(bytes));
		// Any other stream waits for a read request.
		if (this.#socket instanceof Socket) readInto(this.#socket, READ_BUFFER, this.callback);
	}

	#holdEnd(socket: Socket): void {
		const push = socket.push;
		socket.push = (bytes: Buffer | null, encoding?: BufferEncoding): boolean =>
			bytes === null ? this.#end(() => push.call(socket, null)) : push.call(socket, bytes, encoding);
	}

	/** Receives the socket's bytes. @returns whether it may read on. */
	#onRead(bytes: Buffer): boolean {
		try {
			return this.#take(bytes);
		} catch (error) {
			this.#onFault(error);
			return true;
		}
	}

	#onFault(error: unknown): void {
		endOwner(this.#sink, error);
	}

	#end(push: () => boolean): boolean {
		if (this.#held.length > 0) {
			this.#endHeld = true;
			return false;
		}
		try {
			this.#sink.onLast?.();
		} catch (error) {
			this.#onFault(error);
		}
		return push();
	}

	pause(): void {
		this.isPaused = true;
		if (!(this.#socket instanceof Socket)) this.#socket.pause();
	}

	/** Goes on at the end of the turn. */
	resume(): void {
		this.isPaused = false;
		if (!(this.#socket instanceof Socket)) this.#socket.resume();
		this.#enqueue();
	}

	get isWaiting(): boolean {
		return this.#isQueued && !this.isPaused;
	}

	/** Whether there are tokens for bytes that the sink has taken but not processed; otherwise `onTokens` follows. */
	mayGoOn(): boolean {
		const share = this.#share;
		if (!share.isOverdrawn || share.settle(this.#queue.now)) return true;
		this.#enqueue();
		return false;
	}

	#take(bytes: Buffer): boolean {
		const share = this.#share;
		share.spend(READ);
		this.#recordBytes = bytes.length;
		if (bytes.length >= BULK && share.lend(bytes.length / BYTES_PER_TOKEN)) this.#queue.lends(share);
		const rest = this.isPaused || this.#held.length > 0 ? bytes : this.#give(bytes);
		if (rest === undefined) return true;
		if (rest.length > 0) this.#held.push(Buffer.from(rest));
		return false;
	}

	/** Hands on as many bytes as there are tokens for. @returns the rest, which may be empty; `undefined`: more may follow. */
	#give(bytes: Buffer): Buffer | undefined {
		let rest = bytes;
		do {
			const taken = this.#sink.onData(rest);
			rest = taken === rest.length ? NOTHING : rest.subarray(taken);
			if (!this.mayGoOn() || this.isPaused) return rest;
		} while (rest.length > 0);
		return undefined;
	}

	get isHolding(): boolean {
		return this.#held.length > 0;
	}

	/** Hands on the held bytes, at most a read, whatever the share says: the socket has ended. */
	giveHeld(): void {
		for (const bytes of this.#held.splice(0)) {
			for (let at = 0; at < bytes.length; ) at += this.#sink.onData(bytes.subarray(at));
		}
	}

	#enqueue(): void {
		if (this.#isQueued) return;
		this.#isQueued = true;
		this.#queue.add(this);
	}

	goOn(now: number): boolean {
		try {
			return this.#goOn(now);
		} catch (error) {
			this.#onFault(error);
			return true;
		}
	}

	#goOn(now: number): boolean {
		const isOver = this.isPaused || this.#socket.destroyed;
		const nextRead = this.#nextRead();
		if (!isOver && !this.#share.settle(now, nextRead)) {
			if (!this.#isDelayed) this.#sink.onDelayed();
			this.#isDelayed = true;
			return false;
		}
		this.#isQueued = false;
		this.#isDelayed = false;
		if (isOver) return true;
		this.#sink.onTokens?.();
		if (this.#isQueued || this.isPaused) return true;
		for (let bytes = this.#held.shift(); bytes !== undefined; bytes = this.#held.shift()) {
			const rest = this.#give(bytes);
			if (rest === undefined) continue;
			if (rest.length > 0) this.#held.unshift(rest);
			return true;
		}
		if (this.#share.lend(nextRead)) this.#queue.lends(this.#share);
		this.#readOn();
		return true;
	}

	/** Tokens needed before a socket is read again: it may bring `NODE_READ` bytes before it can be stopped. */
	#nextRead(): number {
		const records = NODE_READ / (this.#recordBytes + RECORD_OVERHEAD);
		return Math.min(MAX_NEXT_READ, NODE_READ / BYTES_PER_TOKEN + records * READ);
	}

	#readOn(): void {
		const socket = this.#socket;
		if (this.#endHeld) {
			this.#endHeld = false;
			(socket as Socket).push(null);
			socket.read(0);
			return;
		}
		if (socket instanceof Socket && !socket.destroyed) readOn(socket);
	}
}

export interface Deferred {
	/** @param now monotonic milliseconds. @returns `false` if there are no tokens for it yet. */
	goOn(now: number): boolean;
}

/** Connections of a worker whose reads are deferred. They take turns, whatever their certificates. */
export class ReadQueue {
	readonly #turnEnd: TurnEnd;
	readonly #clock: Clock;
	#waiting: Deferred[] = [];
	#lenders: ConnectionShare[] = [];
	#isScheduled = false;
	#timer: NodeJS.Timeout | undefined;

	constructor(turnEnd: TurnEnd, clock: Clock) {
		this.#turnEnd = turnEnd;
		this.#clock = clock;
	}

	/** Monotonic milliseconds. */
	get now(): number {
		return this.#clock.now();
	}

	add(reads: Deferred): void {
		this.#waiting.push(reads);
		this.#schedule();
	}

	lends(share: ConnectionShare): void {
		this.#lenders.push(share);
		this.#schedule();
	}

	#schedule(): void {
		if (this.#isScheduled) return;
		this.#isScheduled = true;
		this.#turnEnd.add(STEP.read, this.#endTurn);
	}

	/** Requests of this turn have begun by now, and admitted ones have given back their tokens. */
	readonly #endTurn = (): void => {
		this.#isScheduled = false;
		const lenders = this.#lenders;
		this.#lenders = [];
		for (const share of lenders) share.endTurn();
		this.#goOn();
	};

	readonly #goOn = (): void => {
		const { now } = this;
		const asked = this.#waiting;
		this.#waiting = [];
		const refused: Deferred[] = [];
		let next = 0;
		// Connections that have tokens at the same moment would otherwise make one long turn, however few tokens each has.
		while (next < asked.length && this.now - now < TURN_MS) {
			const reads = asked[next++]!;
			if (!reads.goOn(now)) refused.push(reads);
		}
		// All are asked in turn, so that many without tokens do not keep others waiting. Last come those that were served and must wait again.
		this.#waiting = [...asked.slice(next), ...refused, ...this.#waiting];
		if (this.#waiting.length === 0 || this.#timer !== undefined) return;
		this.#timer = setTimeout(() => {
			this.#timer = undefined;
			this.#goOn();
		}, WAIT_MS);
	};
}

/** Tokens for a read, however little it brings: each TLS record is one. */
const READ = 2;
/** From `BULK` bytes on, a read costs a token for each `BYTES_PER_TOKEN`. */
const BYTES_PER_TOKEN = 1024;
const BULK = 4096;
const NOTHING = Buffer.alloc(0);
/** Bytes that Node reads from the kernel at once; bytes of a TLS record in addition to its content. */
const NODE_READ = 65_536;
const RECORD_OVERHEAD = 22;
/** Limits how many connections of a certificate that send tiny records are read in one turn. */
const MAX_NEXT_READ = 600;
/** Time in a turn for all connections that have waited, ms. */
const TURN_MS = 1;
/** Interval between two checks of waiting connections, ms. */
const WAIT_MS = 2;
