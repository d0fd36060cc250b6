import type { RouteConfig } from '../../config/config.ts';
import type { DnsAddresses } from '../addresses/dns-addresses.ts';
import type { UpstreamTlsMaterial } from '../files/upstream-tls-files.ts';
import type { HealthProber } from '../health/health.ts';
import type { RoutingPlan, Upstreams } from '../upstreams.ts';
import type { WorkerPool } from '../workers/worker-pool.ts';

export interface RoutingSwitchParts {
	readonly upstreams: Upstreams;
	readonly addresses: Pick<DnsAddresses, 'follow' | 'keepOnly' | 'addressesOf'>;
	readonly prober: Pick<HealthProber, 'prove' | 'watch'>;
	readonly pool: Pick<WorkerPool, 'switchAll'>;
}

/** What is to be taken over. */
export interface RoutingTable {
	readonly routes: readonly RouteConfig[];
	/** `undefined`: what is in force. */
	readonly tls?: UpstreamTlsMaterial | undefined;
}

/** Takes routing tables over, one after the other: those of reloads, and the one in force with other addresses. */
export class RoutingSwitch {
	readonly #parts: RoutingSwitchParts;
	#turn: Promise<void> = Promise.resolve();

	constructor(parts: RoutingSwitchParts) {
		this.#parts = parts;
	}

	/**
	 * Has all workers take over a table, or none.
	 *
	 * @param table called when it is this table's turn.
	 * @param before called when all is prepared; it may throw, and then nothing has changed.
	 * @param after called when it is in force.
	 */
	take(table: () => RoutingTable, before: () => void, after: (plan: RoutingPlan) => void): Promise<void> {
		const turn = this.#turn.then(() => this.#take(table(), before, after));
		this.#turn = turn.catch(() => {});
		return turn;
	}

	async #take({ routes, tls }: RoutingTable, before: () => void, after: (plan: RoutingPlan) => void): Promise<void> {
		const { upstreams, addresses, prober, pool } = this.#parts;
		try {
			await addresses.follow(routes);
			const plan = upstreams.plan(routes, tls, addresses.addressesOf);
			// A fresh breaker is open until its upstream has proved itself. Proving it before the switch leaves no moment in
			// which requests for a healthy new upstream are answered 503.
			await prober.prove(plan.fresh);
			before();
			await pool.switchAll(
				(worker, id) => ({ type: 'prepare-routing', id, routing: upstreams.seed(plan, worker) }),
				() => {
					upstreams.apply(plan);
					prober.watch(plan.upstreams.values());
					addresses.keepOnly(routes);
					after(plan);
				},
			);
		} catch (error) {
			// Names that it alone leads to would be asked for as long as the process lives.
			addresses.keepOnly(upstreams.current.routes);
			throw error;
		}
	}
}
