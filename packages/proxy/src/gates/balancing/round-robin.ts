import type { Balancer, Candidates, Random } from './balancer.ts';

/**
 * Smooth weighted round robin, as in nginx: in each round an address gains its weight, and the one that has most is chosen and pays
 * what all have gained. With weights 3 and 1 that is A A B A. One that does not admit neither gains nor pays, so its requests are
 * spread over all others and do not go to its neighbour.
 */
export class RoundRobin implements Balancer {
	readonly #gained: Float64Array;

	/** @param random for where the rounds begin: all workers would begin with the same address otherwise. */
	constructor(weights: readonly number[], random: Random) {
		this.#gained = Float64Array.from(weights, (weight) => random() * weight);
	}

	choose(candidates: Candidates): number {
		const gained = this.#gained;
		let chosen = -1;
		let total = 0;
		for (let i = 0; i < gained.length; i++) {
			if (!candidates.admits(i)) continue;
			const weight = candidates.weight(i);
			total += weight;
			gained[i]! += weight;
			if (chosen === -1 || gained[i]! > gained[chosen]!) chosen = i;
		}
		if (chosen !== -1) gained[chosen]! -= total;
		return chosen;
	}
}
