import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import { accessLine } from './access-line.ts';
import type { RequestRecord } from './request-record.ts';

/** @param dropped number of lines that were dropped before these. */
export type SendLines = (lines: string, dropped: number) => void;

export interface AccessLogParts {
	/** Only requests that were refused or failed, or whose response was incomplete. */
	readonly errorsOnly: boolean;
	readonly clock: Clock;
	readonly send: SendLines;
	/** Limit of bytes on their way to the reader of the log. If it falls behind, further lines are dropped. */
	readonly maxBytes: number;
	readonly stats: { readonly count: (name: 'dropped', what: 'access lines') => void };
}

/**
 * Lines are gathered for this long, ms, or up to this many bytes (at most half of `maxBytes`): each message wakes the main thread,
 * which costs more than a line.
 */
const GATHER_MS = 20;
const GATHER_BYTES = 64 * 1024;
/** Smallest share of a worker if there are very many. */
const LEAST_SHARE = 32 * 1024;

/**
 * The access log in a worker: gathers lines and sends them to the main thread, which writes and acknowledges them. At most
 * `maxBytes` are not yet acknowledged, so the memory of both threads is bounded. Further lines are dropped and counted; no request
 * waits.
 */
export class AccessLog {
	readonly #parts: AccessLogParts;
	readonly #gatherBytes: number;
	#gathered = '';
	#dropped = 0;
	/** Bytes sent and not yet acknowledged. */
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

	/** Sends the gathered lines. */
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
		// A reader that has caught up gets the number of dropped lines even if no request follows.
		if (this.#dropped > 0) this.flush();
	}
}

/** Bytes for each worker: all workers together must leave room for other records (`log-output.ts`). */
export function accessLogShare(workers: number): number {
	return Math.max(LEAST_SHARE, Math.floor((2 * 1024 * 1024) / workers));
}
