import type { FrameFollower } from './frame-follower.ts';

/** Takes the bytes of a direction. */
export interface Outlet {
	/** @returns whether more may follow at once. */
	write(bytes: Buffer): boolean;
	/** Nothing follows. */
	end(): void;
}

/**
 * One direction of a tunnel. `passing`: bytes go out as they come. `closing`: the proxy's last frame follows the
 * current one. `ended`: nothing more goes out, and further bytes are dropped.
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

	/** Sends bytes that the follower has already seen. @returns whether more may follow at once. */
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

	/** The sender of this direction has ended. */
	end(): void {
		if (this.#phase === 'ended') return;
		this.#phase = 'ended';
		this.#outlet.end();
	}

	/** Ends the direction after a frame of ours, at the next frame boundary; without one if a Close has passed. */
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

/**
 * A Close frame (RFC 6455 section 5.5.1).
 *
 * @param code section 7.4.1.
 * @param mask of a client's frame, 4 unpredictable bytes (section 5.3); `undefined`: a server's frame.
 */
export function closeFrame(code: number, mask: Buffer | undefined): Buffer {
	if (mask === undefined) return Buffer.from([FINAL_CLOSE, CODE_BYTES, code >> 8, code & 0xff]);
	const masked = [(code >> 8) ^ mask[0]!, (code & 0xff) ^ mask[1]!];
	return Buffer.from([FINAL_CLOSE, MASKED | CODE_BYTES, ...mask, ...masked]);
}

const FINAL_CLOSE = 0x88;
const MASKED = 0x80;
const CODE_BYTES = 2;
