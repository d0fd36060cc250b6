import type { RouteConfig, UpstreamAddress, UpstreamConfig } from '../../config/config.ts';
import { Refreshers } from '../state/refreshers.ts';
import { type Timers, within } from '../timers.ts';
import { type AddressParts, AddressRefresher } from './address-refresher.ts';

/** A start or a reload waits this long for the first addresses, as for first probes. Later ones apply when they arrive. */
const FIRST_ADDRESSES_MS = 2_000;

/** The upstreams of routes with addresses from DNS, on the main thread: workers get addresses as values, in a routing table. */
export class DnsAddresses extends Refreshers<Pick<RouteConfig, 'upstream'>, AddressRefresher> {
	readonly #timers: Timers;

	/** @param onChange called when an upstream has other addresses. */
	constructor(parts: AddressParts & { readonly timers: Timers }, onChange: () => void) {
		super(
			{
				keyOf: ({ upstream: { name, dns } }) => dns && JSON.stringify([name, dns.authority, dns.server, dns.refreshMs]),
				nameOf: ({ upstream }) => upstream.name!,
				create: ({ upstream: { name, dns } }, fetches, known) => {
					// While DNS is unavailable, a reload may change how a name is looked up, or for which upstream.
					const before = known.find((one) => one.authority === dns!.authority && one.value !== undefined);
					return new AddressRefresher(name!, dns!, parts, before, fetches);
				},
			},
			onChange,
		);
		this.#timers = parts.timers;
	}

	/** Starts to look up new names. Resolves after the first look-up of each, or after 2 s. */
	async follow(routes: readonly RouteConfig[]): Promise<void> {
		const attempts = this.begin(routes).map(({ firstAttempt }) => firstAttempt);
		if (attempts.length > 0) await within(Promise.all(attempts), FIRST_ADDRESSES_MS, this.#timers);
	}

	/** The current addresses; empty if none are known. */
	readonly addressesOf = (upstream: UpstreamConfig): readonly UpstreamAddress[] =>
		upstream.dns === undefined ? upstream.addresses : (this.of({ upstream })?.value ?? []);
}
