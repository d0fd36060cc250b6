import { FairQueue } from '../../gates/fair-queue.ts';
import type { Clock } from '../../shared/clock.ts';
import type { UpstreamLimits, WaitingSeed } from '../../shared/messages.ts';
import { QueueStats } from '../../shared/queue-stats.ts';
import { UpstreamLoad } from '../../shared/upstream-load.ts';
import { WakeUp } from '../../shared/wake-up.ts';
import type { Upstream } from '../plane.ts';
import { STEP, type TurnEnd } from '../turn-end.ts';

/** Longer than another thread takes to wake up. */
const CEDE_MS = 1;

/** A request that waits. */
export interface Waiting {
	/**
	 * Leaves for the upstream, or is refused. Never throws.
	 *
	 * @returns `false`: there is still no room for it.
	 */
	depart(now: number): boolean;
}

/**
 * Where this worker's requests wait while all addresses of an upstream are at a limit. It outlives reloads, like the requests. The limits are
 * the process's: what becomes free in one thread may be what another one's requests wait for, so it rings for them.
 */
export class WaitingRoom {
	readonly stats: QueueStats;
	readonly #queue = new FairQueue<string, Waiting>();
	/** Requests that wait, in all threads. */
	readonly #count: UpstreamLoad;
	readonly #freed: WakeUp;
	/** A request waits for a connection, and others may have idle ones. */
	readonly #wanted: WakeUp;
	readonly #clock: Clock;
	readonly #turnEnd: TurnEnd;
	#limits: UpstreamLimits;
	#upstreams: readonly Upstream[] = [];
	/** How often had been rung before somebody was told to wait. */
	#seen = 0;
	#isListening = false;
	#isServing = false;
	#givesWay = false;
	/** What has become free is left to other threads. */
	#cedes = false;

	/** @param worker index of this thread. */
	constructor(
		seed: WaitingSeed,
		limits: UpstreamLimits,
		worker: number,
		{ clock, turnEnd }: { readonly clock: Clock; readonly turnEnd: TurnEnd },
	) {
		this.stats = new QueueStats(seed.stats, worker);
		this.#count = new UpstreamLoad(seed.count, worker);
		this.#freed = new WakeUp(seed.freed);
		this.#wanted = new WakeUp(seed.wanted);
		this.#limits = limits;
		this.#clock = clock;
		this.#turnEnd = turnEnd;
	}

	/** From now on these are in force. */
	use(limits: UpstreamLimits, upstreams: readonly Upstream[]): void {
		this.#limits = limits;
		this.#upstreams = upstreams;
		if (limits.maxConnections !== undefined) this.#giveWay();
		this.#serveSoon();
	}

	get timeoutMs(): number {
		return this.#limits.queueTimeoutMs;
	}

	get isEmpty(): boolean {
		return this.#queue.size === 0;
	}

	/**
	 * Whether a connection that becomes free here is another thread's: requests wait there, and none here; or this thread has more than
	 * an equal part of the connections.
	 */
	owes(connections: UpstreamLoad): boolean {
		const { threads } = this.#count;
		if (this.#queue.size === 0) return threads > 0;
		return threads > 1 && connections.own * threads > connections.total;
	}

	/** A connection of this thread is about to end for another one's requests: those of this thread, which are sooner here, let them go first. */
	cede(): void {
		if (this.#cedes || this.#queue.size === 0) return;
		this.#cedes = true;
		setTimeout(() => {
			this.#cedes = false;
			this.#serveSoon();
		}, CEDE_MS);
	}

	/** @returns `false`: as many wait as may. */
	enter(tenant: string, waiting: Waiting): boolean {
		if (!this.#count.tryInc(this.#limits.queue)) {
			this.stats.count('full');
			return false;
		}
		this.#queue.add(tenant, waiting);
		if (this.#limits.maxConnections !== undefined) this.#wanted.ring();
		// What has become free since it was looked for.
		this.#serveSoon();
		return true;
	}

	/** It waits no longer, and has not departed. */
	leave(tenant: string, waiting: Waiting, result: 'timeout' | 'gone'): void {
		// A fault of ours may have ended its turn after all.
		if (!this.#queue.remove(tenant, waiting)) return;
		this.#count.dec();
		this.stats.count(result);
	}

	/** A request or a connection of this thread has ended. */
	freed(): void {
		const waiting = this.#count.total;
		if (waiting === 0) return;
		if (waiting > this.#queue.size) this.#freed.ring();
		if (this.#queue.size > 0) this.#serveSoon();
	}

	/** Not at once: what has ended is not through with that yet. */
	#serveSoon(): void {
		if (this.#isServing) return;
		this.#isServing = true;
		this.#turnEnd.add(STEP.dispatch, this.#serve);
	}

	readonly #serve = (): void => {
		this.#isServing = false;
		if (this.#cedes) return;
		this.#seen = this.#freed.count;
		const now = this.#clock.now();
		for (let first = this.#queue.first; first !== undefined; first = this.#queue.first) {
			if (!first.depart(now)) break;
			this.#queue.shift();
			this.#count.dec();
			this.stats.count('served');
		}
		this.#listen();
	};

	#listen(): void {
		if (this.#isListening || this.#queue.size === 0) return;
		this.#isListening = true;
		this.#freed.onRing(this.#seen, () => {
			this.#isListening = false;
			this.#serveSoon();
		});
	}

	/** Closes idle connections, as many as there are requests of other threads that wait, whenever another one of these begins to wait. */
	#giveWay(): void {
		if (this.#givesWay) return;
		this.#givesWay = true;
		this.#wanted.onRing(this.#wanted.count, () => {
			this.#givesWay = false;
			if (this.#limits.maxConnections === undefined) return;
			// First the bell, then the look: a ring in between is heard.
			this.#giveWay();
			if (this.isEmpty) for (const { pool } of this.#upstreams) pool.giveWay(this.#count.total);
		});
	}
}
