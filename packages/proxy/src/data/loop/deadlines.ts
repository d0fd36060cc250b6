import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import { endOwner, type FaultOwner, type FaultReport, uncaught } from './faults.ts';

/**
 * All time limits of a worker, served by one coarse timer. Deadlines of one kind have the same length, so they fall due in the
 * order in which they were set. A linked list is then a priority queue: setting or cancelling a deadline costs a few pointer writes
 * and no allocation.
 */
export class Deadlines {
	/** Monotonic milliseconds at the last tick: precise enough for limits, and free to read. */
	now: number;
	ticks = 0;
	readonly #queues: DeadlineQueue[] = [];
	readonly #clock: Clock;
	readonly #report: FaultReport;
	#timer: NodeJS.Timeout | undefined;

	/** @param report gets errors that `onFault` throws again. */
	constructor(clock: Clock, report: FaultReport = uncaught) {
		this.#clock = clock;
		this.#report = report;
		this.now = clock.now();
	}

	/** @param ms how long each deadline of this queue lasts. */
	queue(ms: number): DeadlineQueue {
		const queue = new DeadlineQueue(this, ms);
		this.#queues.push(queue);
		return queue;
	}

	start(): void {
		this.#timer = setInterval(() => this.tick(this.#clock.now()), TICK_MS);
	}

	stop(): void {
		clearInterval(this.#timer);
	}

	/** Expires deadlines that are due, at most two ticks late. */
	tick(now: number): void {
		this.now = now;
		this.ticks++;
		for (const queue of this.#queues) queue.expire(now);
	}

	/** Called by queues: a deadline that throws must not block the next ones. */
	expire(timed: Timed): void {
		try {
			timed.onDeadline();
		} catch (error) {
			endOwner(timed, error, this.#report);
		}
	}
}

/** Resolution of all limits, ms. The shortest default limit is a hundred times as long. */
export const TICK_MS = 50;

/** An object with at most one deadline at a time. */
export abstract class Timed implements FaultOwner {
	readonly deadline: Deadline = new Deadline(this);

	/** Called once when the deadline has passed. The deadline is then no longer set. */
	abstract onDeadline(): void;

	/** `onDeadline` has thrown: ends the request or connection. An override reports the error or throws it again. */
	onFault(error: unknown): void {
		throw error;
	}

	cancelDeadline(): void {
		this.deadline.cancel();
	}
}

/**
 * The entry of a `Timed` in its queue. Objects of many classes have deadlines: links in these objects would be megamorphic property
 * accesses for every request.
 */
class Deadline {
	readonly timed: Timed;
	due = 0;
	queue: DeadlineQueue | undefined = undefined;
	earlier: Deadline | undefined = undefined;
	later: Deadline | undefined = undefined;

	constructor(timed: Timed) {
		this.timed = timed;
	}

	cancel(): void {
		this.queue?.remove(this);
	}
}

export class DeadlineQueue {
	readonly #wheel: Deadlines;
	readonly #ms: number;
	#first: Deadline | undefined;
	#last: Deadline | undefined;

	constructor(wheel: Deadlines, ms: number) {
		this.#wheel = wheel;
		// `now` may be one tick old: without this, deadlines could expire early.
		this.#ms = ms + TICK_MS;
	}

	/** Sets the deadline. It replaces an earlier one in this or another queue. */
	add({ deadline }: Timed): void {
		deadline.cancel();
		deadline.due = this.#wheel.now + this.#ms;
		deadline.queue = this;
		deadline.earlier = this.#last;
		if (this.#last === undefined) this.#first = deadline;
		else this.#last.later = deadline;
		this.#last = deadline;
	}

	remove(deadline: Deadline): void {
		const { earlier, later } = deadline;
		if (earlier === undefined) this.#first = later;
		else earlier.later = later;
		if (later === undefined) this.#last = earlier;
		else later.earlier = earlier;
		deadline.earlier = undefined;
		deadline.later = undefined;
		deadline.queue = undefined;
	}

	expire(now: number): void {
		for (let first = this.#first; first !== undefined && first.due <= now; first = this.#first) {
			this.remove(first);
			this.#wheel.expire(first.timed);
		}
	}
}
