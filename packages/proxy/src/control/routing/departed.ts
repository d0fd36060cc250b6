/** How many names are kept after they have left the table. The first to leave is dropped first. */
const MAX_DEPARTED = 256;

/** Counters by name, for names in the table and those that have left it, so that counts go on if they come back. */
export class Departed<Kept> {
	#inForce: ReadonlyMap<string, Kept> = new Map();
	readonly #departed = new Map<string, Kept>();

	get(name: string): Kept | undefined {
		return this.#inForce.get(name) ?? this.#departed.get(name);
	}

	get values(): readonly Kept[] {
		return [...this.#inForce.values(), ...this.#departed.values()];
	}

	/** @param inForce of the table that comes into force. */
	use(inForce: ReadonlyMap<string, Kept>): void {
		for (const [name, kept] of this.#inForce) this.#departed.set(name, kept);
		for (const name of inForce.keys()) this.#departed.delete(name);
		for (const name of this.#departed.keys()) {
			if (this.#departed.size <= MAX_DEPARTED) break;
			this.#departed.delete(name);
		}
		this.#inForce = inForce;
	}
}
