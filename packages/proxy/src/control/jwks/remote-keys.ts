import type { IdentitySeed } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { Fetches, KeyRefresher } from '@mtls-edge-proxy/gate/jwks/key-refresher.ts';
import type { RemoteIssuer } from '@mtls-edge-proxy/gate/jwks/remote-issuer.ts';
import type { IdentityFiles } from '../files/identity-files.ts';
import { Refreshers } from '../state/refreshers.ts';
import { type Timers, within } from '../timers.ts';

/** The issuers whose keys come over the network, on the main thread. */
export class RemoteKeys {
	readonly #refreshers: Refreshers<RemoteIssuer, KeyRefresher>;
	/** Issuers that the workers have never had keys of. */
	readonly #awaited: Set<string>;
	readonly #timers: Timers;

	/** @param issuers those of the start. */
	constructor(
		issuers: readonly RemoteIssuer[],
		create: (issuer: RemoteIssuer, fetches: Fetches) => KeyRefresher,
		timers: Timers,
	) {
		this.#refreshers = new Refreshers({ keyOf, nameOf: ({ issuer }) => issuer, create });
		this.#awaited = new Set(issuers.map(({ issuer }) => issuer));
		this.#timers = timers;
	}

	/** @param onChange an issuer has other keys. */
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

	/** A worker has met a token that names a key which is not known. */
	unknownKey(issuer: string): void {
		this.#refreshers.all.get(issuer)?.unknownKey();
	}

	get all(): Iterable<KeyRefresher> {
		return this.#refreshers.all.values();
	}

	/** Issuers without whose first keys this process is not ready. */
	get awaited(): ReadonlySet<string> {
		return this.#awaited;
	}

	/**
	 * Waits for the first keys of issuers that are new, or whose address or rules are.
	 *
	 * @throws Error naming an issuer that gives none.
	 */
	async follow(issuers: readonly RemoteIssuer[]): Promise<void> {
		const fresh = this.#refreshers.follow(issuers);
		const causes = await Promise.all(fresh.map(({ firstAttempt }) => firstAttempt));
		const failed = fresh.findIndex(({ value }) => value === undefined);
		if (failed !== -1) throw new Error(`no keys of ${fresh[failed]!.issuer.issuer}: ${causes[failed]}`);
	}

	/** The same identity with the keys of the moment. */
	compose({ identity, remotes }: IdentityFiles): IdentitySeed {
		const keys = new Map(remotes.map((remote) => [remote.issuer, this.#refreshers.of(remote)?.value]));
		return {
			...identity,
			issuers: identity.issuers.map((seed) => (seed.remote ? { ...seed, keys: keys.get(seed.issuer!) } : seed)),
		};
	}

	/** The workers have this identity. */
	inForce({ issuers }: IdentitySeed, remotes: readonly RemoteIssuer[]): void {
		this.keepOnly(remotes);
		const missing = new Set(issuers.flatMap(({ issuer = '', keys }) => (keys === undefined ? issuer : [])));
		for (const issuer of this.#awaited) if (!missing.has(issuer)) this.#awaited.delete(issuer);
	}

	/** No other issuers are asked any more. */
	keepOnly(issuers: readonly RemoteIssuer[]): void {
		this.#refreshers.keepOnly(issuers);
	}
}

/** Another address, or other rules, make it another one. */
function keyOf(issuer: RemoteIssuer): string {
	return JSON.stringify(Object.entries(issuer).sort());
}
