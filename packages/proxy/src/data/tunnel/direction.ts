import type { FrameFollower } from './frame-follower.ts';

/** Where the bytes of a direction go. */
export interface Outlet {
	/** @returns whether more may follow at once. */
	write(bytes: Buffer): boolean;
	/** Nothing follows. */
	end(): void;
}

/**
 * One direction of a tunnel. `passing`: bytes go out as they come. `closing`: a frame of ours stands behind the one that is under way, and is
 * the last. `ended`: nothing goes out any more, and what still comes is dropped.
 */
export class Direction {
	readonly follower: FrameFollower;
	readonly #outlet: Outlet;
	#phase: 'passing' | 'closing' | 'ended' = 'passing';
	#lastFrame: Buffer | undefined;

	constructor(follower: FrameFollower, outlet: Outlet) {
		this.follower = follower;
		this.#outlet = outlet;
	}

	get hasEnded(): boolean {
		return this.#phase === 'ended';
	}

	/** Sends what has been followed already. @returns whether more may follow at once. */
	write(bytes: Buffer): boolean {
		return bytes.length === 0 || this.#outlet.write(bytes);
	}

	/** @returns whether more may follow at once. */
	pass(bytes: Buffer): boolean {
		if (this.#phase === 'ended') return true;
		if (this.#phase === 'closing') {
			const mayGoOn = this.write(bytes.subarray(0, this.follower.follow(bytes, 0, Number.POSITIVE_INFINITY, true)));
			this.#close();
			return mayGoOn || this.hasEnded;
		}
		this.follower.follow(bytes);
		return this.#outlet.write(bytes);
	}

	/** Whoever sends in this direction has ended. */
	end(): void {
		if (this.#phase === 'ended') return;
		this.#phase = 'ended';
		this.#outlet.end();
	}

	/** Ends it behind a frame of ours, as soon as one may stand there; behind a Close that has passed, without. */
	close(lastFrame: Buffer): void {
		if (this.#phase !== 'passing') return;
		this.#phase = 'closing';
		this.#lastFrame = lastFrame;
		this.#close();
	}

	#close(): void {
		if (!this.follower.isBetweenFrames) return;
		if (!this.follower.hasClosed) this.#outlet.write(this.#lastFrame!);
		this.end();
	}
}
