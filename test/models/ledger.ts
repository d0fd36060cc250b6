import {
	type FleetStore,
	REPLICA_MS,
	type SlotReport,
	type Spending,
} from '../../packages/proxy/src/control/store/contract.ts';
import { failureOf } from '../../packages/proxy/src/control/store/failure.ts';

/** The store in memory, by a clock that is given with each call (`redis-fleet-store.ts` does the same in a Redis; a test compares the two). */
export class Ledger {
	#moments = new Map<bigint, { readonly moment: number; readonly seen: number }>();
	#slots = new Map<bigint, Map<string, { readonly count: number; readonly stamp: number }>>();
	#replicas = new Map<string, { readonly stamp: number; readonly delayMs: number }>();
	/** Keys that something else has. */
	readonly foreign = new Set<bigint>();

	/** @param now microseconds of the store's clock. */
	settle(spendings: readonly Spending[], now: number): (number | undefined)[] {
		return spendings.map(({ key, costMicros, aheadMicros }) => {
			if (this.foreign.has(key)) return undefined;
			const { moment = 0, seen = now } = this.#moments.get(key) ?? {};
			const next = Math.max(moment - Math.max(0, seen - now) + costMicros, now + aheadMicros);
			this.#moments.set(key, { moment: next, seen: now });
			return Math.max(0, next - now);
		});
	}

	report(replica: string, reports: readonly SlotReport[], now: number): number[] {
		const ms = Math.floor(now / 1000);
		return reports.map(({ key, underWay }) => {
			const records = this.#slots.get(key) ?? new Map();
			this.#slots.set(key, records);
			for (const [other, { stamp }] of records) if (Math.abs(ms - stamp) >= REPLICA_MS) records.delete(other);
			records.delete(replica);
			const others = [...records.values()].reduce((sum, { count }) => sum + count, 0);
			if (underWay > 0) records.set(replica, { count: underWay, stamp: ms });
			return others;
		});
	}

	register(replica: string, leaving: boolean, delayMs: number, now: number) {
		const ms = Math.floor(now / 1000);
		for (const [other, { stamp }] of this.#replicas) {
			if (Math.abs(ms - stamp) > REPLICA_MS) this.#replicas.delete(other);
		}
		if (leaving) this.#replicas.delete(replica);
		else this.#replicas.set(replica, { stamp: ms, delayMs: Math.ceil(delayMs) });
		const delays = [...this.#replicas.values()].map((one) => one.delayMs);
		return { replicas: this.#replicas.size, delayMs: Math.max(0, ...delays) };
	}

	flush(): void {
		this.#moments.clear();
		this.#slots.clear();
		this.#replicas.clear();
	}
}

/** What one replica has of it, at once and by the clock that is given. */
export function storeOf(ledger: Ledger, replica: string, micros: () => number): FleetStore {
	return {
		register: async (leaving, delayMs) => ledger.register(replica, leaving, delayMs, micros()),
		settle: async (spendings) => ledger.settle(spendings, micros()),
		report: async (reports) => ledger.report(replica, reports, micros()),
	};
}

export const UNREACHABLE = failureOf(Object.assign(new Error(), { code: 'ECONNREFUSED' }));
