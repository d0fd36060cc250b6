import { ConnectionError } from '../errors.ts';
import { CODE } from '../frame-format.ts';
import { TokenBucket } from '../token-bucket.ts';

/**
 * What a server may have its client do beyond what the client has asked for. Frames that cost little each are a flood by their number.
 * A token is about a microsecond; what is asked for earns some, for the frames that it makes necessary.
 */

/** Tokens that a connection begins with, and that come back in a second. */
export const SERVER_BURST = 10_000;
export const SERVER_TOKENS_PER_SECOND = 2_000;

export const COSTS = {
	ping: 1,
	goaway: 1,
	windowUpdate: 1,
	interim: 1,
	/** Each is acknowledged, and may change every stream's window. */
	settings: 10,
	/** An empty DATA frame that does not end its stream says nothing at all. */
	emptyData: 4,
	unknown: 1,
	/** Bytes for a token that are read in vain. */
	vainBytes: 256,
	/** For streams that have ended: some of that was on its way. */
	lateReset: 1,
	lateHead: 2,
	lateData: 1 / 4,
	lateDataBytes: 16_384,
	/** Bytes of requests' bodies that earn a token: some servers open both windows every 4 KiB. */
	bytesPerToken: 2_048,
	/**
	 * The same for each DATA frame, however short: some servers open both windows with each, and send a ping (gRPC's). Otherwise one client's
	 * small messages would end the connection, and with it everybody's requests.
	 */
	earnedByUpload: 3,
	/** Servers that measure the path send a ping with each piece of a body (gRPC's do). */
	earnedByData: 2,
	earnedByResponse: 8,
} as const;

export class ServerBudget {
	readonly #tokens = new TokenBucket(SERVER_BURST, SERVER_TOKENS_PER_SECOND);

	/** @param now monotonic milliseconds. @throws ConnectionError ENHANCE_YOUR_CALM. */
	take(tokens: number, now: number): void {
		if (this.#tokens.take(tokens, now)) return;
		throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, 'control-flood', 'too many frames that no response needs');
	}

	earn(tokens: number): void {
		this.#tokens.release(tokens);
	}
}
