import type { DnsSource, RouteConfig, UpstreamAddress, UpstreamConfig } from '../../config/config.ts';
import { Refreshers } from '../state/refreshers.ts';
import { type Timers, within } from '../timers.ts';
import { type AddressParts, AddressRefresher } from './address-refresher.ts';

/** A start or a reload waits this long for the first addresses, as for first probes. Later ones apply when they arrive. */
const FIRST_ADDRESSES_MS = 2_000;

/** The upstreams with addresses from DNS, on the main thread: workers get addresses as values, in a routing table. */
export class DnsAddresses {
	readonly #refreshers: Refreshers<Named, AddressRefresher>;
	readonly #timers: Timers;

	constructor(parts: AddressParts & { readonly timers: Timers }) {
		this.#timers = parts.timers;
		this.#refreshers = new Refreshers({
			keyOf: ({ name, dns }) => JSON.stringify([name, dns.authority, dns.server, dns.refreshMs]),
			nameOf: ({ name }) => name,
			create: ({ name, dns }, fetches, known) => {
				// While DNS is unavailable, a reload may change how a name is looked up, or for which upstream.
				const before = known.find((one) => one.authority === dns.authority && one.value !== undefined);
				return new AddressRefresher(name, dns, parts, before, fetches);
			},
		});
	}

	/** @param onChange called when an upstream has other addresses. */
	use(onChange: () => void): void {
		this.#refreshers.use(onChange);
	}

	/** Starts to look up new names. Resolves after the first look-up of each, or after 2 s. */
	async follow(routes: readonly RouteConfig[]): Promise<void> {
		const attempts = this.#refreshers.follow(namedOf(routes)).map(({ firstAttempt }) => firstAttempt);
		if (attempts.length > 0) await within(Promise.all(attempts), FIRST_ADDRESSES_MS, this.#timers);
	}

	/** These routes are in force: stops looking up names that none of them uses. */
	keepOnly(routes: readonly RouteConfig[]): void {
		this.#refreshers.keepOnly(namedOf(routes));
	}

	stop(): void {
		this.#refreshers.stop();
	}

	/** One for each upstream: that of the current routes, or the first one in preparation. */
	get all(): Iterable<AddressRefresher> {
		return this.#refreshers.all.values();
	}

	/** The current addresses; empty if none are known. */
	readonly addressesOf = ({ name, dns, addresses }: UpstreamConfig): readonly UpstreamAddress[] =>
		dns === undefined ? addresses : (this.#refreshers.of({ name: name!, dns })?.value ?? []);
}

/** An upstream with addresses from DNS. */
interface Named {
	readonly name: string;
	readonly dns: DnsSource;
}

function namedOf(routes: readonly RouteConfig[]): Named[] {
	return routes.flatMap(({ upstream: { name, dns } }) => (dns === undefined ? [] : { name: name!, dns }));
}
