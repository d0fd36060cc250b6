import { closeSync, openSync } from 'node:fs';
import { devNull } from 'node:os';

/**
 * A descriptor kept for the moment when there is no other one: giving it up lets one waiting connection be accepted, and
 * closed, where it would else hang in the kernel's queue. libuv does the same, but has one chance: if another thread takes
 * the descriptor before libuv has it back, it sheds nothing any more and reports each attempt as an error.
 */
export class SpareDescriptor {
	#descriptor: number | undefined;

	constructor() {
		this.recover();
	}

	/** @returns whether there was one to give up. */
	giveUp(): boolean {
		if (this.#descriptor === undefined) return false;
		closeSync(this.#descriptor);
		this.#descriptor = undefined;
		return true;
	}

	/** Takes one again if one is to be had. */
	recover(): void {
		if (this.#descriptor !== undefined) return;
		try {
			this.#descriptor = openSync(devNull, 'r');
		} catch {
			// Not yet; the next connection that closes leaves one.
		}
	}
}
