import type { UpstreamAddress } from '../config/config.ts';
import type { Clock } from '../shared/clock.ts';
import type { Logger } from '../shared/log.ts';
import type { Timers } from './timers.ts';
import type { Upstream } from './upstreams.ts';

export type Verdict =
	| { readonly healthy: true }
	| { readonly healthy: false; readonly cause: string }
	/** It could not be asked, for want of something on this machine: that says nothing of the upstream. */
	| { readonly healthy: 'unknown'; readonly cause: string };

/**
 * Asks one upstream how it is. It ends by itself, in bounded time, and does not reject.
 *
 * @param abandoned nobody wants to know any more.
 */
export type Probe = (address: UpstreamAddress, abandoned: AbortSignal) => Promise<Verdict>;

export interface ProberParts {
	readonly intervalMs: number;
	readonly probe: Probe;
	readonly timers: Timers;
	readonly clock: Clock;
	readonly log: Logger;
}

/** What the prober needs of an upstream. */
export type Watched = Pick<Upstream, 'address' | 'breaker' | 'alive'>;

const TARGET = 'proxy::health';

/**
 * The active health check (specification 4.2): all upstreams side by side, at once and then at every interval. Each
 * verdict goes to the breaker the moment it is there; a slow upstream delays nobody else's, and is not asked again
 * before it has answered. Only changes are logged.
 */
export class HealthProber {
	readonly #parts: ProberParts;
	#watched: readonly Watched[] = [];
	readonly #running = new Map<Watched, AbortController>();
	/** Those that could not be asked the last time. */
	readonly #unasked = new WeakSet<Watched>();
	#stopTimer: (() => void) | undefined;

	constructor(parts: ProberParts) {
		this.#parts = parts;
	}

	/** Probes these from now on, and no others. What is under way for one that is no longer watched is dropped. */
	watch(upstreams: Iterable<Watched>): void {
		this.#watched = [...upstreams];
		const watched = new Set(this.#watched);
		for (const [upstream, running] of this.#running) if (!watched.has(upstream)) running.abort();
	}

	/** Begins. Resolves when the first round has ended. */
	start(): Promise<void> {
		this.#stopTimer = this.#parts.timers.every(this.#parts.intervalMs, () => void this.probe(this.#watched));
		return this.probe(this.#watched);
	}

	stop(): void {
		this.#stopTimer?.();
		this.watch([]);
	}

	/** Probes upstreams at once, watched or about to be. Resolves when each has its verdict. */
	async probe(upstreams: Iterable<Watched>): Promise<void> {
		await Promise.all(Array.from(upstreams, (upstream) => this.#probeOne(upstream)));
	}

	async #probeOne(upstream: Watched): Promise<void> {
		if (this.#running.has(upstream)) return;
		const running = new AbortController();
		this.#running.set(upstream, running);
		const verdict = await this.#parts.probe(upstream.address, running.signal);
		this.#running.delete(upstream);
		if (!running.signal.aborted) this.#apply(upstream, verdict);
	}

	#apply(upstream: Watched, verdict: Verdict): void {
		const { clock, log } = this.#parts;
		const { authority } = upstream.address;
		if (verdict.healthy === 'unknown') {
			if (!this.#unasked.has(upstream)) {
				log.warn(TARGET, 'health cannot be probed; keeping the last verdict', {
					upstream: authority,
					cause: verdict.cause,
				});
			}
			this.#unasked.add(upstream);
			return;
		}
		this.#unasked.delete(upstream);
		upstream.breaker.health(verdict.healthy, clock.now());
		if (upstream.alive === verdict.healthy) return;
		upstream.alive = verdict.healthy;
		if (verdict.healthy) log.info(TARGET, 'upstream is healthy', { upstream: authority });
		else log.warn(TARGET, 'upstream is unhealthy', { upstream: authority, cause: verdict.cause });
	}
}
