import type { RequestSlots } from '../../packages/gate/src/gates/quota.ts';
import { Rate } from '../../packages/gate/src/gates/tenant-limit.ts';
import { ConcurrencyCounts } from '../../packages/gate/src/memory/concurrency.ts';
import { SharedSlots } from '../../packages/gate/src/memory/fleet/shared-slots.ts';
import { StoreHealth } from '../../packages/gate/src/memory/fleet/store-health.ts';
import { TenantLimiter } from '../../packages/gate/src/memory/limiter.ts';
import type { OnStoreFailure } from '../../packages/proxy/src/config/config.ts';
import type { Registry } from '../../packages/proxy/src/control/store/contract.ts';
import { type Call, INTERVAL_MS, Settlement } from '../../packages/proxy/src/control/store/settlement.ts';
import { FleetLimiter } from '../../packages/proxy/src/memory/fleet/fleet-limiter.ts';
import { SpendingCounts } from '../../packages/proxy/src/memory/fleet/spending.ts';
import { Ledger } from './ledger.ts';

/**
 * Replicas, a store and a network between them, in fake time that moves by milliseconds. The code is the proxy's own, but for the
 * store (`Ledger`) and the network.
 */
export interface FleetOptions {
	readonly replicas: number;
	readonly tenants?: number;
	readonly rps: number;
	readonly burst: number;
	/** Requests at once. */
	readonly concurrency?: number;
	/** Slots of each replica's limiter. */
	readonly slots?: number;
	readonly onFailure?: OnStoreFailure;
	readonly cluster?: boolean;
	/** Milliseconds from a replica to the store, or back; `undefined`: lost. */
	readonly latency?: (now: number, replica: number) => number | undefined;
	/** Whether the store refuses all calls for this shard. */
	readonly refuses?: (now: number, shard: number) => boolean;
	/** What a replica makes of no answer, ms. */
	readonly timeoutMs?: number;
	/** The store's own time at a moment of the fleet's, microseconds. */
	readonly storeMicros?: (now: number) => number;
	/** Whether a replica's main thread gets no turn. */
	readonly isStalled?: (now: number, replica: number) => boolean;
}

const SECRET = new Uint8Array(32);
const PLACES = 64;

export class Fleet {
	readonly ledger = new Ledger();
	now = 1_000;
	readonly #options: Required<FleetOptions>;
	readonly rate: Rate;
	readonly keys: readonly bigint[];
	readonly #replicas: Replica[];
	readonly #events = new Map<number, (() => void)[]>();
	/** By tenant and millisecond since the start. */
	readonly #admitted: number[][];
	readonly #asked: number[];
	/** Calls sent, keys in them, and times at which any were sent to a shard. */
	calls = 0;
	keysSent = 0;
	trips = 0;

