import type { Balancer, Candidates, Random } from './balancer.ts';

/**
 * Power of two choices: two addresses are drawn by weight, and the one with fewer requests for its weight gets the request. The
 * least loaded address of all would be a worse choice: simultaneous requests would all see the same one, and all go there.
 *
 * The address of the turn's last request is a third candidate, and wins a tie. A choice with a memory spreads requests more evenly, and
 * over HTTP/2 requests with the same address share a write.
 */
export class LeastRequests implements Balancer {
	readonly #weights: readonly number[];
	/** Running sums: the weights up to and including each index. */
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
		// A tie goes to the first: among idle addresses the draw decides, and so the weights do.
		const drawn = hasLess(candidates, second, first) ? second : first;
		const { latest } = candidates;
		if (latest === -1 || hasLess(candidates, drawn, latest) || !candidates.admits(latest)) return drawn;
		return latest;
	}

	/** Draws an address that admits, by its weight at the moment. @param but an index to leave out, or -1. */
	#draw(candidates: Candidates, but: number): number {
		for (let tries = 0; tries < TRIES; tries++) {
			const i = this.#drawAny(but);
			if (i === -1) return -1;
			// An address in slow start is drawn by its full weight, and kept with the probability of its reduced one.
			if (candidates.admits(i) && this.#random() * this.#weights[i]! < candidates.weight(i)) return i;
		}
		return this.#drawOfAll(candidates, but);
	}

	/** Draws by the weights of the configuration, whether the address admits or not. */
	#drawAny(but: number): number {
		const sums = this.#sums;
		const left = but === -1 ? 0 : this.#weights[but]!;
		// There may be no address at all: DNS has not answered yet.
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

	/** Draws like `#draw`, but looks at every address: for when most of them do not admit. */
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

/** Whether one address has fewer requests for its weight than another one. */
function hasLess(candidates: Candidates, one: number, other: number): boolean {
	return candidates.load(one) * candidates.weight(other) < candidates.load(other) * candidates.weight(one);
}

const TRIES = 4;
