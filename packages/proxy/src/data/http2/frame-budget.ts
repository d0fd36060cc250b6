import { ConnectionError } from '../../http2/errors.ts';
import { CODE } from '../../http2/frame-format.ts';
import { COSTS, PeerBudget, type ThreadShare, vainPriceOf } from '../../http2/peer-budget.ts';
import { TokenBucket } from '../../shared/token-bucket.ts';
import type { Stream } from './stream.ts';

/**
 * Streams of a connection that end in a reset, at first and per second: the client's (CVE-2023-44487) or one of ours that it has
 * provoked (CVE-2025-8671). As in nghttp2, but with half as many more per second: a proxy in front of us may cancel for many users.
 */
const RESET_BURST = 1_000;
const RESETS_PER_SECOND = 50;

/** Tokens of the share that an admitted request's trailers may cost without being paid for, and their bytes; from there on, bytes per further token. */
const FREE_TRAILERS = 20;
const FREE_BYTES = 1024;
const LONG_TRAILER_BYTES = 32;
/** Tokens of the share for an admitted request that is reset before its response is out: an HTTP/1.1 upstream's connection is closed for it. */
const ADMITTED_RESET = 50;
/** Tokens of the share for a tiny message, which goes to the upstream in a frame of its own. */
const SMALL_DATA_PRICE = 3;
/** The same for the budget: connections with many small messages are read later before they are ended. */
const SMALL_DATA_BUDGET = 1 / 4;
/** Tokens for a response that was taken. */
const RESPONDED = 4;

/** Limits the work that a client causes in addition to its requests. Responses that it takes earn tokens. */
export class FrameBudget extends PeerBudget {
	readonly #resets = new TokenBucket(RESET_BURST, RESETS_PER_SECOND);

	constructor(share: ThreadShare) {
		super(share, 'too many control frames');
	}

	/** A head has been decoded. Only the share is charged until it is known whether there is a request. */
	head(price: number): void {
		this.share.spend(price);
	}

	/** The head is useless: its stream has ended, it follows our GOAWAY, or it is malformed. @throws ConnectionError ENHANCE_YOUR_CALM. */
	vainHead(price: number, now: number): void {
		const vain = vainPriceOf(price);
		this.share.release(price - vain);
		this.takeFrames(vain, now, 'too many heads that are not requests');
	}

	/**
	 * The head was trailers that have ended a request. A few are part of it.
	 *
	 * @param bytes of their names and values.
	 * @param stream of the request. If it is not admitted yet, it may still be: the end of the turn decides.
	 */
	trailers(price: number, bytes: number, stream: Stream): void {
		const free = Math.min(price, FREE_TRAILERS);
		if (stream.isAdmitted) this.share.release(free);
		else stream.headPrice += free;
		if (bytes > FREE_BYTES) this.share.spend((bytes - FREE_BYTES) / LONG_TRAILER_BYTES);
	}

	/** @param isAdmitted its request has got back the tokens of its head. @throws ConnectionError ENHANCE_YOUR_CALM. */
	reset(now: number, isAdmitted: boolean): void {
		if (isAdmitted) this.share.spend(ADMITTED_RESET);
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
		if (length >= COSTS.smallData || endStream) return;
		if (length === 0) return this.take(COSTS.emptyData, now);
		const part = 1 - length / COSTS.smallData;
		this.share.spend(part * SMALL_DATA_PRICE);
		if (!isOfTunnel) this.takeFrames(part * SMALL_DATA_BUDGET, now, 'too many small DATA frames');
	}

	/** A DATA frame begins that is dropped after an early response. `Streams` limits the amount, the share the rate. */
	unwantedData(length: number): void {
		this.share.spend(length / COSTS.vainBytes);
	}

	override lateData(length: number, now: number): void {
		this.share.spend(length / COSTS.vainBytes);
		this.takeFrames(COSTS.lateData + length / COSTS.lateDataBytes, now, 'too much DATA for streams that have ended');
	}

	override sent(bytes: number): void {
		const tokens = bytes / COSTS.bytesPerToken;
		this.frames.release(tokens);
		this.share.release(tokens);
	}

	responded(): void {
		this.frames.release(RESPONDED);
	}
}
