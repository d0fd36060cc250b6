import { COSTS, PeerBudget, type ThreadShare, vainPriceOf } from '../peer-budget.ts';

/** Prices of a server's frames in addition to `COSTS`, in tokens. */
export const SERVER_COSTS = {
	/** A head for an ended stream that was already on its way. */
	lateHead: 1,
	/**
	 * Tokens for each DATA frame of a request, however short: some servers open both windows and send a ping with each (gRPC).
	 * Otherwise one client's small messages would end the connection, and with it the requests of all clients.
	 */
	earnedByUpload: 3,
	/** Tokens for each DATA frame of a response: servers that measure the path send a ping with each piece of a body (gRPC). */
	earnedByData: 2,
	/** Price of a read (`PacedReads`). One with a message for an open response costs only the message: some servers send each in a TLS record. */
	read: 2,
	earnedByResponse: 8,
} as const;

/** For connections that carry a single response within a time limit. */
export const UNSHARED: ThreadShare = { isOverdrawn: false, spend() {}, release() {}, lend: () => false };

/** Limits the work that a server causes with unsolicited frames. */
export class ServerBudget extends PeerBudget {
	/** Reads whose price can still be given back: the last one, and those that wait with it. */
	#readsDue = 0;

	constructor(share: ThreadShare) {
		super(share, 'too many frames that belong to no response');
	}

	/** A read has been charged to the share. @param isHeld it waits behind another. */
	read(isHeld: boolean): void {
		this.#readsDue = isHeld ? this.#readsDue + 1 : 1;
	}

	override sent(bytes: number): void {
		this.frames.release(SERVER_COSTS.earnedByUpload + bytes / COSTS.bytesPerToken);
	}

	override lateData(length: number, now: number): void {
		this.take(COSTS.lateData + length / COSTS.lateDataBytes, now);
	}

	/**
	 * A head for a stream that has ended. Clients may cancel many requests at once, whose heads are all on their way.
	 *
	 * @param isDue the server may have sent it before it heard of the reset. @throws ConnectionError ENHANCE_YOUR_CALM.
	 */
	lateHead(price: number, isDue: boolean, now: number): void {
		const vain = vainPriceOf(price);
		this.share.spend(vain);
		this.takeFrames(isDue ? SERVER_COSTS.lateHead : vain, now);
	}

	/**
	 * An interim response. Some servers send one with each response, with fields that are new each time: the first one costs only the share.
	 *
	 * @param earlier how many the stream has had before. @throws ConnectionError ENHANCE_YOUR_CALM.
	 */
	interim(price: number, earlier: number, now: number): void {
		this.share.spend(price);
		if (earlier > 0) this.takeFrames(vainPriceOf(price), now);
	}

	/** A complete DATA frame of an open response. @param length bytes of its data, at least one, without padding. */
	data(length: number): void {
		this.frames.release(SERVER_COSTS.earnedByData);
		if (length >= COSTS.smallData) return this.share.release(SERVER_COSTS.earnedByData);
		this.share.spend(1 - length / COSTS.smallData);
		if (this.#readsDue === 0) return;
		this.#readsDue--;
		this.share.release(SERVER_COSTS.read);
	}

	response(): void {
		this.frames.release(SERVER_COSTS.earnedByResponse);
		this.share.release(SERVER_COSTS.earnedByResponse);
	}
}
