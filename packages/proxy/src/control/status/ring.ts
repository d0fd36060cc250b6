/** One point of the charts, ms: as long as a slice of the histograms, so that quantiles cover exactly one point. */
export const POINT_MS = 10_000;
/** Ten minutes. */
export const POINTS = 60;

/** By how much a counter has risen in the last ten minutes. */
export class Rises {
	static readonly BYTES = POINTS * Float32Array.BYTES_PER_ELEMENT;

	readonly #ring = new Float32Array(POINTS);
	#point = -1;
	/** At the last point. */
	#total: number;

	/** @param total counted so far, which belongs to no point. */
	constructor(total = 0) {
		this.#total = total;
	}

	/** @returns the rise since the last time. */
	advance(total: number, point: number): number {
		// The places of the next points still hold values from ten minutes ago.
		for (let gap = Math.max(this.#point + 1, point - POINTS + 1); gap <= point; gap++) this.#ring[gap % POINTS] = 0;
		this.#point = point;
		// The counters of an upstream that was removed and added again restart at zero.
		const rise = total < this.#total ? total : total - this.#total;
		this.#total = total;
		this.#ring[point % POINTS]! += rise;
		return rise;
	}

	/** @param total counted so far. */
	until(total: number): number {
		const counted = this.#ring.reduce((sum, rise) => sum + rise, 0);
		return counted + Math.max(0, total - this.#total);
	}
}
