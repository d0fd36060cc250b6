import type { ToWorker } from '../../shared/messages.ts';

/** How one part of the workers' state is worked out, and what happens when it takes effect. */
export interface SlotParts<Spec, Value> {
	/** Waits for what the specification depends on: addresses, keys. Rejects with the reason. */
	readonly gather?: (spec: Spec) => Promise<void>;
	/** Works out the workers' part from what is known now. Throws the reason. */
	readonly build: (spec: Spec) => Value;
	/** Waits until the value may serve. */
	readonly prove?: (value: Value) => Promise<void>;
	/** What one worker is asked to prepare. */
	readonly message: (value: Value, worker: number, id: number) => ToWorker;
	/** All workers are prepared: the value is in force, also for workers that start later. It must not throw. */
	readonly commit: (value: Value, spec: Spec) => void;
	/** A specification was refused. Gives up what only that one needed. @param inForce the one still in force. */
	readonly discard?: (inForce: Spec) => void;
	/** A change without a waiting caller was not taken over; it is tried again. */
	readonly onFailure: (cause: string) => void;
}

/** Asks all workers to prepare and to commit, or to discard. Rejects with the reason, and then nothing has changed. */
export type Offer = (message: (worker: number, id: number) => ToWorker, commit: () => void) => Promise<void>;

/** One part of the desired state: a specification that somebody sets, and what refreshes itself under it. */
export interface Desired<Spec> {
	/**
	 * Sets the specification. A newer one replaces one that is not being taken over yet, and both callers learn the outcome of
	 * the newer one.
	 *
	 * @returns resolves when all workers have it; rejects with the reason, and then the one before stays in force.
	 */
	set(spec: Spec): Promise<void>;
	/** An input of this part has changed. All workers get the new value, however many attempts that takes. */
	changed(): void;
}

/** A slot is dirty while the workers do not have the newest version. */
export class Slot<Spec, Value> implements Desired<Spec> {
	readonly #parts: SlotParts<Spec, Value>;
	readonly #onDirty: (isSet: boolean) => void;
	/** In force; before the first commit, the initial one. */
	#spec: Spec;
	/** Set, and not being taken over yet. */
	#next: { readonly spec: Spec; readonly outcome: PromiseWithResolvers<void> } | undefined;
	/** Counts changes of what `build` reads. */
	#version = 1;
	/** The version that the workers have. */
	#taken = 0;

	/** @param onDirty there is something to take over; `isSet`: somebody waits for the outcome. */
	constructor(spec: Spec, parts: SlotParts<Spec, Value>, onDirty: (isSet: boolean) => void) {
		this.#spec = spec;
		this.#parts = parts;
		this.#onDirty = onDirty;
	}

	get isDirty(): boolean {
		return this.#next !== undefined || this.#taken < this.#version;
	}

	set(spec: Spec): Promise<void> {
		const outcome = this.#next?.outcome ?? Promise.withResolvers<void>();
		this.#next = { spec, outcome };
		this.#onDirty(true);
		return outcome.promise;
	}

	changed(): void {
		this.#version++;
		this.#onDirty(false);
	}

	/**
	 * Takes over the newest version. Must not be called while it runs.
	 *
	 * @throws the reason if no caller waits for the outcome.
	 */
	async takeOver(offer: Offer): Promise<void> {
		const { gather, build, prove, message, commit, discard } = this.#parts;
		const next = this.#next;
		this.#next = undefined;
		const spec = next === undefined ? this.#spec : next.spec;
		try {
			await gather?.(spec);
			const version = this.#version;
			const value = build(spec);
			await prove?.(value);
			await offer(
				(worker, id) => message(value, worker, id),
				() => {
					this.#spec = spec;
					this.#taken = version;
					commit(value, spec);
				},
			);
			next?.outcome.resolve();
		} catch (error) {
			discard?.(this.#spec);
			if (next === undefined) throw error;
			next.outcome.reject(error as Error);
		}
	}

	failed(cause: string): void {
		this.#parts.onFailure(cause);
	}

	/** Takes over nothing more. */
	stop(reason: Error): void {
		this.#next?.outcome.reject(reason);
		this.#next = undefined;
	}
}
