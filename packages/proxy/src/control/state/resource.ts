import type { ToWorker } from '../../shared/messages.ts';

/** How the value of a resource is made from its specification, and what happens when it takes effect. */
export interface ResourceParts<Spec, Value> {
	/** Waits for the inputs of the specification: addresses, keys. Rejects with the reason. */
	readonly gather?: (spec: Spec) => Promise<void>;
	/** Makes the value for the workers from the current inputs. Throws the reason. */
	readonly build: (spec: Spec) => Value;
	/** Waits until the value may take effect. */
	readonly prove?: (value: Value) => Promise<void>;
	/** The `prepare-*` message for one worker. */
	readonly message: (value: Value, worker: number, id: number) => ToWorker;
	/** All workers are prepared: the value takes effect, also for workers that start later. It must not throw. */
	readonly commit: (value: Value, spec: Spec) => void;
	/** A specification was refused: drops the inputs that only it needed. @param inForce the current one. */
	readonly discard?: (inForce: Spec) => void;
	/** A change without a waiting caller has failed, and will be tried again. */
	readonly onFailure: (cause: string) => void;
}

/** Asks all workers to prepare, then to commit or to discard. Rejects with the reason; nothing has changed then. */
export type Offer = (message: (worker: number, id: number) => ToWorker, commit: () => void) => Promise<void>;

/** One resource of the desired state: a specification that callers set, with inputs that refresh themselves. */
export interface Desired<Spec> {
	/**
	 * Sets the specification. It replaces an earlier one that is still waiting, and both callers get the outcome of the newer one.
	 *
	 * @returns resolves when all workers have it; rejects with the reason, and the earlier one stays.
	 */
	set(spec: Spec): Promise<void>;
	/** An input has changed. All workers get the new value, however many attempts that takes. */
	changed(): void;
}

/** A part of the desired state. It is dirty while the workers do not have its newest version. */
export class Resource<Spec, Value> implements Desired<Spec> {
	readonly #parts: ResourceParts<Spec, Value>;
	readonly #onDirty: (isSet: boolean) => void;
	/** The committed specification; before the first commit, the initial one. */
	#spec: Spec;
	/** The specification that waits to be taken over. */
	#next: { readonly spec: Spec; readonly outcome: PromiseWithResolvers<void> } | undefined;
	/** Counts changes of the inputs of `build`. */
	#version = 1;
	/** The version that the workers have. */
	#taken = 0;

	/** @param onDirty called when there is a newer version; `isSet`: a caller waits for the outcome. */
	constructor(spec: Spec, parts: ResourceParts<Spec, Value>, onDirty: (isSet: boolean) => void) {
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

	/** Rejects the waiting specification. */
	stop(reason: Error): void {
		this.#next?.outcome.reject(reason);
		this.#next = undefined;
	}
}
