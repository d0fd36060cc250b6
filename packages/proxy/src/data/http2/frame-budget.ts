import { ConnectionError } from '../../http2/errors.ts';
import { CODE } from '../../http2/frame-format.ts';
import { vainPriceOf } from '../../http2/head-price.ts';
import { TokenBucket } from '../../http2/token-bucket.ts';
import type { ConnectionShare } from '../loop/read-share.ts';
import type { Stream } from './stream.ts';

/**
 * Limits the work that a client causes in addition to its requests. Cheap frames are a flood by their number. Answers that a client
 * takes give it tokens for the window updates that they require.
 *
 * Each frame is charged to the connection's share of the worker (`ConnectionShare`); once that is used up, the connection is read
 * later. A frame that no request needs is also charged to this budget; once that is used up, the connection ends.
 */

/** Tokens that a connection begins with, and that return per second. A token is about a microsecond of a worker's time. */
export const FRAME_BURST = 10_000;
export const FRAMES_PER_SECOND = 2_000;
/**
 * The same for streams that end in a reset: the client's (CVE-2023-44487) or one of ours that it has provoked
 * (CVE-2025-8671). As in nghttp2, but with half as many more per second: a proxy in front of us may cancel for many users.
 */
export const RESET_BURST = 1_000;
export const RESETS_PER_SECOND = 50;

/** Tokens per frame, by kind. */
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
/** Tokens of the share that an admitted request's trailers may cost without being paid for, and their bytes; from there on, bytes per further token. */
const FREE_TRAILERS = 20;
const FREE_BYTES = 1024;
const LONG_TRAILER_BYTES = 32;
/** Tokens of the share for an admitted request that is reset before its response is out: an HTTP/1.1 upstream's connection is closed for it. */
const ADMITTED_RESET = 50;
/**
 * Useless bytes per token, such as the payload of an unknown frame. Decrypting is the least of it: each record is a
 * new buffer, and V8 looks through its heap after some 25 MiB of them.
 */
export const VAIN_BYTES = 256;
/** The same for DATA that was on its way when its stream ended: a client whose upload is refused has a window of it under way. */
const LATE_DATA_BYTES = 16_384;
const LATE_DATA = 1 / 4;
/** An empty DATA frame that does not end its stream has no meaning. */
const EMPTY_DATA = 4;
/** DATA frames with less data than this cost a part of `SMALL_DATA_PRICE`: nearly all of it at a byte. Padding counts for nothing. */
const SMALL_DATA = 256;
/** Tokens of the share for a tiny message, which goes to the upstream in a frame of its own. */
const SMALL_DATA_PRICE = 3;
/** The same for the budget: connections with many small messages are read later before they are ended. */
const SMALL_DATA_BUDGET = 1 / 4;
/** Bytes of a response that earn a client one token: some clients open both windows every 4 KiB. */
const BYTES_PER_TOKEN = 2048;
/** Tokens for a response that was taken. */
const ANSWERED = 4;

export class FrameBudget {
	readonly #share: ConnectionShare;
	readonly #frames = new TokenBucket(FRAME_BURST, FRAMES_PER_SECOND);
	readonly #resets = new TokenBucket(RESET_BURST, RESETS_PER_SECOND);

	constructor(share: ConnectionShare) {
		this.#share = share;
	}

	/** A frame that no request needs. @param now monotonic milliseconds. @throws ConnectionError ENHANCE_YOUR_CALM. */
	take(tokens: number, now: number): void {
		this.#share.spend(tokens);
		this.#takeFrames(tokens, now, 'too many control frames');
	}

	#takeFrames(tokens: number, now: number, what: string): void {
		if (this.#frames.take(tokens, now)) return;
		throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, 'control-flood', what);
	}

	/** A head has been decoded. Only the share is charged until it is known whether there is a request. */
	head(price: number): void {
		this.#share.spend(price);
	}

	/** The head is useless: its stream has ended, it follows our GOAWAY, or it is malformed. @throws ConnectionError ENHANCE_YOUR_CALM. */
	vainHead(price: number, now: number): void {
		const vain = vainPriceOf(price);
		this.#share.release(price - vain);
		this.#takeFrames(vain, now, 'too many heads that are not requests');
	}

	/**
	 * The head was trailers that have ended a request. A few are part of it.
	 *
	 * @param bytes of their names and values.
	 * @param stream of the request. If it is not admitted yet, it may still be: the end of the turn decides.
	 */
	trailers(price: number, bytes: number, stream: Stream): void {
		const free = Math.min(price, FREE_TRAILERS);
		if (stream.isAdmitted) this.#share.release(free);
		else stream.headPrice += free;
		if (bytes > FREE_BYTES) this.#share.spend((bytes - FREE_BYTES) / LONG_TRAILER_BYTES);
	}

	/** A frame of an unknown type, or DATA for a stream that has ended long ago. @throws ConnectionError ENHANCE_YOUR_CALM. */
	unknown(length: number, now: number): void {
		this.take(ControlCosts.unknown + length / VAIN_BYTES, now);
	}

	/** @param isAdmitted its request has got back the tokens of its head. @throws ConnectionError ENHANCE_YOUR_CALM. */
	reset(now: number, isAdmitted: boolean): void {
		if (isAdmitted) this.#share.spend(ADMITTED_RESET);
		if (this.#resets.take(1, now)) return;
		throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, 'reset-flood', 'too many resets');
	}

	/**
	 * A complete DATA frame has arrived.
	 *
	 * @param length bytes of its data, without padding.
	 * @param isOfTunnel messages of any size are allowed; too many are read later.
	 * @throws ConnectionError ENHANCE_YOUR_CALM.
	 */
	data(length: number, endStream: boolean, now: number, isOfTunnel = false): void {
		if (length >= SMALL_DATA || endStream) return;
		if (length === 0) return this.take(EMPTY_DATA, now);
		const part = 1 - length / SMALL_DATA;
		this.#share.spend(part * SMALL_DATA_PRICE);
		if (!isOfTunnel) this.#takeFrames(part * SMALL_DATA_BUDGET, now, 'too many small DATA frames');
	}

	/** A DATA frame begins that is dropped after an early response. `Streams` limits the amount, the share the rate. */
	unwantedData(length: number): void {
		this.#share.spend(length / VAIN_BYTES);
	}

	/** A DATA frame begins that was on its way when its stream ended. @param length with padding. @throws ConnectionError ENHANCE_YOUR_CALM. */
	lateData(length: number, now: number): void {
		this.#share.spend(length / VAIN_BYTES);
		this.#takeFrames(LATE_DATA + length / LATE_DATA_BYTES, now, 'too much DATA for streams that have ended');
	}

	/** @param bytes of a response's body that have gone out. */
	sent(bytes: number): void {
		const tokens = bytes / BYTES_PER_TOKEN;
		this.#frames.release(tokens);
		this.#share.release(tokens);
	}

	answered(): void {
		this.#frames.release(ANSWERED);
	}
}
