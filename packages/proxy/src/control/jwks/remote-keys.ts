import type { IdentitySeed } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { Fetches, KeyRefresher } from '@mtls-edge-proxy/gate/jwks/key-refresher.ts';
import type { RemoteIssuer } from '@mtls-edge-proxy/gate/jwks/remote-issuer.ts';
import type { IdentityFiles } from '../files/identity-files.ts';
import { Refreshers } from '../state/refreshers.ts';
import { type Timers, within } from '../timers.ts';

/** The issuers whose keys come over the network, on the main thread. */
export class RemoteKeys {
	readonly #refreshers: Refreshers<RemoteIssuer, KeyRefresher>;
	/** Issuers whose keys the workers have never had. */
	readonly #awaited: Set<string>;
	readonly #timers: Timers;

	/** @param issuers of the start. */
	constructor(
		issuers: readonly RemoteIssuer[],
		create: (issuer: RemoteIssuer, fetches: Fetches) => KeyRefresher,
		timers: Timers,
	) {
		this.#refreshers = new Refreshers({ keyOf, nameOf: ({ issuer }) => issuer, create });
		this.#awaited = new Set(issuers.map(({ issuer }) => issuer));
		this.#timers = timers;
	}

	/** @param onChange called when an issuer has other keys. */
	use(onChange: () => void): void {
		this.#refreshers.use(onChange);
	}

	/** Fetches the keys of the start; resolves when each issuer has some or has failed once, at the latest after `limitMs`. */
	async start(issuers: readonly RemoteIssuer[], limitMs: number): Promise<void> {
		const first = this.#refreshers.follow(issuers).map(({ firstAttempt }) => firstAttempt);
		await within(Promise.all(first), limitMs, this.#timers);
	}

	stop(): void {
		this.#refreshers.stop();
	}

	/** A worker has met a token that names an unknown key. */
	unknownKey(issuer: string): void {
		this.#refreshers.all.get(issuer)?.unknownKey();
	}

	get all(): Iterable<KeyRefresher> {
		return this.#refreshers.all.values();
	}

	/** Issuers without keys so far: the process is not ready until each has some. */
	get awaited(): ReadonlySet<string> {
		return this.#awaited;
	}

	/**
	 * Waits for the first keys of issuers that are new, or that have a new address or new rules.
	 *
	 * @throws Error naming an issuer without keys.
	 */
	async follow(issuers: readonly RemoteIssuer[]): Promise<void> {
		const fresh = this.#refreshers.follow(issuers);
		const causes = await Promise.all(fresh.map(({ firstAttempt }) => firstAttempt));
		const failed = fresh.findIndex(({ value }) => value === undefined);
		if (failed !== -1) throw new Error(`no keys of ${fresh[failed]!.issuer.issuer}: ${causes[failed]}`);
	}

	/** The same identity with the current keys. */
	compose({ identity, remotes }: IdentityFiles): IdentitySeed {
		const keys = new Map(remotes.map((remote) => [remote.issuer, this.#refreshers.of(remote)?.value]));
		return {
			...identity,
			issuers: identity.issuers.map((seed) => (seed.remote ? { ...seed, keys: keys.get(seed.issuer!) } : seed)),
		};
	}

	/** The workers have taken over this identity. */
	inForce({ issuers }: IdentitySeed, remotes: readonly RemoteIssuer[]): void {
		this.keepOnly(remotes);
		const missing = new Set(issuers.flatMap(({ issuer = '', keys }) => (keys === undefined ? issuer : [])));
		for (const issuer of this.#awaited) if (!missing.has(issuer)) this.#awaited.delete(issuer);
	}

	/** Stops fetching from all other issuers. */
	keepOnly(issuers: readonly RemoteIssuer[]): void {
		this.#refreshers.keepOnly(issuers);
	}
}

/** An issuer with another address or other rules is another source. */
function keyOf(issuer: RemoteIssuer): string {
	return JSON.stringify(Object.entries(issuer).sort());
}
