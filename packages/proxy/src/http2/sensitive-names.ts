/**
 * Names of fields that are coded as never indexed (RFC 7541 section 7.1.3): a following intermediary must not index them either.
 *
 * An intermediary must keep this mark of a field that it forwards (section 6.2.3). The proxy keeps it by name: once a sender has marked a
 * field, all fields of that name are coded as never indexed. So a mark needs no place in heads, lines and memos.
 */
export class SensitiveNames {
	/** Changes with every new name. */
	version = 0;
	readonly #names = new Set(['set-cookie', 'cookie', 'authorization', ':path']);
	#areAll = false;
	readonly #memos: (() => void)[] = [];

	has(name: string): boolean {
		return this.#areAll || this.#names.has(name);
	}

	/** A sender has marked a field of this name. @param name in lower case. */
	add(name: string): void {
		if (this.has(name)) return;
		if (this.#names.size < MAX_NAMES && name.length <= MAX_LENGTH) this.#names.add(name);
		else this.#areAll = true;
		this.version++;
		for (const clear of this.#memos) clear();
	}

	/** Has a memo of coded fields cleared with every new name. */
	clears(memo: () => void): void {
		this.#memos.push(memo);
	}
}

/** Of this thread. */
export const SENSITIVE = new SensitiveNames();

/** From so many names on, all are sensitive. */
const MAX_NAMES = 256;
/** From the first longer name on, all are sensitive. Characters. */
const MAX_LENGTH = 128;
