import { ConnectionError } from './errors.ts';
import { CODE } from './frame-format.ts';
import { TokenBucket } from './token-bucket.ts';

/**
 * What a client may have us do beside its requests. Frames that cost little each are a flood by their number; the answers that
 * a client takes give it tokens for the window updates that they make necessary.
 */

/** Tokens that a connection begins with, and that come back in a second. A token is about a microsecond of a worker's time. */
export const FRAME_BURST = 10_000;
export const FRAMES_PER_SECOND = 2_000;
/**
 * The same for streams that end in a reset: the client's (CVE-2023-44487) or one of ours that it has provoked
 * (CVE-2025-8671). As nghttp2 has it, with half as many more in a second: a proxy before us may cancel for many users.
 */
export const RESET_BURST = 1_000;
export const RESETS_PER_SECOND = 50;

/** Tokens for a frame of a kind. */
export const ControlCosts = {
	ping: 1,
	priority: 1,
	windowUpdate: 1,
	goaway: 1,
	unknown: 1,
	reset: 1,
	// Each is acknowledged, and may change every stream's window.
	settings: 10,
} as const;
/** An empty DATA frame that does not end its stream says nothing at all. */
const EMPTY_DATA = 4;
/** DATA frames below this many bytes cost a token, or the part of it that their length leaves. */
const SMALL_DATA = 256;
/** Bytes of an answer for which a client gets a token: some of them open both windows every 4 KiB. */
const BYTES_PER_TOKEN = 2048;
/** Tokens for an answer that was taken. */
const ANSWERED = 4;

export class FrameBudget {
	readonly #frames = new TokenBucket(FRAME_BURST, FRAMES_PER_SECOND);
	readonly #resets = new TokenBucket(RESET_BURST, RESETS_PER_SECOND);

	/** @param now monotonic milliseconds. @throws ConnectionError ENHANCE_YOUR_CALM. */
	take(tokens: number, now: number): void {
		if (this.#frames.take(tokens, now)) return;
		throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, 'control-flood', 'too many control frames');
	}

	/** @throws ConnectionError ENHANCE_YOUR_CALM. */
	reset(now: number): void {
		if (this.#resets.take(1, now)) return;
		throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, 'reset-flood', 'too many resets');
	}

	/** @throws ConnectionError ENHANCE_YOUR_CALM. */
	data(length: number, endStream: boolean, now: number): void {
		if (length >= SMALL_DATA || endStream) return;
		this.take(length === 0 ? EMPTY_DATA : 1 - length / SMALL_DATA, now);
	}

	/** @param bytes of an answer's body that have gone out. */
	sent(bytes: number): void {
		this.#frames.giveBack(bytes / BYTES_PER_TOKEN);
	}

	answered(): void {
		this.#frames.giveBack(ANSWERED);
	}
}
