import type { Balancer, Candidates, Random } from './balancer.ts';

/**
 * Smooth weighted round robin, as in nginx: in each round every address gains its weight. The one with the most is chosen, and pays
 * the sum of all gains. Weights 3 and 1 give A A B A. An address that does not admit neither gains nor pays, so its requests are
 * spread over all others instead of going to its neighbour.
 */
export class RoundRobin implements Balancer {
	readonly #gained: Float64Array;

	/** @param random where the rounds begin: otherwise all workers would begin with the same address. */
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
