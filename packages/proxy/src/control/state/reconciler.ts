import type { Timers } from '../timers.ts';
import { type Offer, Resource, type ResourceParts } from './resource.ts';

interface ReconcilerParts {
	/** One round with all workers. Rounds do not overlap. */
	readonly offer: Offer;
	readonly timers: Pick<Timers, 'after'>;
}

/** Pause before a failed change is tried again, ms. */
export const RETRY_MS = 500;

interface Task {
	readonly resource: Pick<Resource<never, never>, 'isDirty' | 'takeOver' | 'failed' | 'stop'>;
	state: 'idle' | 'running' | 'waiting to retry';
	retryNow: () => void;
}

/**
 * The desired state of the workers, as resources, and the loop that brings the workers to it. As in a controller of Kubernetes,
 * only the newest state counts, not the steps on the way.
 *
 * All workers take a resource over, or none does, independently of other resources. Resources are prepared at the same time, since
 * probes and name look-ups take seconds; they are offered to the workers one after the other.
 */
export class Reconciler {
	readonly #parts: ReconcilerParts;
	readonly #tasks: Task[] = [];
	#phase: 'starting' | 'serving' | 'stopped' = 'starting';
	/** Resolves with the last requested round. */
	#round: Promise<unknown> = Promise.resolve();

	constructor(parts: ReconcilerParts) {
		this.#parts = parts;
	}

	/** @param spec the first specification. */
	add<Spec, Value>(spec: Spec, parts: ResourceParts<Spec, Value>): Resource<Spec, Value> {
		const resource = new Resource(spec, parts, (isSet) => this.#wake(task, isSet));
		const task: Task = { resource, state: 'idle', retryNow: () => {} };
		this.#tasks.push(task);
		return resource;
	}

	/**
	 * Takes over the initial state of the first workers. Call it before there are any.
	 *
	 * @throws the reason why the value of a resource cannot be made.
	 */
	async start(): Promise<void> {
		await Promise.all(this.#tasks.map(({ resource }) => resource.takeOver(this.#offer)));
	}

	/** All workers have started: from now on they get changes, including those since `start`. */
	serve(): void {
		if (this.#phase === 'stopped') return;
		this.#phase = 'serving';
		for (const task of this.#tasks) this.#wake(task, false);
	}

	/** Starts no more rounds. A running one ends normally. */
	stop(): void {
		this.#phase = 'stopped';
		for (const { resource, retryNow } of this.#tasks) {
			resource.stop(shuttingDown());
			retryNow();
		}
	}

	#wake(task: Task, isSet: boolean): void {
		if (this.#phase === 'stopped') task.resource.stop(shuttingDown());
		if (this.#phase !== 'serving') return;
		// A change waits for its pause; a caller that waits for the outcome does not.
		if (task.state === 'idle') void this.#reconcile(task);
		else if (isSet) task.retryNow();
	}

	async #reconcile(task: Task): Promise<void> {
		const { resource } = task;
		task.state = 'running';
		while (resource.isDirty && this.#phase === 'serving') {
			try {
				await resource.takeOver(this.#offer);
			} catch (error) {
				if (this.#isStopped) break;
				resource.failed((error as Error).message);
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
