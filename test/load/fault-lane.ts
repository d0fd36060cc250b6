/** One upstream of a fault run: a server with its own route and breaker at the proxy. */
import type { ConfigTables, RouteEntry } from '../../packages/proxy/src/cli/demo/config-file.ts';
import type { Changes } from '../fixtures/wait.ts';

export interface FaultLane {
	readonly prefix: string;
	readonly route: RouteEntry;
	/** The route's `[[upstreams]]` tables, if it names an upstream. */
	readonly upstream: NonNullable<ConfigTables['upstreams']>[number] | undefined;
	readonly rest: BreakerRest;
	stop(): Promise<void>;
}

/** Whether a lane's breaker is closed, as judged from its health probes. */
export class BreakerRest {
	/** Probes answered so far. */
	#probes = 0;
	/** The lane is not used before this many probes. */
	#until = 0;
	readonly #changes: Changes;

	constructor(changes: Changes) {
		this.#changes = changes;
	}

	get isOver(): boolean {
		return this.#probes >= this.#until;
	}

	/** The breaker has opened: the lane rests until a probe that started after this moment passes. */
	begin(): void {
		// One probe may be in flight; the next one certainly starts later.
		this.#until = this.#probes + 2;
	}

	onProbe(): void {
		this.#probes++;
		this.#changes.notify();
	}
}
