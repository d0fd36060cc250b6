/**
 * A latency histogram that one thread writes and any thread reads: quantiles over a sliding window of about a minute, sum and count
 * over all time.
 *
 * Buckets are logarithmic with 32 linear steps in an octave, so the error of a quantile is at most 1.6 %. The sum of several
 * threads' buckets is exact: a single thread would have written the same histogram. Each region has one writer, and aligned 64- and
 * 32-bit words do not tear, so no operation here needs to be atomic.
 */

const STEPS = 32;
const OCTAVES = 28;
/** 1 microsecond to 2^28 microseconds (4.5 minutes). Durations outside count in the first or last bucket. */
const BUCKETS = STEPS * (OCTAVES + 1);
/** Slices of the window: six complete or current ones, and one that is being cleared. */
const SLICES = 7;
const SLICE_MS = 10_000;
const VISIBLE_SLICES = 6;

const TOTALS_BYTES = 16;
const EPOCH_BYTES = SLICES * 8;
/** Bytes of one histogram. */
export const HISTOGRAM_BYTES = Math.ceil((TOTALS_BYTES + EPOCH_BYTES + SLICES * BUCKETS * 4) / 8) * 8;

export class Histogram {
	/** [sum of milliseconds, count] over all time. */
	readonly #totals: Float64Array;
	/** The interval of 10 s that each slice holds, as its number since the start, from 1. */
	readonly #epochs: Float64Array;
	readonly #buckets: Uint32Array;

	/** @param offset bytes into the region, a multiple of 8. */
	constructor(memory: SharedArrayBuffer, offset = 0) {
		this.#totals = new Float64Array(memory, offset, 2);
		this.#epochs = new Float64Array(memory, offset + TOTALS_BYTES, SLICES);
		this.#buckets = new Uint32Array(memory, offset + TOTALS_BYTES + EPOCH_BYTES, SLICES * BUCKETS);
	}

	/**
	 * @param ms the duration in milliseconds.
	 * @param nowMs monotonic milliseconds, the same scale for writer and reader.
	 */
	record(ms: number, nowMs: number): void {
		this.#totals[0]! += ms;
		this.#totals[1]! += 1;
		// New memory has epoch 0, so epochs begin at 1.
		const epoch = Math.floor(nowMs / SLICE_MS) + 1;
		const slice = epoch % SLICES;
		if (this.#epochs[slice] !== epoch) {
			this.#buckets.fill(0, slice * BUCKETS, (slice + 1) * BUCKETS);
			this.#epochs[slice] = epoch;
		}
		this.#buckets[slice * BUCKETS + bucketOf(ms)]! += 1;
	}

	/** Adds this region's records to a summary. */
	addTo(summary: Summary, nowMs: number): void {
		summary.sumMs += this.#totals[0]!;
		summary.count += this.#totals[1]!;
		const newest = Math.floor(nowMs / SLICE_MS) + 1;
		for (let slice = 0; slice < SLICES; slice++) {
			const age = newest - this.#epochs[slice]!;
			if (age < 0 || age >= VISIBLE_SLICES) continue;
			this.#addSlice(summary, slice);
		}
	}

	/**
	 * Adds only the records of the last complete slice of ten seconds.
	 *
	 * @returns whether there are any.
	 */
	addLastSliceTo(summary: Summary, nowMs: number): boolean {
		const last = Math.floor(nowMs / SLICE_MS);
		const slice = last % SLICES;
		// The epoch of a slice is written with its first record; new memory has 0.
		if (last === 0 || this.#epochs[slice] !== last) return false;
		this.#addSlice(summary, slice);
		return true;
	}

	#addSlice(summary: Summary, slice: number): void {
		const { window } = summary;
		const buckets = this.#buckets.subarray(slice * BUCKETS, (slice + 1) * BUCKETS);
		for (let bucket = 0; bucket < BUCKETS; bucket++) window[bucket]! += buckets[bucket]!;
	}
}

/** Histograms of several threads, added up. */
export class Summary {
	sumMs = 0;
	count = 0;
	readonly window = new Float64Array(BUCKETS);

	clear(): void {
		this.sumMs = 0;
		this.count = 0;
		this.window.fill(0);
	}

	/** One of `quantiles`. */
	quantile(q: number): number {
		return this.quantiles([q])[0]!;
	}

	/**
	 * Quantiles of the window's records, in milliseconds; `NaN` if the window is empty, as in the exposition format.
	 *
	 * @param qs ascending.
	 */
	quantiles(qs: readonly number[]): number[] {
		const total = this.window.reduce((sum, n) => sum + n, 0);
		if (total === 0) return qs.map(() => Number.NaN);
		let bucket = 0;
		let seen = this.window[0]!;
		return qs.map((q) => {
			const rank = Math.max(1, Math.ceil(q * total));
			while (seen < rank && bucket < BUCKETS - 1) seen += this.window[++bucket]!;
			return middleOf(bucket);
		});
	}
}

/** Buckets 0 to 31 are 1 microsecond wide; each octave after them has 32 equal steps. */
function bucketOf(ms: number): number {
	const us = Math.min(ms * 1000, 2 ** OCTAVES) | 0;
	if (us < STEPS) return Math.max(us, 0);
	const octave = 31 - Math.clz32(us) - 5;
	return Math.min(STEPS * (octave + 1) + ((us >>> octave) - STEPS), BUCKETS - 1);
}

/** Milliseconds in the middle of a bucket. */
function middleOf(bucket: number): number {
	if (bucket < STEPS) return (bucket + 0.5) / 1000;
	const octave = Math.floor(bucket / STEPS) - 1;
	return ((STEPS + (bucket % STEPS) + 0.5) * 2 ** octave) / 1000;
}
