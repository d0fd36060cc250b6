import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import { accessLine } from './access-line.ts';
import type { RequestRecord } from './request-record.ts';

/** Lines and the number of those that were dropped before them. */
export type SendLines = (lines: string, dropped: number) => void;

export interface AccessLogParts {
	/** Only requests that were refused, that failed, or whose answer did not get through whole. */
	readonly errorsOnly: boolean;
	readonly clock: Clock;
	readonly send: SendLines;
	/** Bytes that may be on their way to the reader; more do not wait for one that has fallen behind. */
	readonly maxBytes: number;
	readonly stats: { readonly count: (name: 'dropped', what: 'access lines') => void };
}

/**
 * Lines wait for others for so long, ms, or until they are so many bytes, or half of what may be under way. Each message wakes
 * the main thread, and that costs more than a line.
 */
const GATHER_MS = 20;
const GATHER_BYTES = 64 * 1024;
/** The least share of one of very many workers. */
const LEAST_SHARE = 32 * 1024;

/**
 * The access log's end in a worker: gathers lines and hands them to the main thread, which writes them and says when they are
 * written. Never more than `maxBytes` are under way, so that neither thread has to hold what nobody reads; what is over that
 * is dropped and counted, and no request waits for anything.
 */
export class AccessLog {
	readonly #parts: AccessLogParts;
	readonly #gatherBytes: number;
	#gathered = '';
	#dropped = 0;
	/** Bytes handed over and not written yet. */
	#underWay = 0;
	#timer: NodeJS.Timeout | undefined;

	constructor(parts: AccessLogParts) {
		this.#parts = parts;
		this.#gatherBytes = Math.min(GATHER_BYTES, parts.maxBytes / 2);
	}

	readonly write = (record: RequestRecord): void => {
		const { errorsOnly, maxBytes, clock, stats } = this.#parts;
		if (errorsOnly && record.status < 400 && record.ending === 'complete') return;
		if (this.#underWay + this.#gathered.length >= maxBytes) {
			this.#dropped++;
			return stats.count('dropped', 'access lines');
		}
		this.#gathered += accessLine(record, Math.round(clock.wallSeconds() * 1000));
		if (this.#gathered.length >= this.#gatherBytes) return this.flush();
		this.#timer ??= setTimeout(this.flush, GATHER_MS);
	};

	/** Hands over what has been gathered. */
	readonly flush = (): void => {
		clearTimeout(this.#timer);
		this.#timer = undefined;
		const lines = this.#gathered;
		const dropped = this.#dropped;
		if (lines === '' && dropped === 0) return;
		this.#gathered = '';
		this.#dropped = 0;
		this.#underWay += lines.length;
		this.#parts.send(lines, dropped);
	};

	/** The main thread has written these bytes. */
	onWritten(bytes: number): void {
		this.#underWay -= bytes;
		// Whoever reads again learns what is missing even if no request follows.
		if (this.#dropped > 0) this.flush();
	}
}

/** Bytes for one of so many workers: all of them together must leave room for the other records (`log-output.ts`). */
export function accessLogShare(workers: number): number {
	return Math.max(LEAST_SHARE, Math.floor((2 * 1024 * 1024) / workers));
}
