import type { Balancer, Candidates } from './balancer.ts';

/**
 * Rendezvous hashing with weights: each address has a score for each tenant, and the highest one wins. If an address goes, the
 * scores of the others stay, so only its own tenants move. If an address gains weight, tenants move only to it.
 *
 * Hashes have no key: all replicas, and a restarted proxy, send a tenant to the same address. Issuers choose the names of tenants,
 * so a client cannot choose one to land on a certain address.
 */
export class Rendezvous implements Balancer {
	readonly #hashes: Int32Array;

	/** @param addresses `host:port` of each, in any order. */
	constructor(addresses: readonly string[]) {
		this.#hashes = Int32Array.from(addresses, hashOf);
	}

	choose(candidates: Candidates, tenant: string): number {
		const hashes = this.#hashes;
		const key = hashOf(tenant);
		let chosen = -1;
		let least = Number.POSITIVE_INFINITY;
		let [weightOfChosen, drawOfChosen] = [0, 0];
		for (let i = 0; i < hashes.length; i++) {
			// The time of the first event at a rate of `weight`: an address is first with a probability proportional to its weight.
			const draw = unit(key, hashes[i]!);
			const weight = candidates.weight(i);
			// Between equal weights the larger draw wins, so most addresses need no logarithm.
			if (weight === weightOfChosen && draw <= drawOfChosen) continue;
			const score = -Math.log(draw) / weight;
			if (score >= least || !candidates.admits(i)) continue;
			chosen = i;
			weightOfChosen = weight;
			drawOfChosen = draw;
			least = score;
		}
		return chosen;
	}
}

/** FNV-1a over UTF-16 code units. */
function hashOf(text: string): number {
	let hash = 0x811c9dc5;
	for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
	return mixed(hash);
}

/** Above 0 and below 1, independent for each pair. */
function unit(key: number, address: number): number {
	return ((mixed(mixed(key + address) ^ address) >>> 0) + 0.5) / 2 ** 32;
}

/** The finalizer of MurmurHash3: each input bit changes half of the output bits. */
function mixed(value: number): number {
	let bits = value | 0;
	bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
	bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
	return bits ^ (bits >>> 16);
}
