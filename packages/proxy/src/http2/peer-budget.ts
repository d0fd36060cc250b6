import { TokenBucket } from '../shared/token-bucket.ts';
import { ConnectionError } from './errors.ts';
import { CODE } from './frame-format.ts';

/** The connection's part of its thread. A token is about a microsecond of it. */
export interface ThreadShare {
	/** It is used up: the connection must be read later. */
	readonly isOverdrawn: boolean;
	spend(tokens: number): void;
	/** Gives back tokens for work that the peer was entitled to. */
	release(tokens: number): void;
	/** Spends for this turn of the event loop only. @returns whether this is the first time in the turn. */
	lend(tokens: number): boolean;
}

/**
 * Limits the work that a peer causes in addition to requests. Cheap frames are a flood by their number.
 *
 * Each frame is charged to the connection's share of its thread; once that is used up, the connection is read later. A frame that no
 * request needs is also charged to this budget; once that is used up, the connection ends. Messages give tokens for the frames that
 * they require.
 */
export abstract class PeerBudget {
	protected readonly share: ThreadShare;
	protected readonly frames = new TokenBucket(FRAME_BURST, FRAMES_PER_SECOND);
	/** What there was too much of, unless `takeFrames` says so. */
	readonly #excess: string;

	constructor(share: ThreadShare, excess: string) {
		this.share = share;
		this.#excess = excess;
	}

	/** @param bytes of the body in a DATA frame that goes out. */
	abstract sent(bytes: number): void;
	/** A DATA frame begins that was on its way when its stream ended. @param length with padding. @throws ConnectionError ENHANCE_YOUR_CALM. */
	abstract lateData(length: number, now: number): void;

	/** A frame that no request needs. @param now monotonic milliseconds. @throws ConnectionError ENHANCE_YOUR_CALM. */
	take(tokens: number, now: number): void {
		this.share.spend(tokens);
		this.takeFrames(tokens, now);
	}

	protected takeFrames(tokens: number, now: number, what = this.#excess): void {
		if (this.frames.take(tokens, now)) return;
		throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, 'control-flood', what);
	}

	/** A frame of an unknown type, or DATA for a stream that has ended long ago. @throws ConnectionError ENHANCE_YOUR_CALM. */
	unknown(length: number, now: number): void {
		this.take(COSTS.unknown + length / COSTS.vainBytes, now);
	}
}

/** Tokens that a connection begins with, and that return per second. */
const FRAME_BURST = 10_000;
const FRAMES_PER_SECOND = 2_000;

/** Tokens per frame, by kind, and bytes per token. */
export const COSTS = {
	ping: 1,
	priority: 1,
	windowUpdate: 1,
	goaway: 1,
	unknown: 1,
	reset: 1,
	/** Each is acknowledged, and may change the windows of all streams. */
	settings: 10,
	/** An empty DATA frame that does not end its stream has no purpose. */
	emptyData: 4,
	/** DATA frames with less data than this cost a part of the price: nearly all of it at a byte. Padding counts for nothing. */
	smallData: 256,
	/**
	 * Useless bytes per token, such as the payload of an unknown frame. Decrypting is the least of it: each record is a new buffer, and
	 * V8 looks through its heap after some 25 MiB of them.
	 */
	vainBytes: 256,
	/** The same for DATA that was on its way when its stream ended: a peer whose body is refused has a window of it under way. */
	lateData: 1 / 4,
	lateDataBytes: 16_384,
	/** Bytes of a body that earn its receiver a token: some open both windows every 4 KiB. */
	bytesPerToken: 2_048,
} as const;

/** Tokens for a head and its message. */
const HEAD = 12;
/** Tokens for a head that is decoded only for the tables. */
const VAIN_HEAD = 1;
/**
 * Tokens for each field of a block, and for one that is new. A field of the tables is decoded in 6 to 10 ns, a new one in up to
 * 330 ns; processing for the gates and the other side costs twice as much. Garbage collection costs as much again for new fields, which
 * live as long as the table holds them.
 */
const FIELD = 1 / 8;
const MADE = 2;
/** Bytes of a block per token, for Huffman coding and comparison. */
const BLOCK_BYTES = 256;

/** @returns tokens for a header block. @param made number of new fields. */
export function priceOfHead(bytes: number, fields: number, made: number): number {
	return HEAD + fields * FIELD + made * MADE + bytes / BLOCK_BYTES;
}

/** @param price of `priceOfHead`. @returns the price if the head belongs to no message. */
export function vainPriceOf(price: number): number {
	return price - HEAD + VAIN_HEAD;
}
