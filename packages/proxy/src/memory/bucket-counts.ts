/**
 * A Prometheus histogram that one thread writes and any thread reads: it counts durations by bound, over all time. `Histogram` has
 * fine steps and a sliding window; this one never decreases, and has few cells, so a thousand upstreams can each have one.
 * Durations are compared with the bounds themselves, so every bucket is exact.
 *
 * If requests have a trace, each bucket also keeps one of them as its exemplar.
 */

/** The layout of a histogram in memory. */
export interface BucketLayout {
	/** Upper bounds in seconds, ascending, without that of the last bucket, which is infinite. */
	readonly bounds: readonly number[];
	/** Whether there is room for exemplars. */
	readonly exemplars: boolean;
}

interface Exemplar {
	/** 32 hexadecimal digits. */
	readonly traceId: string;
	readonly ms: number;
	/** Seconds since the epoch. */
	readonly wallSeconds: number;
}

const TRACE_ID_BYTES = 32;
/** Layout of an exemplar: a version (odd during a write), two numbers, and the trace's identifier. */
const TRACE_ID_AT = 3 * 8;
const EXEMPLAR_BYTES = TRACE_ID_AT + TRACE_ID_BYTES;
/** A bucket keeps its exemplar for at least this long, ms. */
const EXEMPLAR_MS = 1000;

export function bucketBytes({ bounds, exemplars }: BucketLayout): number {
	const buckets = bounds.length + 1;
	return (buckets + 1) * 8 + (exemplars ? buckets * EXEMPLAR_BYTES : 0);
}

export class BucketCounts {
	/** Milliseconds. */
	readonly #bounds: readonly number[];
	/** The sum of all durations in ms, then the count of each bucket. */
	readonly #cells: Float64Array;
	readonly #exemplars: ExemplarCells | undefined;

	/** @param offset bytes into the region, a multiple of 8. */
	constructor(layout: BucketLayout, memory: SharedArrayBuffer, offset = 0) {
		const { bounds, exemplars } = layout;
		const cells = bounds.length + 2;
		this.#bounds = boundsMsOf(layout);
		this.#cells = new Float64Array(memory, offset, cells);
		this.#exemplars = exemplars ? new ExemplarCells(memory, offset + cells * 8, bounds.length + 1) : undefined;
	}

	/** One region for several workers. */
	static allocate(layout: BucketLayout, workers: number): SharedArrayBuffer {
		return new SharedArrayBuffer(workers * bucketBytes(layout));
	}

	/** One worker's part of the region. */
	static view(layout: BucketLayout, memory: SharedArrayBuffer, worker: number): BucketCounts {
		return new BucketCounts(layout, memory, worker * bucketBytes(layout));
	}

	/** @returns the bucket of the duration, for `exemplify`. */
	record(ms: number): number {
		const bounds = this.#bounds;
		let bucket = 0;
		// Most durations are short, so this loop is short.
		while (bucket < bounds.length && ms > bounds[bucket]!) bucket++;
		this.#cells[0]! += ms;
		this.#cells[1 + bucket]! += 1;
		return bucket;
	}

	/**
	 * Keeps the trace of the last recorded duration as exemplar, if the bucket's current one is a second old.
	 *
	 * @param traceId 32 hexadecimal digits.
	 * @param clock from which `now` was read.
	 */
	exemplify(bucket: number, ms: number, traceId: string, now: number, clock: { wallSeconds(): number }): void {
		const cells = this.#exemplars;
		if (cells === undefined || !cells.isDue(bucket, now)) return;
		cells.write(bucket, { traceId, ms, wallSeconds: clock.wallSeconds() });
	}

	/** Adds this region's counts to a total. */
	addTo(total: BucketTotal): void {
		total.sumMs += this.#cells[0]!;
		for (let bucket = 0; bucket <= this.#bounds.length; bucket++) {
			total.counts[bucket]! += this.#cells[1 + bucket]!;
			const exemplar = this.#exemplars?.read(bucket);
			if (exemplar === undefined) continue;
			if (exemplar.wallSeconds > (total.exemplars[bucket]?.wallSeconds ?? 0)) total.exemplars[bucket] = exemplar;
		}
	}
}

