/** What tells a state of a file from any other, by path. */
export type Stamps = ReadonlyMap<string, string>;

/**
 * When changed files are to be read again, decided by looks that come at a steady pace. Several files that change one after
 * the other are one change, and none is read that somebody is still writing: so nothing happens before two looks in a row
 * have found all of them the same.
 */
export class FileChanges {
	/** As they were when they were last read; nothing is known of files that are not in it. */
	#read: Stamps = new Map();
	#lastLook: Stamps = new Map();

	/** Files are about to be read; of all others nothing is known from here on. */
	reading(stamps: Stamps): void {
		this.#read = stamps;
	}

	/** Nothing else is watched any more, and these are about to be read, where they were not watched before. */
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
