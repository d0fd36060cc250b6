import type { RequestSlots } from '../gates/quota.ts';
import { SharedSlots, type SharedSlotsMemory } from './fleet/shared-slots.ts';
import { cellOf } from './fleet/store-health.ts';

/**
 * The requests in flight of each tenant, counted across threads. Each tenant with a limit has one place, found by its key, and a
 * place is never given to another tenant. So the count survives every reload: requests in flight stay counted while the table of
 * tenants changes, and are released in the place where they were claimed.
 *
 * Each worker counts its own requests in words that only it writes; a tenant's count is their sum. There is no separate total: a
 * thread may be ended between any two instructions, and the total would then disagree with its parts for ever. A claim reads all
 * words and changes one, under the tenant's lock. A release changes one word without the lock.
 */
export interface ConcurrencyMemory {
	/** Keys of tenants, 0 for a free place. Open addressing; each is set once. */
	readonly keys: SharedArrayBuffer;
	/** By place: 0, or 1 + the index of the worker that is claiming. */
	readonly locks: SharedArrayBuffer;
	/** By worker and place: requests in flight. */
	readonly taken: readonly SharedArrayBuffer[];
	/** Requests in flight at other replicas, if they share the limits. */
	readonly shared?: SharedSlotsMemory | undefined;
}

/** Maximum number of tenants with a limit during the life of the process. A configuration file has at most half as many. */
export const MAX_LIMITED_TENANTS = 1 << 16;

/** One thread's view of the counts. */
export class ConcurrencyCounts {
	readonly #keys: BigInt64Array;
	readonly #words: TakenWords;
	readonly #shared: SharedSlots | undefined;

	static allocate(workers: number, tenants: number = MAX_LIMITED_TENANTS): ConcurrencyMemory {
		const words = () => new SharedArrayBuffer(tenants * Int32Array.BYTES_PER_ELEMENT);
		return {
			keys: new SharedArrayBuffer(tenants * BigInt64Array.BYTES_PER_ELEMENT),
			locks: words(),
			taken: Array.from({ length: workers }, words),
		};
	}

	/** Releases all claims of a dead worker, and any lock that it held. Call it only after its thread has ended. */
	static reclaim(memory: ConcurrencyMemory, worker: number): void {
		new Int32Array(memory.taken[worker]!).fill(0);
		const locks = new Int32Array(memory.locks);
		for (let place = 0; place < locks.length; place++) Atomics.compareExchange(locks, place, worker + 1, 0);
	}

	/** @param worker index of this thread. */
	constructor(memory: ConcurrencyMemory, worker: number) {
		this.#shared = memory.shared && new SharedSlots(memory.shared);
		this.#keys = new BigInt64Array(memory.keys);
		const taken = memory.taken.map((words) => new Int32Array(words));
		this.#words = { worker, locks: new Int32Array(memory.locks), taken };
	}

	/**
	 * @param tenant its key (`tenantKey`), never 0.
	 * @throws Error when too many tenants have had a limit.
	 */
	slots(tenant: bigint, limit: number): RequestSlots {
		const place = this.#placeOf(tenant);
		if (this.#shared === undefined) return new TenantSlots(this.#words, place, limit);
		return new FleetSlots(this.#words, place, limit, this.#shared, cellOf(tenant));
	}

	#placeOf(tenant: bigint): number {
		const keys = this.#keys;
		const home = Number(BigInt.asUintN(32, tenant)) % keys.length;
		for (let i = 0; i < keys.length; i++) {
			const place = (home + i) % keys.length;
			const found = Atomics.compareExchange(keys, place, 0n, tenant);
			if (found === 0n || found === tenant) return place;
		}
		throw new Error(
			`more than ${keys.length} tenants have had a concurrency limit since the start; restart the process`,
		);
	}
}

interface TakenWords {
	readonly worker: number;
	readonly locks: Int32Array;
	readonly taken: readonly Int32Array[];
}

class TenantSlots implements RequestSlots {
	readonly limit: number;
	readonly #words: TakenWords;
	readonly #place: number;

	constructor(words: TakenWords, place: number, limit: number) {
		this.limit = limit;
		this.#words = words;
		this.#place = place;
	}

	/** Under the lock the count only falls, one by one, so the sum was correct at some moment. */
	get taken(): number {
		let sum = 0;
		for (const own of this.#words.taken) sum += Atomics.load(own, this.#place);
		return sum;
	}

	tryClaim(): boolean {
		return this.takeBelow(this.limit);
	}

	protected takeBelow(limit: number): boolean {
		const { worker, locks, taken } = this.#words;
		while (Atomics.compareExchange(locks, this.#place, 0, worker + 1) !== 0);
		const granted = this.taken < limit;
		if (granted) Atomics.add(taken[worker]!, this.#place, 1);
		Atomics.store(locks, this.#place, 0);
		return granted;
	}

	release(): void {
		Atomics.sub(this.#words.taken[this.#words.worker]!, this.#place, 1);
	}
}

/** The limit is shared by several replicas: requests that the others report count, too. */
class FleetSlots extends TenantSlots {
	readonly #shared: SharedSlots;
	readonly #at: number;
	readonly #cell: number;

	constructor(words: TakenWords, place: number, limit: number, shared: SharedSlots, cell: number) {
		super(words, place, limit);
		this.#shared = shared;
		this.#at = place;
		this.#cell = cell;
	}

	override tryClaim(): boolean {
		return this.takeBelow(this.#shared.usable(this.#at, this.#cell, this.limit));
	}
}

/** The main thread's view of the requests in flight at a place. */
export class SlotCounts {
	readonly #keys: BigInt64Array;
	readonly #taken: readonly Int32Array[];

	constructor(memory: ConcurrencyMemory) {
		this.#keys = new BigInt64Array(memory.keys);
		this.#taken = memory.taken.map((words) => new Int32Array(words));
	}

	key(place: number): bigint {
		return Atomics.load(this.#keys, place);
	}

	taken(place: number): number {
		return this.#taken.reduce((sum, words) => sum + Atomics.load(words, place), 0);
	}
}
