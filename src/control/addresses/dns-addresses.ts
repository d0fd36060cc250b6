import type { RouteConfig, UpstreamAddress, UpstreamGroupConfig } from '../../config/config.ts';
import type { Fetches } from '../../shared/jwks/key-refresher.ts';
import type { Timers } from '../timers.ts';
import { within } from '../workers/take-over.ts';
import { type AddressParts, AddressRefresher } from './address-refresher.ts';

/** So long a start or a reload waits for the first addresses, as for first probes; what comes later is taken over then. */
const FIRST_ADDRESSES_MS = 2_000;

/**
 * The upstreams whose addresses DNS says, on the main thread: workers get addresses as values, in a routing table, and no request ever
 * waits for a name.
 */
export class DnsAddresses {
	readonly #parts: AddressParts & { readonly timers: Timers };
	readonly #onChange: () => void;
	/** By `keyOf`. */
	readonly #refreshers = new Map<string, AddressRefresher>();
	/** Of them, those of the routes in force; while a table is prepared there are others of the same groups. */
	#inForce: ReadonlySet<string | undefined> = new Set();
	/** By group, for as long as the process lives: counters never fall. */
	readonly #fetches = new Map<string, Fetches>();
	#stopped = false;

	/** @param onChange an upstream has other addresses than before. */
	constructor(parts: AddressParts & { readonly timers: Timers }, onChange: () => void) {
		this.#parts = parts;
		this.#onChange = onChange;
	}

	/** Begins to ask for the addresses of those that are new. Resolves when each of them has been asked for once, or after 2 s. */
	async follow(routes: readonly RouteConfig[]): Promise<void> {
		if (this.#stopped) return;
		const fresh: AddressRefresher[] = [];
		for (const { group } of routes) {
			const key = keyOf(group);
			if (key === undefined || this.#refreshers.has(key)) continue;
			const known = this.#known(group.dns!.authority);
			const refresher = new AddressRefresher(group.name!, group.dns!, this.#parts, known, this.#fetchesOf(group.name!));
			this.#refreshers.set(key, refresher);
			fresh.push(refresher);
			refresher.start(this.#onChange);
		}
		if (fresh.length === 0) return;
		const attempts = fresh.map(({ firstAttempt }) => firstAttempt);
		await within(Promise.all(attempts), FIRST_ADDRESSES_MS, this.#parts.timers);
	}

	/** A reload may ask for a name in another way, or for another group, while DNS is away. */
	#known(authority: string): AddressRefresher | undefined {
		return [...this.#refreshers.values()].find((one) => one.authority === authority && one.value !== undefined);
	}

	/** These routes are in force: names that none of them leads to are asked for no longer. */
	keepOnly(routes: readonly RouteConfig[]): void {
		const kept = new Set(routes.map(({ group }) => keyOf(group)));
		this.#inForce = kept;
		for (const [key, refresher] of this.#refreshers) {
			if (kept.has(key)) continue;
			refresher.stop();
			this.#refreshers.delete(key);
		}
	}

	/** Nobody is asked any more. What is known holds: requests under way may still meet a table that is being taken over. */
	stop(): void {
		this.#stopped = true;
		for (const refresher of this.#refreshers.values()) refresher.stop();
	}

	/** One of each group: that of the routes in force, or the first one that is to be. */
	get all(): Iterable<AddressRefresher> {
		const byGroup = new Map<string, AddressRefresher>();
		for (const [key, one] of this.#refreshers) {
			if (this.#inForce.has(key) || !byGroup.has(one.group)) byGroup.set(one.group, one);
		}
		return byGroup.values();
	}

	#fetchesOf(group: string): Fetches {
		const fetches = this.#fetches.get(group) ?? { success: 0, failure: 0 };
		this.#fetches.set(group, fetches);
		return fetches;
	}

	/** Of the moment; none where none are known. */
	readonly addressesOf = (group: UpstreamGroupConfig): readonly UpstreamAddress[] => {
		const key = keyOf(group);
		return key === undefined ? group.addresses : (this.#refreshers.get(key)?.value ?? []);
	};
}

/** Whose answers are the same. `undefined`: DNS is not asked. */
function keyOf({ name, dns }: UpstreamGroupConfig): string | undefined {
	return dns && JSON.stringify([name, dns.authority, dns.server, dns.refreshMs]);
}
