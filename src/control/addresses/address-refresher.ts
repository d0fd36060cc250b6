import type { DnsSource, UpstreamAddress } from '../../config/config.ts';
import type { Clock } from '../../shared/clock.ts';
import type { SelfRefreshing } from '../../shared/jwks/key-refresher.ts';
import type { Logger } from '../../shared/log.ts';
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

const TARGET = 'proxy::dns';
/** However short its TTL, an answer holds so long, ms. */
const LEAST_MS = 1_000;
/** After a first failure, ms; twice as long after each further one. */
const RETRY_MS = 1_000;
/** More would be more than anybody reads. */
const MAX_SHOWN = 8;
/** As many as a configuration may name. */
const MAX_ADDRESSES = 1_000;

/** Keeps the addresses of one name. The last good ones hold until others are known, however long DNS is away. */
export class AddressRefresher implements SelfRefreshing<readonly UpstreamAddress[]> {
	readonly group: string;
	readonly fetches = { success: 0, failure: 0 };
	readonly #source: DnsSource;
	readonly #parts: AddressParts;
	readonly #stopped = new AbortController();
	readonly #firstAttempt = Promise.withResolvers<void>();
	#value: readonly UpstreamAddress[] | undefined;
	#resolvedAt = Number.NaN;
	/** In a row. */
	#failures = 0;
	#onChange: () => void = () => {};
	#cancel: () => void = () => {};

	/**
	 * @param group name of its `[[upstreams]]`.
	 * @param before has asked for the same name and port: what it knows holds until there is an answer.
	 */
	constructor(group: string, source: DnsSource, parts: AddressParts, before?: AddressRefresher) {
		this.group = group;
		this.#source = source;
		this.#parts = parts;
		if (before !== undefined) {
			this.#value = before.#value;
			this.#resolvedAt = before.#resolvedAt;
		}
	}

	/** `host:port` that is asked for. */
	get authority(): string {
		return this.#source.authority;
	}

	get value(): readonly UpstreamAddress[] | undefined {
		return this.#value;
	}

	get ageMs(): number | undefined {
		return this.#value && this.#parts.clock.now() - this.#resolvedAt;
	}

	/** Resolves when it has been asked for once, whatever came of it. */
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
		const { port, authority: hostField, refreshMs } = this.#source;
		const fields = { group: this.group, name: hostField };
		this.fetches.success++;
		this.#resolvedAt = clock.now();
		// In one order, so that two answers with the same addresses are the same.
		const sorted = [...new Set(addresses)].sort().slice(0, MAX_ADDRESSES);
		const next = sorted.map((host) => ({
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
		} else if (this.#failures > 0) {
			log.info(TARGET, 'addresses of an upstream resolved again, the same', { ...fields, failures: this.#failures });
		}
		this.#failures = 0;
		return Math.max(LEAST_MS, Math.min(refreshMs, ttlMs));
	}

	#failed(cause: string): number {
		const { random, log } = this.#parts;
		this.fetches.failure++;
		const backoff = Math.min(this.#source.refreshMs, RETRY_MS * 2 ** Math.min(this.#failures, 10));
		this.#failures++;
		// All instances meet the same outage, and are not to ask in step.
		const wait = Math.max(LEAST_MS / 2, backoff * (0.5 + random() / 2));
		const { ageMs } = this;
		log.warn(TARGET, ageMs === undefined ? 'no addresses of an upstream' : 'addresses not resolved; keeping old', {
			group: this.group,
			name: this.#source.authority,
			cause,
			failures: this.#failures,
			age_s: ageMs === undefined ? undefined : Math.round(ageMs / 1000),
			retry_in_ms: Math.round(wait),
		});
		return wait;
	}
}

/** Authorities of `some` that are not among `others`. */
function missing(some: readonly UpstreamAddress[], others: readonly UpstreamAddress[]): string[] {
	const known = new Set(others.map(({ authority }) => authority));
	return some.flatMap(({ authority }) => (known.has(authority) ? [] : authority));
}
