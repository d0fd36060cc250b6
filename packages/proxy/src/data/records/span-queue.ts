import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import { MAX_PATH, type SpanRecord } from '../../shared/span-record.ts';
import type { RequestRecord } from './request-record.ts';
import type { RequestSpan } from './request-span.ts';

export interface SpanQueueParts {
	readonly clock: Clock;
	readonly send: (spans: readonly SpanRecord[]) => void;
	/** Limit of spans that wait for the collector, here and in the main thread. */
	readonly maxSpans: number;
	/** Whether spans name tenants. */
	readonly tenants: boolean;
	readonly stats: { readonly count: (name: 'dropped', what: 'spans') => void };
}

/** Spans are gathered for this long, ms, or up to this number: each message wakes the main thread. */
const GATHER_MS = 100;
const GATHER_SPANS = 64;
/** A larger change of the difference between the clocks means that the wall clock was set, ms. */
const CLOCK_STEP_MS = 2;

/**
 * Spans on their way to the main thread, which exports and acknowledges them. At most `maxSpans` are not yet acknowledged. If the
 * collector is too slow, further spans are dropped and counted; no request waits.
 */
export class SpanQueue {
	readonly #parts: SpanQueueParts;
	#gathered: SpanRecord[] = [];
	/** Sent, and neither exported nor given up yet. */
	#underWay = 0;
	#epoch = Number.NaN;
	#timer: NodeJS.Timeout | undefined;

	constructor(parts: SpanQueueParts) {
		this.#parts = parts;
	}

	readonly write = (record: RequestRecord, span: RequestSpan): void => {
		const { maxSpans, clock, stats, tenants } = this.#parts;
		if (this.#underWay + this.#gathered.length >= maxSpans) return stats.count('dropped', 'spans');
		this.#gathered.push(toSpanRecord(record, span, this.#epochMs(clock) + record.startedAt, tenants));
		if (this.#gathered.length >= GATHER_SPANS) return this.flush();
		this.#timer ??= setTimeout(this.flush, GATHER_MS);
	};

	/**
	 * Wall-clock milliseconds at which the monotonic clock was zero. The wall clock has whole milliseconds, which could reorder
	 * spans. So the largest difference read so far is kept, until the wall clock is set.
	 */
	#epochMs(clock: Clock): number {
		const epoch = clock.wallSeconds() * 1000 - clock.now();
		if (!(Math.abs(epoch - this.#epoch) < CLOCK_STEP_MS) || epoch > this.#epoch) this.#epoch = epoch;
		return this.#epoch;
	}

	/** Sends the gathered spans. */
	readonly flush = (): void => {
		clearTimeout(this.#timer);
		this.#timer = undefined;
		if (this.#gathered.length === 0) return;
		const spans = this.#gathered;
		this.#gathered = [];
		this.#underWay += spans.length;
		this.#parts.send(spans);
	};

	/** The main thread has exported or dropped these spans. */
	onDone(spans: number): void {
		this.#underWay -= spans;
	}
}

/** @param startMs wall-clock milliseconds since 1970. */
export function toSpanRecord(record: RequestRecord, span: RequestSpan, startMs: number, tenants: boolean): SpanRecord {
	const { method, path, status, grpcStatus, ending, refusal, route, upstream, tenant, attempts, bytesIn, bytesOut } =
		record;
	return {
		...span.context,
		startMs,
		durationMs: record.duration,
		method,
		path: path.slice(0, MAX_PATH),
		status,
		grpcStatus,
		ending,
		refused: refusal?.code,
		reason: refusal && (refusal.reason ?? refusal.body),
		protocol: span.connection.protocol,
		client: span.connection.ip,
		route: route?.prefix,
		upstream: upstream?.authority,
		tenant: tenants ? tenant : undefined,
		attempts,
		bytesIn,
		bytesOut,
		events: span.events,
	};
}
