import type { Balancer, Random } from './balancer.ts';
import { LeastRequests } from './least-requests.ts';
import { Rendezvous } from './rendezvous.ts';
import { RoundRobin } from './round-robin.ts';
import type { Balance } from './settings.ts';

/** @param addresses `host:port` of each. @param weights in the same order. */
export function createBalancer(
	balance: Balance,
	addresses: readonly string[],
	weights: readonly number[],
	random: Random,
): Balancer {
	switch (balance) {
		case 'least-requests':
			return new LeastRequests(weights, random);
		case 'round-robin':
			return new RoundRobin(weights, random);
		case 'hash':
			return new Rendezvous(addresses);
	}
}
