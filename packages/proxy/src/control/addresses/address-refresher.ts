import type { Fetches, SelfRefreshing } from '@mtls-edge-proxy/gate/jwks/key-refresher.ts';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { DnsSource, UpstreamAddress } from '../../config/config.ts';
import type { Timers } from '../timers.ts';
import type { Resolve, Resolved } from './resolve.ts';

export interface AddressParts {
	readonly resolve: Resolve;
	readonly timers: Pick<Timers, 'after'>;
	readonly clock: Clock;
	/** From 0 to 1. */
	readonly random: () => number;
	readonly log: Logger;
}

/** Failed look-ups of a name since its last good answer. */
export interface Failing {
	/** Wall-clock time of the first failure, seconds since the epoch. */
	readonly sinceSeconds: number;
	/** Consecutive failures. */
	readonly failures: number;
	readonly cause: string;
}

const TARGET = 'proxy::dns';
/** An answer holds at least this long, however short its TTL, ms. */
const LEAST_MS = 1_000;
/** Delay after the first failure, ms; doubled after each further one. */
const RETRY_MS = 1_000;
/** Addresses in a log line; nobody reads more. */
const MAX_SHOWN = 8;
/** The same limit as for addresses in a configuration. */
const MAX_ADDRESSES = 1_000;

/** Keeps the addresses of one name current. The last good ones hold until new ones arrive, however long DNS is unavailable. */
export class AddressRefresher implements SelfRefreshing<readonly UpstreamAddress[]> {
	readonly group: string;
	readonly fetches: Fetches;
	readonly #source: DnsSource;
	readonly #parts: AddressParts;
	readonly #stopped = new AbortController();
	readonly #firstAttempt = Promise.withResolvers<void>();
	#value: readonly UpstreamAddress[] | undefined;
	#resolvedAt = Number.NaN;
	#failing: Failing | undefined;
	/** Whether the last answer had more addresses than are used. */
	#isCut = false;
	#onChange: () => void = () => {};
	#cancel: () => void = () => {};

	/**
	 * @param group name of its `[[upstreams]]`.
	 * @param before an earlier refresher of the same name and port: its addresses hold until there is an answer.
	 * @param fetches counts for the group, shared with earlier refreshers.
	 */
	constructor(
		group: string,
		source: DnsSource,
		parts: AddressParts,
		before?: AddressRefresher,
		fetches: Fetches = { success: 0, failure: 0 },
	) {
		this.group = group;
		this.fetches = fetches;
		this.#source = source;
		this.#parts = parts;
		if (before !== undefined) {
			this.#value = before.#value;
			this.#resolvedAt = before.#resolvedAt;
		}
	}

	/** The `host:port` to look up. */
	get authority(): string {
		return this.#source.authority;
	}

	get value(): readonly UpstreamAddress[] | undefined {
		return this.#value;
	}

	get ageMs(): number | undefined {
		return this.#value && this.#parts.clock.now() - this.#resolvedAt;
	}

	/** `undefined` after a good answer, and before the first answer of any kind. */
	get failing(): Failing | undefined {
		return this.#failing;
	}

	/** Resolves after the first look-up, whether it succeeded or failed. */
	get firstAttempt(): Promise<void> {
		return this.#firstAttempt.promise;
	}

	start(onChange: () => void): void {
		this.#onChange = onChange;
		void this.#ask();
	}

	stop(): void {
		this.#stopped.abort();
		this.#cancel();
	}

	async #ask(): Promise<void> {
		const { resolve, timers } = this.#parts;
		let wait: number;
		try {
			const resolved = await resolve(this.#source, this.#stopped.signal);
			if (this.#stopped.signal.aborted) return;
			wait = this.#succeeded(resolved);
		} catch (error) {
			if (this.#stopped.signal.aborted) return;
			wait = this.#failed((error as Error).message);
		}
		this.#firstAttempt.resolve();
		this.#cancel = timers.after(wait, () => void this.#ask());
	}

	#succeeded({ addresses, ttlMs = Number.POSITIVE_INFINITY }: Resolved): number {
		const { clock, log } = this.#parts;
		const { port, authority, hostField = authority, refreshMs } = this.#source;
		const fields = { group: this.group, name: authority };
		this.fetches.success++;
		this.#resolvedAt = clock.now();
		// Sorted, so that two answers with the same addresses compare equal.
		const found = [...new Set(addresses)].sort();
		this.#noteCut(found.length);
		const next = found.slice(0, MAX_ADDRESSES).map((host) => ({
			authority: host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`,
			host,
			port,
			hostField,
		}));
		const added = missing(next, this.#value ?? []);
		const removed = missing(this.#value ?? [], next);
		if (added.length + removed.length > 0) {
			this.#value = next;
			log.info(TARGET, 'addresses of an upstream have changed', {
				...fields,
				addresses: next.length,
				added: added.slice(0, MAX_SHOWN),
				removed: removed.slice(0, MAX_SHOWN),
			});
			this.#onChange();
		} else if (this.#failing !== undefined) {
			const { failures } = this.#failing;
			log.info(TARGET, 'addresses of an upstream resolved again, unchanged', { ...fields, failures });
		}
		this.#failing = undefined;
		return Math.max(LEAST_MS, Math.min(refreshMs, ttlMs));
	}

	/** Logs once if there are too many addresses: otherwise nobody would notice that the surplus ones get no requests. */
	#noteCut(found: number): void {
		const isCut = found > MAX_ADDRESSES;
		if (isCut && !this.#isCut) {
			this.#parts.log.warn(TARGET, 'an upstream has more addresses than are used', {
				group: this.group,
				name: this.#source.authority,
				addresses: found,
				used: MAX_ADDRESSES,
			});
		}
		this.#isCut = isCut;
	}

	#failed(cause: string): number {
		const { random, clock, log } = this.#parts;
		this.fetches.failure++;
		const { sinceSeconds = clock.wallSeconds(), failures = 0 } = this.#failing ?? {};
		const backoff = Math.min(this.#source.refreshMs, RETRY_MS * 2 ** Math.min(failures, 10));
		this.#failing = { sinceSeconds, failures: failures + 1, cause };
		// All instances see the same outage: random delays keep them from asking at the same time.
		const wait = Math.max(LEAST_MS / 2, backoff * (0.5 + random() / 2));
		const { ageMs } = this;
		log.warn(
			TARGET,
			ageMs === undefined ? 'addresses not resolved; the upstream has none' : 'addresses not resolved; keeping old',
			{
				group: this.group,
				name: this.#source.authority,
				cause,
				failures: failures + 1,
				age_s: ageMs === undefined ? undefined : Math.round(ageMs / 1000),
				retry_in_ms: Math.round(wait),
			},
		);
		return wait;
	}
}

function missing(some: readonly UpstreamAddress[], others: readonly UpstreamAddress[]): string[] {
	const known = new Set(others.map(({ authority }) => authority));
	return some.flatMap(({ authority }) => (known.has(authority) ? [] : authority));
}