/** One list for all histograms of a layout, so it stays in the processor's caches. */
function boundsMsOf(layout: BucketLayout): readonly number[] {
	let bounds = BOUNDS_MS.get(layout);
	if (bounds === undefined) {
		// Rounded, since some products are inexact, such as 0.0049 times 1000.
		bounds = layout.bounds.map((seconds) => Number((seconds * 1000).toPrecision(15)));
		BOUNDS_MS.set(layout, bounds);
	}
	return bounds;
}

const BOUNDS_MS = new WeakMap<BucketLayout, readonly number[]>();

/** Histograms of several threads, added up. */
export class BucketTotal {
	sumMs = 0;
	/** Not cumulative; the last bucket has no bound. */
	readonly counts: Float64Array;
	/** The newest exemplar of each bucket. */
	readonly exemplars: (Exemplar | undefined)[] = [];

	constructor({ bounds }: BucketLayout) {
		this.counts = new Float64Array(bounds.length + 1);
	}

	static of(layout: BucketLayout, parts: Iterable<BucketCounts>): BucketTotal {
		const total = new BucketTotal(layout);
		for (const part of parts) part.addTo(total);
		return total;
	}
}

/**
 * One exemplar for each bucket. A reader must never combine half of an old exemplar with half of a new one. Three views cover all
 * exemplars: with views for each one, ten thousand upstreams would mean half a million objects in every thread.
 */
class ExemplarCells {
	/** By bucket: no new exemplar before this time, monotonic milliseconds. Only the writer has it. */
	#until: Float64Array | undefined;
	readonly #buckets: number;
	readonly #versions: Int32Array;
	readonly #numbers: Float64Array;
	readonly #traceIds: Uint8Array;

	constructor(memory: SharedArrayBuffer, offset: number, buckets: number) {
		this.#buckets = buckets;
		const bytes = buckets * EXEMPLAR_BYTES;
		this.#versions = new Int32Array(memory, offset, bytes / 4);
		this.#numbers = new Float64Array(memory, offset, bytes / 8);
		this.#traceIds = new Uint8Array(memory, offset, bytes);
	}

	/** Whether the bucket's exemplar may be replaced; if so, this starts the next interval. */
	isDue(bucket: number, now: number): boolean {
		this.#until ??= new Float64Array(this.#buckets).fill(Number.NEGATIVE_INFINITY);
		if (now < this.#until[bucket]!) return false;
		this.#until[bucket] = now + EXEMPLAR_MS;
		return true;
	}

	write(bucket: number, { traceId, ms, wallSeconds }: Exemplar): void {
		const at = bucket * EXEMPLAR_BYTES;
		// Usually even; odd if a thread died during a write.
		const version = Atomics.load(this.#versions, at / 4) | 1;
		Atomics.store(this.#versions, at / 4, version);
		this.#numbers[at / 8 + 1] = ms;
		this.#numbers[at / 8 + 2] = wallSeconds;
		for (let i = 0; i < TRACE_ID_BYTES; i++) this.#traceIds[at + TRACE_ID_AT + i] = traceId.charCodeAt(i);
		Atomics.store(this.#versions, at / 4, version + 1);
	}

	/** @returns `undefined`: there is none, or a write is in progress. */
	read(bucket: number): Exemplar | undefined {
		const at = bucket * EXEMPLAR_BYTES;
		const version = Atomics.load(this.#versions, at / 4);
		if (version === 0 || (version & 1) === 1) return undefined;
		const ms = this.#numbers[at / 8 + 1]!;
		const wallSeconds = this.#numbers[at / 8 + 2]!;
		let traceId = '';
		for (let i = 0; i < TRACE_ID_BYTES; i++) traceId += String.fromCharCode(this.#traceIds[at + TRACE_ID_AT + i]!);
		return Atomics.load(this.#versions, at / 4) === version ? { traceId, ms, wallSeconds } : undefined;
	}
}