	constructor(options: FleetOptions) {
		this.#options = {
			tenants: 1,
			concurrency: 1,
			slots: 64,
			onFailure: 'share',
			cluster: false,
			latency: () => 1,
			refuses: () => false,
			timeoutMs: 500,
			storeMicros: (now) => (1_700_000_000_000 + now) * 1000,
			isStalled: () => false,
			...options,
		};
		const { replicas, tenants, rps, burst } = this.#options;
		this.rate = new Rate(rps, burst);
		this.keys = Array.from({ length: tenants }, (_, i) => spread(i));
		this.#replicas = Array.from({ length: replicas }, (_, index) => this.#replica(index));
		this.#admitted = this.keys.map(() => []);
		this.#asked = this.keys.map(() => 0);
	}

	#replica(index: number): Replica {
		const { slots, onFailure, cluster, replicas, concurrency } = this.#options;
		const limiter = TenantLimiter.allocate(SECRET, slots);
		const fleet = { spending: SpendingCounts.allocate(limiter), storeHealth: StoreHealth.allocate() };
		const memory = {
			...ConcurrencyCounts.allocate(1, PLACES),
			shared: SharedSlots.allocate(PLACES, fleet.storeHealth),
		};
		const counts = new ConcurrencyCounts(memory, 0);
		const key = this.keys[0]!;
		return {
			name: index.toString(16).padStart(16, '0'),
			index,
			limiter: new FleetLimiter(limiter, 0, fleet),
			slots: counts.slots(key, concurrency),
			settlement: new Settlement({
				...{ limiter, fleet, concurrency: memory, onFailure, cluster },
				...{ expected: replicas, now: this.now },
			}),
		};
	}

	/** Lets time pass. @param requests of each millisecond: calls `ask`. */
	run(ms: number, requests: (now: number) => void = () => {}): void {
		const { isStalled } = this.#options;
		for (const end = this.now + ms; this.now < end; this.now++) {
			// A loop that was held up runs its timers before it reads what has come meanwhile.
			for (const replica of this.#replicas) {
				if (!replica.isLate || isStalled(this.now, replica.index)) continue;
				replica.isLate = false;
				this.#tick(replica);
			}
			for (const event of this.#take()) event();
			for (const replica of this.#replicas) {
				if (this.sinceTick(replica.index) !== 0) continue;
				if (isStalled(this.now, replica.index)) replica.isLate = true;
				else this.#tick(replica);
			}
			requests(this.now);
		}
	}

	/** Milliseconds since a replica's last tick was due. Replicas do not tick together. */
	sinceTick(replica: number): number {
		return (this.now + replica * 67) % INTERVAL_MS;
	}

	/** One request of a tenant. */
	ask(tenant: number, replica: number): boolean {
		this.#asked[tenant]!++;
		const isAdmitted = this.#replicas[replica]!.limiter.admit(this.keys[tenant]!, this.now, this.rate);
		const admitted = this.#admitted[tenant]!;
		if (isAdmitted) admitted[this.now] = (admitted[this.now] ?? 0) + 1;
		return isAdmitted;
	}

	settlement(replica: number): Settlement {
		return this.#replicas[replica]!.settlement;
	}

	/** Of the first tenant. */
	slots(replica: number): RequestSlots {
		return this.#replicas[replica]!.slots;
	}

	/** The most by which a tenant was admitted more in any window than its rate gives in it, in requests. */
	mostBeyondRate(tenant: number, from = 0): number {
		const admitted = this.#admitted[tenant]!;
		let level = 0;
		let most = 0;
		for (let at = from; at < this.now; at++) {
			level = Math.max(0, level - this.#options.rps / 1000) + (admitted[at] ?? 0);
			most = Math.max(most, level);
		}
		return most;
	}

	admitted(tenant: number, from = 0): number {
		return this.#admitted[tenant]!.slice(from).reduce((sum, count) => sum + (count ?? 0), 0);
	}

	asked(tenant: number): number {
		return this.#asked[tenant]!;
	}

	#tick(replica: Replica): void {
		const { settlement, index } = replica;
		const { calls, register } = settlement.tick(this.now);
		this.trips += new Set(calls.map(({ shard }) => shard)).size;
		for (const call of calls) this.#send(replica, call);
		if (!register) return;
		this.#carry(
			index,
			0,
			() => this.ledger.register(replica.name, false, settlement.delayMs, this.#micros),
			(registry: Registry) => settlement.registered(registry, this.now),
			() => settlement.notRegistered(this.now),
		);
	}

	#send({ settlement, name, index }: Replica, call: Call): void {
		this.calls++;
		this.keysSent += call.spendings.length + call.reports.length;
		this.#carry(
			index,
			call.shard,
			() =>
				call.spendings.length > 0
					? this.ledger.settle(call.spendings, this.#micros)
					: this.ledger.report(name, call.reports, this.#micros),
			(answers) => settlement.answered(call, answers, this.now),
			(isKnown) => settlement.failed(call, isKnown, this.now),
		);
	}

	get #micros(): number {
		return this.#options.storeMicros(this.now);
	}

	#carry<T>(
		replica: number,
		shard: number,
		run: () => T,
		answered: (answer: T) => void,
		failed: (isKnown: boolean) => void,
	): void {
		const { latency, timeoutMs, refuses, isStalled } = this.#options;
		let isOver = false;
		const end = (finish: () => void) => {
			if (isStalled(this.now, replica)) return void this.#at(this.now + 1, () => end(finish));
			if (isOver) return;
			isOver = true;
			finish();
		};
		this.#at(this.now + timeoutMs, () => end(() => failed(false)));
		const there = latency(this.now, replica);
		if (there === undefined) return;
		this.#at(this.now + there, () => {
			const isRefused = refuses(this.now, shard);
			const answer = isRefused ? undefined : run();
			const back = latency(this.now, replica);
			if (back === undefined) return;
			this.#at(this.now + back, () => end(() => (isRefused ? failed(true) : answered(answer!))));
		});
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
}

interface Replica {
	readonly name: string;
	readonly index: number;
	readonly limiter: FleetLimiter;
	readonly slots: RequestSlots;
	readonly settlement: Settlement;
	/** It should have had its turn. */
	isLate?: boolean;
}

/** Numbers to keys that lie anywhere. */
function spread(i: number): bigint {
	return BigInt.asIntN(64, BigInt(i + 1) * 0x9e3779b97f4a7c15n);
}
