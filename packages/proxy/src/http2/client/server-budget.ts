import { ConnectionError } from '../errors.ts';
import { CODE } from '../frame-format.ts';
import { vainPriceOf } from '../head-price.ts';
import { TokenBucket } from '../token-bucket.ts';

/**
 * Bounds the work that a server can cause with unsolicited frames, which are cheap one by one and a flood in large numbers. A token
 * is about a microsecond. Requests and responses earn tokens for the frames that they cause.
 */

/** Tokens at the beginning of a connection, and tokens gained in a second. */
const SERVER_BURST = 10_000;
const SERVER_TOKENS_PER_SECOND = 2_000;

export const COSTS = {
	ping: 1,
	goaway: 1,
	windowUpdate: 1,
	/** Each is acknowledged, and may change the windows of all streams. */
	settings: 10,
	/** An empty DATA frame that does not end its stream has no purpose. */
	emptyData: 4,
	unknown: 1,
	/** Useless bytes that cost one token. */
	vainBytes: 256,
	/** Frames for ended streams: some were already on their way. */
	lateReset: 1,
	lateHead: 1,
	lateData: 1 / 4,
	lateDataBytes: 16_384,
	/** Bytes of requests' bodies that earn a token: some servers open both windows every 4 KiB. */
	bytesPerToken: 2_048,
	/**
	 * Tokens for each DATA frame of a request, however short: some servers open both windows and send a ping with each (gRPC).
	 * Otherwise one client's small messages would end the connection, and with it the requests of all clients.
	 */
	earnedByUpload: 3,
	/** Tokens for each DATA frame of a response: servers that measure the path send a ping with each piece of a body (gRPC). */
	earnedByData: 2,
	/** DATA frames with less data than this cost the share a part of a token: a whole one at a byte. */
	smallData: 256,
	/** Price of a read (`PacedReads`). One with a message for an open response costs only the message: some servers send each in a TLS record. */
	read: 2,
	earnedByResponse: 8,
} as const;

/** The connection's part of its thread. */
export interface ThreadShare {
	/** It is used up: the connection must be read later. */
	readonly isOverdrawn: boolean;
	spend(tokens: number): void;
	release(tokens: number): void;
	/** Spends for this turn of the event loop only. @returns whether this is the first time in the turn. */
	lend(tokens: number): boolean;
}

/** For connections that carry a single response within a time limit. */
export const UNSHARED: ThreadShare = { isOverdrawn: false, spend() {}, release() {}, lend: () => false };

/**
 * Each frame is charged to the connection's share of its thread; once that is used up, the connection is read later. A frame that no
 * response needs is also charged to this budget; once that is used up, the connection ends.
 */
export class ServerBudget {
	readonly #share: ThreadShare;
	readonly #tokens = new TokenBucket(SERVER_BURST, SERVER_TOKENS_PER_SECOND);
	/** Reads whose price can still be given back: the last one, and those that wait with it. */
	#readsDue = 0;

	constructor(share: ThreadShare) {
		this.#share = share;
	}

	/** A read has been charged to the share. @param isHeld it waits behind another. */
	read(isHeld: boolean): void {
		this.#readsDue = isHeld ? this.#readsDue + 1 : 1;
	}

	/** @param now monotonic milliseconds. @throws ConnectionError ENHANCE_YOUR_CALM. */
	take(tokens: number, now: number): void {
		this.#share.spend(tokens);
		this.#take(tokens, now);
	}

	#take(tokens: number, now: number): void {
		if (this.#tokens.take(tokens, now)) return;
		throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, 'control-flood', 'too many frames that belong to no response');
	}

	/**
	 * A head for a stream that has ended. Clients may cancel many requests at once, whose heads are all on their way.
	 *
	 * @param isDue the server may have sent it before it heard of the reset. @throws ConnectionError ENHANCE_YOUR_CALM.
	 */
	lateHead(price: number, isDue: boolean, now: number): void {
		const vain = vainPriceOf(price);
		this.#share.spend(vain);
		this.#take(isDue ? COSTS.lateHead : vain, now);
	}

	/**
	 * An interim response. Some servers send one with each response, with fields that are new each time: the first one costs only the share.
	 *
	 * @param earlier how many the stream has had before. @throws ConnectionError ENHANCE_YOUR_CALM.
	 */
	interim(price: number, earlier: number, now: number): void {
		this.#share.spend(price);
		if (earlier > 0) this.#take(vainPriceOf(price), now);
	}

	/** A complete DATA frame of an open response. @param length bytes of its data, at least one, without padding. */
	data(length: number): void {
		this.#tokens.release(COSTS.earnedByData);
		if (length >= COSTS.smallData) return this.#share.release(COSTS.earnedByData);
		this.#share.spend(1 - length / COSTS.smallData);
		if (this.#readsDue === 0) return;
		this.#readsDue--;
		this.#share.release(COSTS.read);
	}

	response(): void {
		this.earn(COSTS.earnedByResponse);
		this.#share.release(COSTS.earnedByResponse);
	}

	earn(tokens: number): void {
		this.#tokens.release(tokens);
	}
}
