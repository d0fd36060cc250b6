import type { Balancer, Candidates } from './balancer.ts';

/**
 * Rendezvous hashing with weights: each address has a score for each tenant, and the highest one wins. The scores of the others do
 * not depend on an address that goes, so only its own tenants move; one that gains weight only draws tenants to itself.
 *
 * Hashes have no key: all replicas, and a proxy that has been restarted, send a tenant to the same address. Names of tenants are
 * given by issuers, so no client can choose them to land on one address.
 */
export class Rendezvous implements Balancer {
	readonly #hashes: Int32Array;

	/** @param addresses `host:port` of each. Their order says nothing. */
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
			// The first of so many events at a rate of `weight`: each address is first with the probability that its weight has in all.
			const draw = unit(key, hashes[i]!);
			const weight = candidates.weight(i);
			// Of two with one weight the larger draw wins: so nearly all of them need no logarithm.
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

/** Above 0 and below 1; what one pair gets says nothing of another one. */
function unit(key: number, address: number): number {
	return ((mixed(mixed(key + address) ^ address) >>> 0) + 0.5) / 2 ** 32;
}

/** The finalizer of MurmurHash3: each bit of what goes in changes half of the bits that come out. */
function mixed(value: number): number {
	let bits = value | 0;
	bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
	bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
	return bits ^ (bits >>> 16);
}
