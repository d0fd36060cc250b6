import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import { type DeadlineQueue, Timed } from '../loop/deadlines.ts';
import type { FrameFollower } from './frame-follower.ts';

/** Takes messages whose time has come. */
export interface MessageSink {
	/** @param bytes frames; the last one may be incomplete. */
	passMessages(bytes: Buffer): void;
	/** Nothing waits any more. */
	onCaughtUp(): void;
	onFault(error: unknown): void;
}

/** Holds back messages beyond a client's rate. Messages are counted by frame heads; payload does not matter. */
export class PacedMessages extends Timed {
	readonly #pace: MessagePace;
	readonly #follower: FrameFollower;
	readonly #sink: MessageSink;
	readonly #clock: Clock;
	readonly #looks: DeadlineQueue;
	/** Bytes that begin with a message that must wait. */
	#early: Buffer | undefined = undefined;

	/** @param looks its length is the interval between two checks of waiting messages. */
	constructor(perSec: number, follower: FrameFollower, sink: MessageSink, clock: Clock, looks: DeadlineQueue) {
		super();
		this.#pace = new MessagePace(perSec, clock.now());
		this.#follower = follower;
		this.#sink = sink;
		this.#clock = clock;
		this.#looks = looks;
	}

	/** Messages wait here. */
	get isHolding(): boolean {
		return this.#early !== undefined;
	}

	/** @param chunk what must wait of it is copied. */
	pass(chunk: Buffer): void {
		const early = this.#early;
		const bytes = early === undefined ? chunk : Buffer.concat([early, chunk]);
		const follower = this.#follower;
		const before = follower.messages;
		const end = follower.follow(bytes, 0, this.#pace.left(this.#clock.now()));
		this.#pace.spend(follower.messages - before);
		const rest = end === bytes.length ? undefined : bytes.subarray(end);
		this.#early = rest && bytes === chunk ? Buffer.from(rest) : rest;
		if (this.#early !== undefined) this.#looks.add(this);
		if (end > 0) this.#sink.passMessages(bytes.subarray(0, end));
	}

	/** The time of some waiting messages may have come. */
	override onDeadline(): void {
		if (this.#early === undefined) return;
		this.pass(NOTHING);
		if (this.#early === undefined) this.#sink.onCaughtUp();
	}

	override onFault(error: unknown): void {
		this.#sink.onFault(error);
	}

	/** Drops the waiting messages. */
	drop(): void {
		this.#early = undefined;
		this.cancelDeadline();
	}
}

const NOTHING = Buffer.alloc(0);

/**
 * Limits a client's messages: a bucket of one second's messages, which refills evenly. A client that has used it up waits. Pure: time
 * arrives as an argument.
 */
export class MessagePace {
	readonly #perMs: number;
	readonly #burst: number;
	#tokens: number;
	#at: number;

	/** @param perSec at least 1. @param now monotonic milliseconds. */
	constructor(perSec: number, now: number) {
		this.#perMs = perSec / 1000;
		this.#burst = perSec;
		this.#tokens = perSec;
		this.#at = now;
	}

	/** How many messages may begin now, a whole number. @param now monotonic milliseconds. */
	left(now: number): number {
		if (now > this.#at) {
			this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#at) * this.#perMs);
			this.#at = now;
		}
		return Math.floor(this.#tokens);
	}

	/** Counts messages that have begun. */
	spend(messages: number): void {
		this.#tokens -= messages;
	}
}
