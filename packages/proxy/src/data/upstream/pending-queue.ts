import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import { FairQueue, type Turn } from '../../gates/fair-queue.ts';
import { QueueClaims } from '../../memory/queue-claims.ts';
import { QueueStats } from '../../memory/queue-stats.ts';
import { UpstreamLoad } from '../../memory/upstream-load.ts';
import { WakeUp } from '../../memory/wake-up.ts';
import type { PendingQueueSeed, UpstreamLimits } from '../../shared/messages.ts';
import { Timed } from '../loop/deadlines.ts';
import type { FaultOwner } from '../loop/faults.ts';
import { STEP, type TurnEnd } from '../loop/turn-end.ts';
import type { DataPlane } from '../plane/plane.ts';
import type { PlaneDeadlines } from '../plane/plane-deadlines.ts';
import type { Upstream } from './upstream.ts';

/** Longer than another thread takes to wake up. */
const CEDE_MS = 1;

/** Result of a request's turn: it has left; it was refused because no breaker admits it or its client no longer waits; there is no room. */
export type Departure = 'served' | 'unavailable' | 'full';

/** A request that waits. */
export interface Waiting extends FaultOwner {
	/** It was sent before, and must leave for another endpoint. If that has no room, other requests need not wait for it. */
	readonly isRetry: boolean;
	/**
	 * Its turn.
	 *
	 * @param upstream the one in force, which may differ from the one when the waiting began.
	 * @returns `full`: it goes on waiting.
	 */
	depart(now: number, upstream: Upstream): Departure;
	/** It waits no longer: another tenant has taken its place, or its time is over. */
	giveUp(why: 'full' | 'timeout'): void;
}

/** Where one request waits, and for how long. */
export class Place extends Timed {
	readonly tenant: string;
	readonly waiting: Waiting;
	/** Monotonic milliseconds when the waiting began. */
	readonly since: number;
	readonly #pending: PendingQueue;

	constructor(pending: PendingQueue, tenant: string, waiting: Waiting, since: number) {
		super();
		this.#pending = pending;
		this.tenant = tenant;
		this.waiting = waiting;
		this.since = since;
	}

	override onDeadline(): void {
		this.leave('timeout');
		this.waiting.giveUp('timeout');
	}

	override onFault(error: unknown): void {
		this.waiting.onFault(error);
	}

	/** The request waits no longer, and has not departed. */
	leave(result: 'timeout' | 'gone'): void {
		this.#pending.leave(this, result);
	}
}

/**
 * Holds this worker's requests while all addresses of an upstream are at a limit. It outlives reloads, as the requests do. The limits apply
 * to the process: capacity that one thread frees may be wanted by requests of another, so it wakes that thread.
 */
export class PendingQueue {
	readonly stats: QueueStats;
	readonly #queue = new FairQueue<string, Place>();
	/** How many of them are retries. */
	#retries = 0;
	/** Requests that wait, in all threads. */
	readonly #count: UpstreamLoad;
	/** Places that tenants of other threads claim from this thread's, and vice versa. */
	readonly #claims: QueueClaims;
	readonly #freed: WakeUp;
	/** Signals that a request waits for a connection, since other threads may have idle ones. */
	readonly #wanted: WakeUp;
	readonly #clock: Clock;
	readonly #turnEnd: TurnEnd;
	readonly #deadlines: PlaneDeadlines;
	#limits: UpstreamLimits;
	#upstream: Upstream | undefined;
	/** The number of rings seen before a request was told to wait. */
	#seen = 0;
	#isListening = false;
	#isServing = false;
	#givesWay = false;
	#isRetired = false;
	/** Freed capacity is left to other threads. */
	#cedes = false;

	/** @param worker index of this thread. */
	constructor(
		seed: PendingQueueSeed,
		limits: UpstreamLimits,
		worker: number,
		{ clock, turnEnd, deadlines }: Pick<DataPlane, 'clock' | 'turnEnd' | 'deadlines'>,
	) {
		this.stats = new QueueStats(seed.stats, worker);
		this.#count = new UpstreamLoad(seed.count, worker);
		this.#claims = new QueueClaims(seed.claims, worker);
		this.#freed = new WakeUp(seed.freed);
		this.#wanted = new WakeUp(seed.wanted);
		this.#limits = limits;
		this.#clock = clock;
		this.#turnEnd = turnEnd;
		this.#deadlines = deadlines;
	}

	/**
	 * Puts these limits in force, also for requests that already wait.
	 *
	 * @param limits `undefined`: there are none any more, so no request has to wait.
	 */
	use(limits: UpstreamLimits | undefined, upstream: Upstream): void {
		this.#isRetired = false;
		this.#limits = limits ?? { ...this.#limits, maxRequests: undefined, maxConnections: undefined };
		this.#upstream = upstream;
		if (limits?.maxConnections !== undefined) this.#giveWay();
		this.#serveSoon();
	}

