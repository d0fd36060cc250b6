/** An upstream of a fault run: a server with a route and a breaker of its own at the proxy. */
import type { ConfigTables, RouteEntry } from '../../packages/proxy/src/cli/demo/config-file.ts';
import type { Changes } from '../fixtures/wait.ts';

export interface FaultLane {
	readonly prefix: string;
	readonly route: RouteEntry;
	/** The `[[upstreams]]` that the route names, if it names one. */
	readonly upstream: NonNullable<ConfigTables['upstreams']>[number] | undefined;
	readonly rest: BreakerRest;
	stop(): Promise<void>;
}

/** Whether a lane's breaker is closed, as far as its health probes tell. */
export class BreakerRest {
	/** Probes that have been answered. */
	#probes = 0;
	/** Not to be used before that many. */
	#until = 0;
	readonly #changes: Changes;

	constructor(changes: Changes) {
		this.#changes = changes;
	}

	get isOver(): boolean {
		return this.#probes >= this.#until;
	}

	/** The breaker has opened: the lane is left alone until a probe has passed that began after this moment. */
	begin(): void {
		// One may be under way; the next one is surely asked later than now.
		this.#until = this.#probes + 2;
	}

	onProbe(): void {
		this.#probes++;
		this.#changes.notify();
	}
}
