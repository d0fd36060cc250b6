import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import { type DeadlineQueue, Timed } from '../loop/deadlines.ts';
import type { FrameFollower } from './frame-follower.ts';
import { MessagePace } from './message-pace.ts';

/** Takes messages that have their time. */
export interface MessageSink {
	/** @param bytes whole frames, and a part of the last one. */
	passMessages(bytes: Buffer): void;
	/** Nothing waits any more. */
	onCaughtUp(): void;
	onFault(error: unknown): void;
}

/** Holds back what a client sends beyond its rate of messages. The messages are those of its frames' heads: their payload does not matter. */
export class PacedMessages extends Timed {
	readonly #pace: MessagePace;
	readonly #follower: FrameFollower;
	readonly #sink: MessageSink;
	readonly #clock: Clock;
	readonly #looks: DeadlineQueue;
	/** Begins with a message that has to wait. */
	#early: Buffer | undefined = undefined;

	/** @param looks lasts as long as lies between two looks at what waits. */
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

	/** @param chunk not changed by anybody. */
	pass(chunk: Buffer): void {
		const bytes = this.#early === undefined ? chunk : Buffer.concat([this.#early, chunk]);
		const follower = this.#follower;
		const before = follower.messages;
		const end = follower.follow(bytes, 0, this.#pace.left(this.#clock.now()));
		this.#pace.spend(follower.messages - before);
		this.#early = end === bytes.length ? undefined : bytes.subarray(end);
		if (this.#early !== undefined) this.#looks.add(this);
		if (end > 0) this.#sink.passMessages(bytes.subarray(0, end));
	}

	/** Some of what waits may have its time now. */
	override onDeadline(): void {
		if (this.#early === undefined) return;
		this.pass(NOTHING);
		if (this.#early === undefined) this.#sink.onCaughtUp();
	}

	override onFault(error: unknown): void {
		this.#sink.onFault(error);
	}

	/** What waits is not wanted any more. */
	drop(): void {
		this.#early = undefined;
		this.cancelDeadline();
	}
}

const NOTHING = Buffer.alloc(0);