	/** The upstream is gone. Requests that wait are served as they would have been; the queue stops listening once none are left. */
	retire(): void {
		this.#isRetired = true;
		// A listener keeps the queue in memory.
		if (this.#givesWay) this.#wanted.ring();
	}

	get isEmpty(): boolean {
		return this.#queue.size === 0;
	}

	/** Whether a waiting request goes before one that could leave now. @param isRetry as in `Waiting`. */
	comesFirst(isRetry: boolean): boolean {
		return this.#queue.size > (isRetry ? 0 : this.#retries);
	}

	/** Whether the queue is full. */
	get isFull(): boolean {
		return this.#count.total >= this.#limits.queue;
	}

	/**
	 * Whether a connection that becomes free here is owed to another thread: requests wait there and none here, or this thread has more than
	 * an equal share of the connections.
	 */
	owes(connections: UpstreamLoad): boolean {
		const { threads } = this.#count;
		if (this.#queue.size === 0) return threads > 0;
		return threads > 1 && connections.own * threads > connections.total;
	}

	/** A connection of this thread is about to end for another thread's requests. This thread's faster requests let those go first. */
	cede(): void {
		if (this.#cedes || this.#queue.size === 0) return;
		this.#cedes = true;
		setTimeout(() => {
			this.#cedes = false;
			this.#serveSoon();
		}, CEDE_MS);
	}

	/** @returns `undefined`: the queue is full, and no tenant has more requests in it than this one would have in this thread. */
	enter(tenant: string, waiting: Waiting): Place | undefined {
		if (!this.#count.tryInc(this.#limits.queue) && !this.#makeRoom(tenant)) {
			this.stats.count('full');
			return undefined;
		}
		const place = new Place(this, tenant, waiting, this.#clock.now());
		this.#queue.add(tenant, place);
		this.#claims.publish(this.#queue.most);
		if (waiting.isRetry) this.#retries++;
		this.#deadlines.lasting(this.#limits.queueTimeoutMs).add(place);
		if (this.#limits.maxConnections !== undefined) this.#wanted.ring();
		// Capacity may have become free since the last look.
		this.#serveSoon();
		return place;
	}

	/** A burst that fills the queue, in any thread, must not keep other tenants out. */
	#makeRoom(tenant: string): boolean {
		const least = this.#queue.sizeOf(tenant) + 1;
		if (this.#claims.claim(Math.max(least, this.#queue.most), this.#count)) {
			this.#freed.ring();
			return true;
		}
		return this.#giveUpLast(least);
	}

	/** Removes the last request of the tenant with the most waiting. @param least a tenant with at most so many loses none. */
	#giveUpLast(least: number): boolean {
		const most = this.#queue.lastOfMost(least);
		if (most === undefined) return false;
		const [tenant, last] = most;
		this.#queue.remove(tenant, last);
		this.#ended(last);
		this.stats.count('full');
		try {
			last.waiting.giveUp('full');
		} catch (error) {
			this.#turnEnd.onFault(last.waiting, error);
		}
		return true;
	}

	/** Gives up places that other threads have claimed. */
	#yieldClaimed(): void {
		for (let claimed = this.#claims.take(); claimed > 0; claimed--) {
			// All requests have left meanwhile, one of them with the place that was claimed.
			if (!this.#giveUpLast(0)) this.#count.inc();
		}
	}

	/** For `Place`. */
	leave(place: Place, result: 'timeout' | 'gone'): void {
		// A fault of the proxy may have ended its turn after all.
		if (!this.#queue.remove(place.tenant, place)) return;
		this.#ended(place);
		this.#count.dec();
		this.stats.count(result);
	}

	#ended(place: Place): void {
		this.#claims.publish(this.#queue.most);
		place.cancelDeadline();
		if (place.waiting.isRetry) this.#retries--;
	}

	/** A request or a connection of this thread has ended. */
	freed(): void {
		const waiting = this.#count.total;
		if (waiting === 0) return;
		if (waiting > this.#queue.size) this.#freed.ring();
		if (this.#queue.size > 0) this.#serveSoon();
	}

	/** Deferred: the request or connection that ended has not finished its cleanup yet. */
	#serveSoon(): void {
		if (this.#isServing) return;
		this.#isServing = true;
		this.#turnEnd.add(STEP.dispatch, this.#serve);
	}

	readonly #serve = (): void => {
		this.#isServing = false;
		if (this.#cedes) return;
		this.#seen = this.#freed.count;
		this.#yieldClaimed();
		const now = this.#clock.now();
		try {
			this.#queue.serve((place) => this.#offer(place, now));
		} finally {
			this.#claims.publish(this.#queue.most);
			this.#listen();
		}
	};

	#offer(place: Place, now: number): Turn {
		const { waiting } = place;
		let departure: Departure = 'unavailable';
		try {
			departure = waiting.depart(now, this.#upstream!);
		} catch (error) {
			this.#turnEnd.onFault(waiting, error);
		}
		if (departure === 'full') return waiting.isRetry ? 'passed' : 'over';
		this.#ended(place);
		this.#count.dec();
		this.stats.count(departure);
		return 'taken';
	}

	#listen(): void {
		if (this.#isListening || this.#queue.size === 0) return;
		this.#isListening = true;
		this.#freed.onRing(this.#seen, () => {
			this.#isListening = false;
			this.#serveSoon();
		});
	}

	/** Each time a request of another thread begins to wait, closes as many idle connections as requests wait there. */
	#giveWay(): void {
		if (this.#givesWay) return;
		this.#givesWay = true;
		this.#wanted.onRing(this.#wanted.count, () => {
			this.#givesWay = false;
			if (this.#limits.maxConnections === undefined || this.#isRetired) return;
			// First the bell, then the look: a ring in between is heard.
			this.#giveWay();
			if (this.isEmpty) for (const { pool } of this.#upstream!.endpoints) pool.giveWay(this.#count.total);
		});
	}
}
