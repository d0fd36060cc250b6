import { ConnectionError } from '../errors.ts';
import { CODE } from '../frame-format.ts';
import { TokenBucket } from '../token-bucket.ts';

/**
 * Bounds the work that a server can cause with unsolicited frames, which are cheap one by one and a flood in large numbers. A token
 * is about a microsecond. Requests and responses earn tokens for the frames that they cause.
 */

/** Tokens at the beginning of a connection, and tokens gained in a second. */
export const SERVER_BURST = 10_000;
export const SERVER_TOKENS_PER_SECOND = 2_000;

export const COSTS = {
	ping: 1,
	goaway: 1,
	windowUpdate: 1,
	interim: 1,
	/** Each is acknowledged, and may change the windows of all streams. */
	settings: 10,
	/** An empty DATA frame that does not end its stream has no purpose. */
	emptyData: 4,
	unknown: 1,
	/** Useless bytes that cost one token. */
	vainBytes: 256,
	/** Frames for ended streams: some were already on their way. */
	lateReset: 1,
	lateHead: 2,
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
	earnedByResponse: 8,
} as const;

export class ServerBudget {
	readonly #tokens = new TokenBucket(SERVER_BURST, SERVER_TOKENS_PER_SECOND);

	/** @param now monotonic milliseconds. @throws ConnectionError ENHANCE_YOUR_CALM. */
	take(tokens: number, now: number): void {
		if (this.#tokens.take(tokens, now)) return;
		throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, 'control-flood', 'too many frames that belong to no response');
	}

	earn(tokens: number): void {
		this.#tokens.release(tokens);
	}
}
