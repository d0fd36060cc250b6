import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import { readOn } from '@mtls-edge-proxy/gate/tls/node-internals.ts';
import { endOwner, type FaultOwner } from '../loop/faults.ts';
import { STEP, type TurnEnd } from '../loop/turn-end.ts';
import type { ConnectionShare } from './read-share.ts';

/** Takes what a socket reads. What it throws it gets back by `onFault`, and the bytes at hand are gone. */
export interface ReadSink extends FaultOwner {
	/** @returns how many of the bytes were taken, at least one; the others are given again, as soon as there are tokens for them. */
	onData(bytes: Buffer): number;
	/** The socket has nothing more to give. Called before its `end` event: with that Node ends our side as well. */
	onLast?(): void;
	/** There are tokens again for what it has not gone on with (`mayGoOn`). */
	onTokens?(): void;
	/** The connection has used up its share of the worker, and waits for more than this turn. */
	onDelayed(): void;
}

/**
 * Reads of one connection, as fast as its share of the worker allows (`ConnectionShare`). Whatever has been read and cannot be taken
 * yet is held here, and the socket is stopped: Node has decrypted at most 64 KiB ahead.
 *
 * What a socket reads is handed on at once. Between `push`, by which a socket gives its stream what it has read, and the `data` event
 * lie a queue that is empty and a tick in which the stream asks for more, which a socket does not need to be told: a
 * twentieth of what an HTTP/1.1 request costs. Bytes that do not come by `push`, or while the stream is paused, come as an event.
 */
export class PacedReads {
	/** The connection does not want to be given anything. */
	isPaused = false;
	readonly #socket: Duplex;
	readonly #share: ConnectionShare;
	readonly #queue: ReadQueue;
	readonly #sink: ReadSink;
	/** Read and not taken, oldest first. */
	#held: Buffer[] = [];
	/** Behind what is held the socket has ended. */
	#endHeld = false;
	#isQueued = false;
	#isDelayed = false;
	/** Bytes of the last record. */
	#recordBytes = BULK;

	constructor(socket: Duplex, share: ConnectionShare, queue: ReadQueue, sink: ReadSink) {
		this.#socket = socket;
		this.#share = share;
		this.#queue = queue;
		this.#sink = sink;
		socket.on('data', (bytes: Buffer) => void this.#onRead(bytes));
		// Any other stream waits to be asked.
		if (socket instanceof Socket) this.#takeFrom(socket);
	}

	#takeFrom(socket: Socket): void {
		const push = socket.push;
		socket.push = (bytes: Buffer | null, encoding?: BufferEncoding): boolean => {
			if (bytes === null) return this.#end(() => push.call(socket, null));
			if (!socket.readableFlowing || socket.readableLength > 0) return push.call(socket, bytes, encoding);
			// A socket whose `push` returns false is not read until `_read` is called.
			return this.#onRead(bytes);
		};
	}

	/** What the socket has read enters here. @returns whether it may read on. */
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

	/** Waits for tokens. */
	get isWaiting(): boolean {
		return this.#isQueued && !this.isPaused;
	}

	/** Whether there are tokens for what the sink has taken and not looked at; otherwise `onTokens` follows. */
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
		if (this.isPaused || this.#held.length > 0) return this.#hold(bytes);
		return this.#give(bytes);
	}

	/** Hands on as much as there are tokens for. @returns whether there may be more. */
	#give(bytes: Buffer): boolean {
		let rest = bytes;
		while (rest.length > 0) {
			rest = rest.subarray(this.#sink.onData(rest));
			if (this.mayGoOn() && !this.isPaused) continue;
			if (rest.length > 0) this.#held.unshift(rest);
			return false;
		}
		return true;
	}

	#hold(bytes: Buffer): false {
		this.#held.push(bytes);
		return false;
	}

	#enqueue(): void {
		if (this.#isQueued) return;
		this.#isQueued = true;
		this.#queue.add(this);
	}

	/** For `ReadQueue`. @returns false where there are no tokens for it yet. */
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
		const nextRead = this.#nextRead;
		if (!isOver && !this.#share.settle(now, nextRead)) {
			if (!this.#isDelayed) this.#sink.onDelayed();
			this.#isDelayed = true;
			return false;
		}
		this.#isQueued = false;
		this.#isDelayed = false;
		if (isOver) return true;
		this.#sink.onTokens?.();
		if (this.#isQueued) return true;
		for (let bytes = this.#held.shift(); bytes !== undefined; bytes = this.#held.shift()) {
			if (!this.#give(bytes)) return true;
		}
		if (this.#share.lend(nextRead)) this.#queue.lends(this.#share);
		this.#readOn();
		return true;
	}

	/** A socket that is read again may bring `NODE_READ` bytes before it can be stopped: the tokens for them are there first. */
	get #nextRead(): number {
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

/** Connections of a worker that are read later. Each certificate's take turns. */
export class ReadQueue {
	readonly #turnEnd: TurnEnd;
	readonly #clock: Clock;
	#waiting: PacedReads[] = [];
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

	add(reads: PacedReads): void {
		this.#waiting.push(reads);
		this.#schedule();
	}

	/** Has `endTurn` called. */
	lends(share: ConnectionShare): void {
		this.#lenders.push(share);
		this.#schedule();
	}

	#schedule(): void {
		if (this.#isScheduled) return;
		this.#isScheduled = true;
		this.#turnEnd.add(STEP.read, this.#endTurn);
	}

	/** Requests of this turn have begun by now, and those that are admitted have given back what they cost. */
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
		// Connections that have tokens at the same moment would otherwise make one long turn, however few tokens each of them has.
		const unserved = asked.filter((reads) => this.now - now >= TURN_MS || !reads.goOn(now));
		// Behind them are those that have had their turn and have to wait again.
		this.#waiting = unserved.concat(this.#waiting);
		if (this.#waiting.length === 0 || this.#timer !== undefined) return;
		this.#timer = setTimeout(() => {
			this.#timer = undefined;
			this.#goOn();
		}, WAIT_MS);
	};
}

/** Tokens for a read, however little it brings: a record is decrypted, and a buffer is made of it. */
const READ = 2;
/** What is read costs its turn a token for so many bytes, from so many on. */
const BYTES_PER_TOKEN = 1024;
const BULK = 4096;
/** What Node takes from the kernel at once; what a TLS record has in addition to its content. Bytes. */
const NODE_READ = 65_536;
const RECORD_OVERHEAD = 22;
/** Few connections of a certificate that send tiny records are read in one turn. */
const MAX_NEXT_READ = 600;
/** What those that have waited may take of a turn, all together, ms. */
const TURN_MS = 1;
/** Between two looks at those that wait, ms. */
const WAIT_MS = 2;
