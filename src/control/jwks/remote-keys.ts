import type { KeySetSeed } from '../../identity/key-set.ts';
import type { IdentitySeed } from '../../identity/trust.ts';
import type { Fetches, KeyRefresher } from '../../shared/jwks/key-refresher.ts';
import type { RemoteIssuer } from '../../shared/jwks/remote-issuer.ts';
import type { Logger } from '../../shared/log.ts';
import type { Timers } from '../timers.ts';
import { TakeOver, within } from '../workers/take-over.ts';

export interface RemoteKeysParts {
	readonly createRefresher: (issuer: RemoteIssuer, fetches: Fetches) => KeyRefresher;
	/** Has all workers take over what `compose` gives, or none; rejects with the reason. */
	readonly takeOver: () => Promise<void>;
	readonly timers: Timers;
	readonly log: Logger;
}

/** What a reload has prepared of it. */
export interface RemotePlan {
	/** See `RemoteKeys.compose`. */
	compose(identity: IdentitySeed): IdentitySeed;
	/** From here on these issuers are followed, and no others. */
	apply(): void;
	/** Nothing has changed. */
	discard(): void;
}

/**
 * The issuers whose keys come over the network, on the main thread: workers get the keys as values, in rounds that all of them take
 * part in, and no request ever waits for an issuer.
 */
export class RemoteKeys {
	readonly #parts: RemoteKeysParts;
	#refreshers: ReadonlyMap<string, KeyRefresher>;
	/** By issuer, for as long as the process lives: counters never fall. */
	readonly #fetches = new Map<string, Fetches>();
	/** Issuers that the workers have never had keys of. */
	readonly #awaited: Set<string>;
	readonly #takeOver: TakeOver;

	constructor(issuers: readonly RemoteIssuer[], parts: RemoteKeysParts) {
		this.#parts = parts;
		this.#refreshers = new Map(issuers.map((issuer) => [issuer.issuer, this.#create(issuer)]));
		this.#awaited = new Set(this.#refreshers.keys());
		this.#takeOver = new TakeOver({
			run: parts.takeOver,
			onFailure: (cause) => parts.log.warn('proxy::jwks', 'keys not taken over; trying again', { cause }),
			timers: parts.timers,
		});
	}

	#create(issuer: RemoteIssuer): KeyRefresher {
		const fetches = this.#fetches.get(issuer.issuer) ?? { success: 0, failure: 0 };
		this.#fetches.set(issuer.issuer, fetches);
		return this.#parts.createRefresher(issuer, fetches);
	}

	/** Begins to fetch; resolves when each issuer has keys or has failed once, at the latest after `limitMs`. */
	async start(limitMs: number): Promise<void> {
		const first = this.all.map((refresher) => refresher.firstAttempt);
		for (const refresher of this.all) refresher.start(() => this.#takeOver.changed());
		await within(Promise.all(first), limitMs, this.#parts.timers);
	}

	/** There are workers: from here on they get what changes, and what has changed since they were started. */
	serve(): void {
		this.#takeOver.serve();
	}

	stop(): void {
		this.#takeOver.stop();
		for (const refresher of this.all) refresher.stop();
	}

	/** A worker has met a token that names a key which is not known. */
	unknownKey(issuer: string): void {
		this.#refreshers.get(issuer)?.unknownKey();
	}

	get all(): readonly KeyRefresher[] {
		return [...this.#refreshers.values()];
	}

	/** Issuers without whose first keys this process is not ready. */
	get awaited(): ReadonlySet<string> {
		return this.#awaited;
	}

	/** The same identity with the keys of the moment. */
	compose(identity: IdentitySeed): IdentitySeed {
		return withKeys(identity, this.#refreshers);
	}

	/** The workers have taken this over. */
	inForce({ issuers }: IdentitySeed): void {
		for (const { issuer = '', keys } of issuers) if (keys !== undefined) this.#awaited.delete(issuer);
	}

	/**
	 * Prepares a reload. An issuer that is new, or whose address or rules have changed, is asked for its keys first.
	 *
	 * @throws Error naming an issuer that gives none: then nothing has changed.
	 */
	async plan(issuers: readonly RemoteIssuer[]): Promise<RemotePlan> {
		const known = this.#refreshers;
		const next = new Map<string, KeyRefresher>();
		const fresh: KeyRefresher[] = [];
		for (const issuer of issuers) {
			const same = known.get(issuer.issuer);
			const kept = same !== undefined && isSame(same.issuer, issuer);
			const refresher = kept ? same : this.#create(issuer);
			if (!kept) fresh.push(refresher);
			next.set(issuer.issuer, refresher);
		}
		const discard = () => {
			for (const refresher of fresh) refresher.stop();
		};
		for (const refresher of fresh) {
			refresher.start(() => this.#refreshers.get(refresher.issuer.issuer) === refresher && this.#takeOver.changed());
		}
		const causes = await Promise.all(
			fresh.map(async (refresher) => [refresher, await refresher.firstAttempt] as const),
		);
		const failed = causes.find(([refresher]) => refresher.value === undefined);
		if (failed !== undefined) {
			discard();
			throw new Error(`no keys of ${failed[0].issuer.issuer}: ${failed[1]}`);
		}
		return {
			compose: (identity) => withKeys(identity, next),
			apply: () => {
				this.#refreshers = next;
				for (const refresher of known.values()) if (next.get(refresher.issuer.issuer) !== refresher) refresher.stop();
				for (const issuer of this.#awaited) if (!next.has(issuer)) this.#awaited.delete(issuer);
				// What has changed since the round's messages were made would be lost otherwise.
				if (next.size > 0) this.#takeOver.changed();
			},
			discard,
		};
	}
}

function withKeys(identity: IdentitySeed, refreshers: ReadonlyMap<string, KeyRefresher>): IdentitySeed {
	const keysOf = (issuer: string): KeySetSeed | undefined => refreshers.get(issuer)?.value;
	return {
		...identity,
		issuers: identity.issuers.map((seed) => (seed.remote ? { ...seed, keys: keysOf(seed.issuer!) } : seed)),
	};
}

function isSame(a: RemoteIssuer, b: RemoteIssuer): boolean {
	return JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());
}
