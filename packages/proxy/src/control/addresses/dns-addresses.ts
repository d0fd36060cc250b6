import type { DnsSource, RouteConfig, UpstreamAddress, UpstreamConfig } from '../../config/config.ts';
import { Refreshers } from '../state/refreshers.ts';
import { type Timers, within } from '../timers.ts';
import { type AddressParts, AddressRefresher } from './address-refresher.ts';

/** So long a start or a reload waits for the first addresses, as for first probes; what comes later is taken over then. */
const FIRST_ADDRESSES_MS = 2_000;

/** The upstreams whose addresses DNS says, on the main thread: workers get addresses as values, in a routing table. */
export class DnsAddresses {
	readonly #refreshers: Refreshers<Named, AddressRefresher>;
	readonly #timers: Timers;

	constructor(parts: AddressParts & { readonly timers: Timers }) {
		this.#timers = parts.timers;
		this.#refreshers = new Refreshers({
			keyOf: ({ name, dns }) => JSON.stringify([name, dns.authority, dns.server, dns.refreshMs]),
			nameOf: ({ name }) => name,
			create: ({ name, dns }, fetches, known) => {
				// A reload may ask for a name in another way, or for another group, while DNS is away.
				const before = known.find((one) => one.authority === dns.authority && one.value !== undefined);
				return new AddressRefresher(name, dns, parts, before, fetches);
			},
		});
	}

	/** @param onChange an upstream has other addresses. */
	use(onChange: () => void): void {
		this.#refreshers.use(onChange);
	}

	/** Begins to ask for the addresses of those that are new. Resolves when each of them has been asked for once, or after 2 s. */
	async follow(routes: readonly RouteConfig[]): Promise<void> {
		const attempts = this.#refreshers.follow(namedOf(routes)).map(({ firstAttempt }) => firstAttempt);
		if (attempts.length > 0) await within(Promise.all(attempts), FIRST_ADDRESSES_MS, this.#timers);
	}

	/** These routes are in force: names that none of them leads to are asked for no longer. */
	keepOnly(routes: readonly RouteConfig[]): void {
		this.#refreshers.keepOnly(namedOf(routes));
	}

	stop(): void {
		this.#refreshers.stop();
	}

	/** One of each group: that of the routes in force, or the first one that is to be. */
	get all(): Iterable<AddressRefresher> {
		return this.#refreshers.all.values();
	}

	/** Of the moment; none where none are known. */
	readonly addressesOf = ({ name, dns, addresses }: UpstreamConfig): readonly UpstreamAddress[] =>
		dns === undefined ? addresses : (this.#refreshers.of({ name: name!, dns })?.value ?? []);
}

/** A group whose addresses DNS says. */
interface Named {
	readonly name: string;
	readonly dns: DnsSource;
}

function namedOf(routes: readonly RouteConfig[]): Named[] {
	return routes.flatMap(({ upstream: { name, dns } }) => (dns === undefined ? [] : { name: name!, dns }));
}
