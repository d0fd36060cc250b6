import type { IdentitySeed } from '../identity/trust.ts';
import { fetchKeys } from '../jwks/fetch-keys.ts';
import { KeyRefresher, type RefresherParts } from '../jwks/key-refresher.ts';
import type { Clock } from '../shared/clock.ts';
import { createLogger } from '../shared/log.ts';
import { GateError } from './error.ts';
import { safeHook } from './fault-report.ts';
import type { FetchedIssuer, ReadIssuers } from './issuers.ts';

/** An event of a gate, such as a fetch of keys. It contains no secrets. */
export interface GateEvent {
	readonly level: 'error' | 'warn' | 'info' | 'debug' | 'trace';
	readonly message: string;
	readonly fields: Readonly<Record<string, unknown>>;
}

interface RemoteKeysOptions {
	readonly clock: Clock;
	readonly onEvent: (event: GateEvent) => void;
	readonly readyTimeoutMs: number;
}

/** Fetches the keys of issuers that publish them over the network, in the background: no request waits for it. */
export class RemoteKeys {
	readonly #refreshers: ReadonlyMap<string, KeyRefresher>;
	readonly #seeds: ReadIssuers['seeds'];
	readonly #ready = Promise.withResolvers<void>();
	readonly #readyTimeoutMs: number;
	#isSettled = false;
	#timer: NodeJS.Timeout | undefined;

	/** @param onChange called with the current keys each time that they change. */
	constructor(
		{ seeds, remotes }: ReadIssuers,
		{ clock, onEvent, readyTimeoutMs }: RemoteKeysOptions,
		onChange: (identity: IdentitySeed) => void,
	) {
		const tell = safeHook('onEvent', onEvent);
		const log = createLogger(
			{ enabled: () => true, problems: [] },
			({ level, message, fields = {} }) => tell({ level, message, fields }),
			() => new Date(),
		);
		const parts = { store: undefined, after, clock, random: Math.random, log };
		const partsOf = ({ fetch }: FetchedIssuer): RefresherParts => ({
			...parts,
			fetch: (issuer, abandoned, last) => fetchKeys(issuer, fetch, abandoned, last),
		});
		this.#seeds = seeds;
		this.#readyTimeoutMs = readyTimeoutMs;
		this.#refreshers = new Map(remotes.map((remote) => [remote.issuer, new KeyRefresher(remote, partsOf(remote))]));
		// A program may ignore `ready`; its rejection must not end the process.
		this.#ready.promise.catch(() => {});
		for (const refresher of this.#refreshers.values()) {
			refresher.start(() => {
				onChange(this.identity);
				if (this.#missing().length === 0) this.#settle();
			});
		}
		if (remotes.length === 0) this.#settle();
	}

	/**
	 * Resolves when each issuer has given keys. Rejects when the gate is closed first, or `readyTimeoutMs` after the first read. The
	 * process stays alive while it waits.
	 */
	get ready(): Promise<void> {
		if (!this.#isSettled) this.#timer ??= setTimeout(() => this.#settle(this.#notReady()), this.#readyTimeoutMs);
		return this.#ready.promise;
	}

	#settle(error?: GateError): void {
		this.#isSettled = true;
		clearTimeout(this.#timer);
		if (error === undefined) this.#ready.resolve();
		else this.#ready.reject(error);
	}

	#missing(): string[] {
		return [...this.#refreshers].flatMap(([issuer, { value }]) => (value === undefined ? issuer : []));
	}

	#notReady(): GateError {
		const message = `no keys after ${this.#readyTimeoutMs} ms from ${this.#missing().join(', ')}; onEvent says why`;
		return new GateError('ERR_GATE_NOT_READY', message);
	}

	/** All issuers with their current keys. */
	get identity(): IdentitySeed {
		const keysOf = (issuer: string) => this.#refreshers.get(issuer)?.value;
		return { issuers: this.#seeds.map((seed) => (seed.remote ? { ...seed, keys: keysOf(seed.issuer!) } : seed)) };
	}

	/** Called when a token names an unknown key. */
	unknownKey(issuer: string): void {
		this.#refreshers.get(issuer)?.unknownKey();
	}

	close(): void {
		for (const refresher of this.#refreshers.values()) refresher.stop();
		// No effect if the promise has settled.
		this.#settle(new GateError('ERR_GATE_CLOSED', 'the gate was closed before it had keys of every issuer'));
	}
}

/** The default of `onEvent`: failures become warnings of the process. */
export function warnOfEvent({ level, message, fields }: GateEvent): void {
	if (level === 'error' || level === 'warn') process.emitWarning(`${message}: ${JSON.stringify(fields)}`);
}

/** The timer does not keep the process alive. */
function after(ms: number, run: () => void): () => void {
	const timer = setTimeout(run, ms).unref();
	return () => clearTimeout(timer);
}
