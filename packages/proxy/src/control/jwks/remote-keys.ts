import type { IdentitySeed } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { Fetches, KeyRefresher } from '@mtls-edge-proxy/gate/jwks/key-refresher.ts';
import type { RemoteIssuer } from '@mtls-edge-proxy/gate/jwks/remote-issuer.ts';
import type { IdentityFiles } from '../files/identity-files.ts';
import { Refreshers } from '../state/refreshers.ts';
import { type Timers, within } from '../timers.ts';

/** The issuers whose keys come over the network, on the main thread. */
export class RemoteKeys extends Refreshers<RemoteIssuer, KeyRefresher> {
	/** Issuers whose keys the workers have never had. */
	readonly #awaited: Set<string>;
	readonly #timers: Timers;

	/** @param issuers of the start. @param onChange called when an issuer has other keys. */
	constructor(
		issuers: readonly RemoteIssuer[],
		create: (issuer: RemoteIssuer, fetches: Fetches) => KeyRefresher,
		timers: Timers,
		onChange: () => void,
	) {
		super({ keyOf, nameOf: ({ issuer }) => issuer, create }, onChange);
		this.#awaited = new Set(issuers.map(({ issuer }) => issuer));
		this.#timers = timers;
	}

	/** Fetches the keys of the start; resolves when each issuer has some or has failed once, at the latest after `limitMs`. */
	async start(issuers: readonly RemoteIssuer[], limitMs: number): Promise<void> {
		const first = this.begin(issuers).map(({ firstAttempt }) => firstAttempt);
		await within(Promise.all(first), limitMs, this.#timers);
	}

	/** A worker has met a token that names an unknown key. */
	unknownKey(issuer: string): void {
		this.byName.get(issuer)?.unknownKey();
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
		const fresh = this.begin(issuers);
		const causes = await Promise.all(fresh.map(({ firstAttempt }) => firstAttempt));
		const failed = fresh.findIndex(({ value }) => value === undefined);
		if (failed !== -1) throw new Error(`no keys of ${fresh[failed]!.issuer.issuer}: ${causes[failed]}`);
	}

	/** The same identity with the current keys. */
	compose({ identity, remotes }: IdentityFiles): IdentitySeed {
		const keys = new Map(remotes.map((remote) => [remote.issuer, this.of(remote)?.value]));
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
}

/** An issuer with another address or other rules is another source. */
function keyOf(issuer: RemoteIssuer): string {
	return JSON.stringify(Object.entries(issuer).sort());
}
