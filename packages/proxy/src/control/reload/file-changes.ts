/** A text that identifies the state of a file, by path. */
export type Stamps = ReadonlyMap<string, string>;

/**
 * Decides, by regular checks, when to read changed files again. Several files that change one after the other are one change, and
 * no file may be read while it is being written. So nothing happens until two consecutive checks find all files unchanged.
 */
export class FileChanges {
	/** The state in which each file was last read. */
	#read: Stamps = new Map();
	#lastLook: Stamps = new Map();

	/** These files are about to be read; others are forgotten. */
	reading(stamps: Stamps): void {
		this.#read = stamps;
	}

	/** From now on watches only these files. New ones are about to be read. */
	follow(paths: readonly string[], stamps: Stamps): void {
		const known = [...this.#read].filter(([path]) => paths.includes(path));
		this.#read = new Map([...stamps, ...known]);
	}

	/**
	 * @param stamps of all watched files.
	 * @returns the files that have changed since they were last read, once all files have stopped changing. They then count as read,
	 *   so a reload that fails because of them is not repeated before the next change.
	 */
	look(stamps: Stamps): string[] {
		const still = differences(stamps, this.#lastLook).length === 0;
		this.#lastLook = stamps;
		const changed = differences(stamps, this.#read);
		if (!still || changed.length === 0) return [];
		this.#read = stamps;
		return changed;
	}
}

function differences(now: Stamps, before: Stamps): string[] {
	return [...now.keys()].filter((path) => now.get(path) !== before.get(path));
}
