import { type ConcurrencyMemory, SlotCounts } from '@mtls-edge-proxy/gate/memory/concurrency.ts';
import { SharedSlots } from '@mtls-edge-proxy/gate/memory/fleet/shared-slots.ts';
import type { SlotReport } from './contract.ts';

/** A tenant without requests in flight is no longer reported this long after its last request, ms. */
const IDLE_MS = 1_000;
/** For this long after a tenant has asked, other replicas may have unreported changes, ms. */
const RECENT_MS = 500;
/** Unchanged counts are reported again after this, ms: the store forgets them after 3 s. */
const REPEAT_MS = 1_000;

interface Place {
	readonly at: number;
	readonly key: bigint;
	askedAt: number;
	reportedAt: number;
	/** As last reported. */
	underWay: number;
}

/** Selects the tenants whose requests in flight are reported to the store, and those of other replicas for the workers. Time is an argument. */
export class SlotReports {
	readonly #shared: SharedSlots;
	readonly #counts: SlotCounts;
	readonly #places = new Map<bigint, Place>();

	/** @param memory with `shared`. */
	constructor(memory: ConcurrencyMemory) {
		this.#shared = new SharedSlots(memory.shared!);
		this.#counts = new SlotCounts(memory);
	}

	/** @param report called for each report that is due; returns whether it was taken. */
	collect(now: number, report: (one: SlotReport) => boolean): void {
		this.#shared.takeAsked((at) => {
			const key = this.#counts.key(at);
			const place = this.#places.get(key);
			if (place !== undefined) place.askedAt = now;
			else this.#places.set(key, { at, key, askedAt: now, reportedAt: Number.NEGATIVE_INFINITY, underWay: 0 });
		});
		for (const place of this.#places.values()) {
			const underWay = this.#counts.taken(place.at);
			const isDue =
				now - place.askedAt <= RECENT_MS || underWay !== place.underWay || now - place.reportedAt >= REPEAT_MS;
			if (!isDue || !report({ key: place.key, underWay })) continue;
			place.reportedAt = now;
			place.underWay = underWay;
			if (underWay === 0 && now - place.askedAt >= IDLE_MS) this.#forget(place);
		}
	}

	/** @param others requests in flight at other replicas. */
	tell(key: bigint, others: number): void {
		const place = this.#places.get(key);
		if (place !== undefined) this.#shared.tell(place.at, others);
	}

	/** Drops the counts of other replicas: old ones must not cause refusals. */
	#forget({ key, at }: Place): void {
		this.#places.delete(key);
		this.#shared.tell(at, 0);
	}
}
