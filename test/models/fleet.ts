import type { LeaseAnswer, LeaseBatch } from '../../src/control/store/contract.ts';
import { Leasing, TICK_MS } from '../../src/control/store/leasing.ts';
import { LedgerStore } from '../../src/control/store/ledger.ts';
import type { OnStoreFailure } from '../../src/control/store/standing.ts';
import { Rate } from '../../src/gates/tenant-limit.ts';
import { FleetLimiter } from '../../src/shared/fleet/fleet-limiter.ts';
import { createLeaseMemory } from '../../src/shared/fleet/leases.ts';
import { createLimiterMemory } from '../../src/shared/limiter.ts';

/**
 * Replicas, a store and a network between them, in fake time that moves by milliseconds. The code is the proxy's own, but for the
 * store (`LedgerStore`) and the network.
 */
export interface FleetOptions {
	readonly replicas: number;
	readonly tenants: number;
	readonly rps: number;
	readonly burst: number;
	/** Places of each replica's tables, a power of two. */
	readonly places?: number;
	readonly onFailure?: OnStoreFailure;
	/** Milliseconds from a replica to the store, or back; `undefined`: lost. */
	readonly latency?: (now: number, replica: number) => number | undefined;
	/** What a replica makes of no answer, ms. */
	readonly timeoutMs?: number;
	/** The store's own time at a moment of the fleet's, microseconds. */
	readonly storeMicros?: (now: number) => number;
	/** What becomes of an answer on its way. */
	readonly distort?: (answer: LeaseAnswer, batch: LeaseBatch, now: number) => LeaseAnswer;
}

const SECRET = new Uint8Array(32);
/** Of 100 ms. */
const BUCKET_MS = 100;

export class Fleet {
	readonly store = new LedgerStore();
	now = 1_000;
	readonly #options: Required<FleetOptions>;
	readonly #rate: Rate;
	readonly #keys: bigint[];
	readonly #replicas: Replica[];
	readonly #events = new Map<number, (() => void)[]>();
	/** By tenant, in steps of `BUCKET_MS` since the start. */
	readonly #admitted: number[][];
	readonly #asked: number[][];
	/** Batches sent, and calls in them. */
	batches = 0;
	calls = 0;

	constructor(options: FleetOptions) {
		this.#options = {
			places: 1024,
			onFailure: 'share',
			latency: () => 1,
			timeoutMs: 250,
			storeMicros: (now) => (1_700_000_000_000 + now) * 1000,
			distort: (answer) => answer,
			...options,
		};
		const { replicas, tenants, rps, burst } = this.#options;
		this.#rate = new Rate(rps, burst);
		this.#keys = Array.from({ length: tenants }, (_, i) => spread(i));
		this.#replicas = Array.from({ length: replicas }, (_, index) => this.#replica(index));
		this.#admitted = Array.from({ length: tenants }, () => []);
		this.#asked = Array.from({ length: tenants }, () => []);
	}

	#replica(index: number): Replica {
		const { places, onFailure, replicas } = this.#options;
		const leases = createLeaseMemory(places);
		const limiter = new FleetLimiter(createLimiterMemory(SECRET, 4 * places), 0, leases);
		const leasing = new Leasing({
			replica: index.toString(16).padStart(16, '0'),
			leases,
			concurrency: undefined,
			onFailure,
			expected: replicas,
			now: this.now,
		});
		return { limiter, leasing, index };
	}

	/** Lets time pass. @param requests of each millisecond: calls `ask`. */
	run(ms: number, requests: (now: number) => void): void {
		for (const end = this.now + ms; this.now < end; this.now++) {
			for (const event of this.#take()) event();
			for (const replica of this.#replicas) {
				// Replicas do not tick together.
				if ((this.now + replica.index * 7) % TICK_MS !== 0) continue;
				for (const batch of replica.leasing.tick(this.now)) this.#send(replica, batch);
			}
			requests(this.now);
		}
	}

	/** One request. */
	ask(tenant: number, replica: number): boolean {
		const bucket = Math.floor(this.now / BUCKET_MS);
		add(this.#asked[tenant]!, bucket);
		const isAdmitted = this.#replicas[replica]!.limiter.admit(this.#keys[tenant]!, this.now, this.#rate);
		if (isAdmitted) add(this.#admitted[tenant]!, bucket);
		return isAdmitted;
	}

	leasing(replica: number): Leasing {
		return this.#replicas[replica]!.leasing;
	}

	/** The most that a tenant was admitted in any 10 s since `from`, by steps of `BUCKET_MS`. */
	mostIn10s(tenant: number, from = 0): number {
		return mostIn(this.#admitted[tenant]!, 10_000 / BUCKET_MS, Math.floor(from / BUCKET_MS));
	}

	admitted(tenant: number, from = 0, to = this.now): number {
		return sum(this.#admitted[tenant]!, from, to);
	}

	asked(tenant: number, from = 0, to = this.now): number {
		return sum(this.#asked[tenant]!, from, to);
	}

	#take(): (() => void)[] {
		const events = this.#events.get(this.now) ?? [];
		this.#events.delete(this.now);
		return events;
	}

	#at(ms: number, event: () => void): void {
		const at = Math.max(this.now + 1, Math.round(ms));
		const events = this.#events.get(at);
		if (events === undefined) this.#events.set(at, [event]);
		else events.push(event);
	}

	#send({ leasing, index }: Replica, batch: LeaseBatch): void {
		const { latency, timeoutMs, storeMicros, distort } = this.#options;
		this.batches++;
		this.calls += batch.calls.length;
		let isOver = false;
		this.#at(this.now + timeoutMs, () => {
			if (isOver) return;
			isOver = true;
			leasing.failed(batch, 'no answer', this.now);
		});
		const there = latency(this.now, index);
		if (there === undefined) return;
		this.#at(this.now + there, () => {
			const answer = distort(this.store.lease(batch, storeMicros(this.now)), batch, this.now);
			const back = latency(this.now, index);
			if (back === undefined) return;
			this.#at(this.now + back, () => {
				if (isOver) return;
				isOver = true;
				leasing.answered(batch, answer, this.now);
			});
		});
	}
}

interface Replica {
	readonly limiter: FleetLimiter;
	readonly leasing: Leasing;
	readonly index: number;
}

/** Numbers to keys that lie anywhere. */
function spread(i: number): bigint {
	return BigInt.asIntN(64, BigInt(i + 1) * 0x9e3779b97f4a7c15n);
}

function add(buckets: number[], bucket: number): void {
	buckets[bucket] = (buckets[bucket] ?? 0) + 1;
}

function sum(buckets: readonly number[], from: number, to: number): number {
	let sum = 0;
	const end = Math.min(buckets.length, Math.ceil(to / BUCKET_MS));
	for (let i = Math.floor(from / BUCKET_MS); i < end; i++) sum += buckets[i] ?? 0;
	return sum;
}

function mostIn(buckets: readonly number[], window: number, from: number): number {
	let most = 0;
	let inWindow = 0;
	for (let i = from; i < buckets.length; i++) {
		inWindow += (buckets[i] ?? 0) - (i - window < from ? 0 : (buckets[i - window] ?? 0));
		most = Math.max(most, inWindow);
	}
	return most;
}
