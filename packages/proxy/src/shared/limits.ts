/** The limits that both planes keep. Every duration is in milliseconds, every size in bytes. */

/** `[limits]`; boot-only. */
export interface Limits {
	readonly maxRequestBodyBytes: number;
	readonly requestBodyTimeoutMs: number;
	readonly upstreamTimeoutMs: number;
	readonly tlsHandshakeTimeoutMs: number;
	readonly firstRequestTimeoutMs: number;
	readonly h2MaxConcurrentStreams: number;
	readonly shutdownDrainMs: number;
	/** From the signal to the drain; 0 for none. */
	readonly shutdownDelayMs: number;
	readonly maxHeaderBytes: number;
	/** All bodies held in memory at once in the process. */
	readonly maxBufferedBytes: number;
	/** The part of `maxBufferedBytes` that the requests of one tenant may hold. */
	readonly maxBufferedBytesPerTenant: number;
	/** Least average rate at which a client must take its response; 0: any; `undefined`: the default of the body mode. */
	readonly minAnswerBytesPerSec?: number | undefined;
	/** Client connections at once in the process; `undefined`: derived from the file-descriptor limit. */
	readonly maxConnections?: number | undefined;
	/** Age at which a client connection is ended, give or take a tenth; 0 for none. */
	readonly maxConnectionAgeMs: number;
	/** Whether all answers have `RateLimit` fields, and not only refusals. */
	readonly rateLimitHeaders: boolean;
}

/** Limits of a route in place of `[limits]`; `undefined`: the value of `[limits]`. */
export interface RequestLimitsSeed {
	readonly maxBodyBytes?: number | undefined;
	readonly bodyTimeoutMs?: number | undefined;
	readonly upstreamTimeoutMs?: number | undefined;
	readonly idleTimeoutMs?: number | undefined;
	readonly endsAtExpiry?: boolean | undefined;
}
