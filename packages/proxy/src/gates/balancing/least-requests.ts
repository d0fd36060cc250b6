import type { Balancer, Candidates, Random } from './balancer.ts';

/**
 * Power of two choices: two addresses are drawn by weight, and the one that has less to do for its weight gets the request. The
 * least loaded of all would be worse: all requests of the same moment see the same address, and would all go there.
 */
export class LeastRequests implements Balancer {
	readonly #weights: readonly number[];
	/** Sums of the weights up to each index and with it. */
	readonly #sums: Float64Array;
	readonly #random: Random;

	constructor(weights: readonly number[], random: Random) {
		this.#weights = weights;
		this.#random = random;
		let sum = 0;
		this.#sums = Float64Array.from(weights, (weight) => (sum += weight));
	}

	choose(candidates: Candidates): number {
		const first = this.#draw(candidates, -1);
		if (first === -1) return -1;
		const second = this.#draw(candidates, first);
		if (second === -1) return first;
		// Of two with equally much to do it is the first: so it is the draw, and with it the weights, that decides among idle ones.
		const isLess =
			candidates.load(second) * candidates.weight(first) < candidates.load(first) * candidates.weight(second);
		return isLess ? second : first;
	}

	/** One that admits, by its weight at the moment. @param but an index to leave out, or -1. */
	#draw(candidates: Candidates, but: number): number {
		for (let tries = 0; tries < TRIES; tries++) {
			const i = this.#drawAny(but);
			if (i === -1) return -1;
			// One that is to get a part of its weight is drawn by all of it, and kept as often as that part says.
			if (candidates.admits(i) && this.#random() * this.#weights[i]! < candidates.weight(i)) return i;
		}
		return this.#drawOfAll(candidates, but);
	}

	/** By the weights of the configuration, without a look at the address. */
	#drawAny(but: number): number {
		const sums = this.#sums;
		const left = but === -1 ? 0 : this.#weights[but]!;
		// There may be no address at all: DNS has named none yet.
		const total = (sums.at(-1) ?? 0) - left;
		if (total <= 0) return -1;
		let at = this.#random() * total;
		if (but !== -1 && at >= sums[but]! - left) at += left;
		let [low, high] = [0, sums.length - 1];
		while (low < high) {
			const middle = (low + high) >> 1;
			if (at < sums[middle]!) high = middle;
			else low = middle + 1;
		}
		return low;
	}

	/** The same as `#draw`, by a look at each of them: where most of them do not admit. */
	#drawOfAll(candidates: Candidates, but: number): number {
		let drawn = -1;
		let sum = 0;
		for (let i = 0; i < this.#weights.length; i++) {
			if (i === but || !candidates.admits(i)) continue;
			const weight = candidates.weight(i);
			sum += weight;
			if (this.#random() * sum < weight) drawn = i;
		}
		return drawn;
	}
}

const TRIES = 4;
