import type { Timers } from '../timers.ts';
import { type Offer, Slot, type SlotParts } from './slot.ts';

export interface ReconcilerParts {
	/** One round with all workers. Rounds do not overlap. */
	readonly offer: Offer;
	readonly timers: Pick<Timers, 'after'>;
}

/** Pause before a failed change is tried again, ms. */
export const RETRY_MS = 500;

interface Task {
	readonly slot: Pick<Slot<never, never>, 'isDirty' | 'takeOver' | 'failed' | 'stop'>;
	state: 'idle' | 'running' | 'waiting to retry';
	retryNow: () => void;
}

/**
 * The desired state of the workers, in slots, and the one loop that brings the workers to it. As with a controller of Kubernetes, only
 * the newest state counts, not each step on the way there.
 *
 * Each slot is taken over by all workers or by none, and independently of the others: slots are prepared at the same time, since
 * probes and name look-ups take seconds, and one slot after the other is offered to the workers.
 */
export class Reconciler {
	readonly #parts: ReconcilerParts;
	readonly #tasks: Task[] = [];
	#phase: 'starting' | 'serving' | 'stopped' = 'starting';
	/** Ends with the last round that was asked for. */
	#round: Promise<unknown> = Promise.resolve();

	constructor(parts: ReconcilerParts) {
		this.#parts = parts;
	}

	/** @param spec the first specification. */
	add<Spec, Value>(spec: Spec, parts: SlotParts<Spec, Value>): Slot<Spec, Value> {
		const slot = new Slot(spec, parts, (isSet) => this.#wake(task, isSet));
		const task: Task = { slot, state: 'idle', retryNow: () => {} };
		this.#tasks.push(task);
		return slot;
	}

	/**
	 * Takes over the initial state of the first workers. Call it before there are any.
	 *
	 * @throws the reason why a slot cannot be worked out.
	 */
	async start(): Promise<void> {
		await Promise.all(this.#tasks.map(({ slot }) => slot.takeOver(this.#offer)));
	}

	/** All workers have started: from here on they get what changes, and what has changed since `start`. */
	serve(): void {
		if (this.#phase === 'stopped') return;
		this.#phase = 'serving';
		for (const task of this.#tasks) this.#wake(task, false);
	}

	/** Starts nothing more. A round with the workers that is under way ends normally. */
	stop(): void {
		this.#phase = 'stopped';
		for (const { slot, retryNow } of this.#tasks) {
			slot.stop(shuttingDown());
			retryNow();
		}
	}

	#wake(task: Task, isSet: boolean): void {
		if (this.#phase === 'stopped') task.slot.stop(shuttingDown());
		if (this.#phase !== 'serving') return;
		// A change waits for its pause; a caller that waits for the outcome does not.
		if (task.state === 'idle') void this.#reconcile(task);
		else if (isSet) task.retryNow();
	}

	async #reconcile(task: Task): Promise<void> {
		const { slot } = task;
		task.state = 'running';
		while (slot.isDirty && this.#phase === 'serving') {
			try {
				await slot.takeOver(this.#offer);
			} catch (error) {
				if (this.#isStopped) break;
				slot.failed((error as Error).message);
				await this.#pause(task);
			}
		}
		task.state = 'idle';
	}

	get #isStopped(): boolean {
		return this.#phase === 'stopped';
	}

	#pause(task: Task): Promise<void> {
		return new Promise((resolve) => {
			const proceed = () => {
				cancel();
				task.state = 'running';
				task.retryNow = () => {};
				resolve();
			};
			const cancel = this.#parts.timers.after(RETRY_MS, proceed);
			task.state = 'waiting to retry';
			task.retryNow = proceed;
		});
	}

	readonly #offer: Offer = (message, commit) => {
		const round = this.#round.then(() => {
			if (this.#isStopped) throw shuttingDown();
			return this.#parts.offer(message, commit);
		});
		this.#round = round.catch(() => {});
		return round;
	};
}

function shuttingDown(): Error {
	return new Error('the proxy is shutting down');
}
