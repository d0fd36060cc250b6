/** A text that identifies the state of a file, by path. */
export type Stamps = ReadonlyMap<string, string>;

/**
 * Decides, by looks at a steady pace, when to read changed files again. Several files that change one after the other are
 * one change, and no file is read while somebody is still writing it: so nothing happens until two looks in a row have found
 * all of them unchanged.
 */
export class FileChanges {
	/** As they were when they were last read; nothing is known of files that are not in it. */
	#read: Stamps = new Map();
	#lastLook: Stamps = new Map();

	/** These files are about to be read; nothing is known of others from here on. */
	reading(stamps: Stamps): void {
		this.#read = stamps;
	}

	/** Only these are watched from now on, and those that are new are about to be read. */
	follow(paths: readonly string[], stamps: Stamps): void {
		const known = [...this.#read].filter(([path]) => paths.includes(path));
		this.#read = new Map([...stamps, ...known]);
	}

	/**
	 * @param stamps of all the files that are watched.
	 * @returns the files that have changed since they were last read, once all are still; those count as read then, so that a
	 *   reload that fails over them is not tried again before the next change.
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
