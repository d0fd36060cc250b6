/**
 * A Prometheus histogram that one thread writes and any thread reads: how many durations have been at most as long as each bound, over
 * all time. It complements `Histogram`, which has fine steps and forgets: this one never goes down, and has few cells, so that a
 * thousand upstreams can have one each. Durations are compared with the bounds themselves, so every bucket is exact.
 *
 * Where requests have a trace, each bucket also remembers one of them: an exemplar.
 */

/** How a histogram lies in memory. */
export interface BucketLayout {
	/** Upper bounds, ascending, in seconds as they are shown; the bucket of all that is longer is not among them. */
	readonly bounds: readonly number[];
	/** Whether there is room for exemplars. */
	readonly exemplars: boolean;
}

export interface Exemplar {
	/** 32 hexadecimal digits. */
	readonly traceId: string;
	readonly ms: number;
	/** Seconds since the epoch. */
	readonly wallSeconds: number;
}

const TRACE_ID_BYTES = 32;
/** Of one exemplar: how often it has been written (odd while it is), two numbers, and the trace's identifier. */
const TRACE_ID_AT = 3 * 8;
const EXEMPLAR_BYTES = TRACE_ID_AT + TRACE_ID_BYTES;
/** A bucket's exemplar stays for so long at least, ms. */
const EXEMPLAR_MS = 1000;

export function bucketBytes({ bounds, exemplars }: BucketLayout): number {
	const buckets = bounds.length + 1;
	return (buckets + 1) * 8 + (exemplars ? buckets * EXEMPLAR_BYTES : 0);
}

export class BucketCounts {
	/** Milliseconds. */
	readonly #bounds: readonly number[];
	/** The sum of all durations in ms, then each bucket's own count. */
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

	/** Of several workers, one region. */
	static allocate(layout: BucketLayout, workers: number): SharedArrayBuffer {
		return new SharedArrayBuffer(workers * bucketBytes(layout));
	}

	/** One worker's part of it. */
	static view(layout: BucketLayout, memory: SharedArrayBuffer, worker: number): BucketCounts {
		return new BucketCounts(layout, memory, worker * bucketBytes(layout));
	}

	/** @returns the bucket that it has been counted in, for `exemplify`. */
	record(ms: number): number {
		const bounds = this.#bounds;
		let bucket = 0;
		// Most durations are short, so this looks at few of them.
		while (bucket < bounds.length && ms > bounds[bucket]!) bucket++;
		this.#cells[0]! += ms;
		this.#cells[1 + bucket]! += 1;
		return bucket;
	}

	/**
	 * Remembers the trace of what has just been counted, if the bucket's last one is a second old.
	 *
	 * @param traceId 32 hexadecimal digits.
	 * @param clock `now` has been read from it.
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

/** The same list for all histograms of a layout: of many upstreams it stays in the cache. */
function boundsMsOf(layout: BucketLayout): readonly number[] {
	let bounds = BOUNDS_MS.get(layout);
	if (bounds === undefined) {
		// Some products are a bit less, such as 0.0049 times 1000.
		bounds = layout.bounds.map((seconds) => Number((seconds * 1000).toPrecision(15)));
		BOUNDS_MS.set(layout, bounds);
	}
	return bounds;
}

const BOUNDS_MS = new WeakMap<BucketLayout, readonly number[]>();

/** Histograms of several threads, added up. */
export class BucketTotal {
	sumMs = 0;
	/** Of each bucket by itself; the last one has no bound. */
	readonly counts: Float64Array;
	/** The newest of each bucket. */
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
	/** By bucket, known only to the writer: it writes no other exemplar before this time, in monotonic milliseconds. */
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

	/** Whether the bucket's exemplar may be replaced; if so, another one may not be for a while. */
	isDue(bucket: number, now: number): boolean {
		this.#until ??= new Float64Array(this.#buckets).fill(Number.NEGATIVE_INFINITY);
		if (now < this.#until[bucket]!) return false;
		this.#until[bucket] = now + EXEMPLAR_MS;
		return true;
	}

	write(bucket: number, { traceId, ms, wallSeconds }: Exemplar): void {
		const at = bucket * EXEMPLAR_BYTES;
		// Even without a write in progress; a thread that died during a write left an odd number.
		const version = Atomics.load(this.#versions, at / 4) | 1;
		Atomics.store(this.#versions, at / 4, version);
		this.#numbers[at / 8 + 1] = ms;
		this.#numbers[at / 8 + 2] = wallSeconds;
		for (let i = 0; i < TRACE_ID_BYTES; i++) this.#traceIds[at + TRACE_ID_AT + i] = traceId.charCodeAt(i);
		Atomics.store(this.#versions, at / 4, version + 1);
	}

	/** `undefined`: there is none, or it is just being written. */
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
