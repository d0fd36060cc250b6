import type { ConnectionOptions } from 'node:tls';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { HealthSettings, UpstreamAddress } from '../../config/config.ts';
import type { UpstreamProtocol } from '../../shared/messages.ts';
import type { Endpoint } from '../routing/table.ts';
import { type Timers, within } from '../timers.ts';
import { outcomeOf } from './outcome.ts';

export type Verdict =
	/** @param status of the response, if there was one. */
	| { readonly healthy: boolean; readonly cause: string; readonly status?: number }
	/** This machine lacked a resource for the probe, which says nothing about the upstream. */
	| { readonly healthy: 'unknown'; readonly cause: string };

/**
 * Probes one upstream. Resolves in bounded time, and never rejects.
 *
 * @param abandoned aborts the probe.
 * @param tls `undefined`: plain HTTP.
 * @param protocol `undefined`: HTTP/1.1.
 */
export type Probe = (
	address: UpstreamAddress,
	settings: HealthSettings,
	abandoned: AbortSignal,
	tls: ConnectionOptions | undefined,
	protocol: UpstreamProtocol | undefined,
) => Promise<Verdict>;

interface ProberParts {
	readonly intervalMs: number;
	readonly probe: Probe;
	readonly timers: Timers;
	readonly clock: Clock;
	readonly log: Logger;
}

/** The part of an endpoint that the prober needs. Those without `health` are never probed. */
export type Watched = Pick<
	Endpoint,
	'address' | 'group' | 'breaker' | 'health' | 'tls' | 'protocol' | 'alive' | 'aliveSince' | 'lastProbe'
>;

/** Limit for a round of first verdicts, ms; a start or a reload then goes on without them. */
export const PROVE_LIMIT_MS = 2_000;
/**
 * Concurrent probes in such a round. This thread takes some tenths of a millisecond for each: with thousands at once, the
 * last would time out before its response had been read.
 */
export const MAX_ROUND_PROBES = 256;
/** Upstreams are probed in groups, at least this far apart, ms. */
const LEAST_GAP_MS = 10;
/**
 * Upstreams are probed one by one if that leaves this much time between two, ms; otherwise this many together. After a pause, the
 * code of a probe is no longer in the processor's caches: with four together, each costs half.
 */
const SELDOM_MS = 500;
const TOGETHER = 4;

const TARGET = 'proxy::health';

/**
 * The active health check: probes all upstreams at the start, and then each of them once in every interval, spread over it. Each
 * verdict goes to the breaker immediately. A slow upstream delays no other verdict, and is not probed again before it has answered.
 * Only changes are logged.
 */
export class HealthProber {
	readonly #parts: ProberParts;
	#watched: readonly Watched[] = [];
	/** The group whose turn is next, and how many groups there are. */
	#group = 0;
	#groups = 1;
	readonly #running = new Map<Watched, AbortController>();
	readonly #verdicts = new WeakMap<Watched, VerdictCount>();
	/** Upstreams that could not be probed the last time. */
	readonly #unasked = new WeakSet<Watched>();
	#stopTimer: (() => void) | undefined;
	#isStopped = false;

	constructor(parts: ProberParts) {
		this.#parts = parts;
	}

	/** From now on probes only these. A running probe is dropped if its upstream is no longer watched. */
	watch(upstreams: Iterable<Watched>): void {
		this.#watched = Array.from(upstreams).filter(({ health }) => health !== undefined);
		const groups = groupsOf(this.#watched.length, this.#parts.intervalMs);
		// Keeps its position in the interval: reloads in quick succession must not keep the last groups waiting.
		this.#group = Math.floor((this.#group * groups) / this.#groups);
		this.#groups = groups;
		const watched = new Set(this.#watched);
		for (const [upstream, running] of this.#running) if (!watched.has(upstream)) running.abort();
	}

	/** Begins. Resolves when each upstream has its first verdict, or after `PROVE_LIMIT_MS`. */
	start(): Promise<void> {
		this.#wait(this.#parts.clock.now());
		return this.prove(this.#watched);
	}

	stop(): void {
		this.#isStopped = true;
		this.#stopTimer?.();
		this.watch([]);
	}

	/**
	 * Probes at once the upstreams, watched or about to be, that have no verdict yet. Resolves when each has one, or after
	 * `PROVE_LIMIT_MS`; those that have none by then get it later.
	 */
	prove(upstreams: Iterable<Watched>): Promise<void> {
		return within(this.#round([...upstreams]), PROVE_LIMIT_MS, this.#parts.timers);
	}

	async #round(upstreams: readonly Watched[]): Promise<void> {
		const left = upstreams.values();
		const one = async () => {
			for (const upstream of left) {
				if (this.#isStopped) return;
				if (!this.#verdicts.has(upstream)) await this.#probe(upstream);
			}
		};
		await Promise.all(Array.from({ length: Math.min(upstreams.length, MAX_ROUND_PROBES) }, one));
	}

	/** @param from when the last group had its turn, monotonic ms; counted from there, so that the interval does not drift. */
	#wait(from: number): void {
		const { intervalMs, timers, clock } = this.#parts;
		const now = clock.now();
		const due = Math.max(from + intervalMs / this.#groups, now);
		this.#stopTimer = timers.after(due - now, () => {
			this.#probeGroup();
			this.#wait(due);
		});
	}

	#probeGroup(): void {
		const { length } = this.#watched;
		const from = Math.floor((this.#group * length) / this.#groups);
		this.#group++;
		const to = Math.floor((this.#group * length) / this.#groups);
		for (const upstream of this.#watched.slice(from, to)) void this.#probe(upstream);
		if (this.#group === this.#groups) this.#group = 0;
	}

	async #probe(upstream: Watched): Promise<void> {
		const { address, health, tls, protocol } = upstream;
		if (health === undefined || this.#running.has(upstream)) return;
		const running = new AbortController();
		this.#running.set(upstream, running);
		const verdict = await this.#parts.probe(address, health, running.signal, tls, protocol);
		this.#running.delete(upstream);
		if (!running.signal.aborted) this.#apply(upstream, health, verdict);
	}

	#apply(upstream: Watched, health: HealthSettings, verdict: Verdict): void {
		const { clock, log } = this.#parts;
		const names = { upstream: upstream.address.authority, group: upstream.group };
		const { healthy } = verdict;
		const before = upstream.lastProbe;
		const outcome = outcomeOf(verdict, health, clock.wallSeconds());
		upstream.lastProbe = outcome;
		const said = { ...names, cause: outcome.found, remedy: outcome.remedy };
		if (healthy === 'unknown') {
			if (!this.#unasked.has(upstream)) {
				log.warn(TARGET, 'health cannot be probed; keeping the last verdict', said);
			}
			this.#unasked.add(upstream);
			return;
		}
		this.#unasked.delete(upstream);
		const count = countVerdict(this.#verdicts.get(upstream), healthy, health);
		this.#verdicts.set(upstream, count);
		if (!count.isEnough) return;
		upstream.breaker.health(healthy, clock.now(), `health: ${verdict.status ?? verdict.cause}`);
		if (upstream.alive === healthy) {
			if (!healthy && before?.found !== outcome.found)
				log.info(TARGET, 'upstream is still unhealthy, for another cause', said);
			return;
		}
		upstream.alive = healthy;
		upstream.aliveSince = outcome.atSeconds;
		if (healthy) log.info(TARGET, 'upstream is healthy', names);
		else log.warn(TARGET, 'upstream is unhealthy', said);
	}
}

/** @returns the number of groups into which an interval divides the upstreams; at least 1. */
function groupsOf(upstreams: number, intervalMs: number): number {
	const singly = Math.min(upstreams, Math.floor(intervalMs / SELDOM_MS));
	const wanted = Math.max(singly, Math.ceil(upstreams / TOGETHER));
	return Math.max(1, Math.min(wanted, Math.floor(intervalMs / LEAST_GAP_MS)));
}

interface VerdictCount {
	readonly healthy: boolean;
	readonly count: number;
	/** There are enough of them to take effect. */
	readonly isEnough: boolean;
}

/**
 * Counts one more verdict. The very first one takes effect at once, because nothing else is known about the upstream. After that it
 * takes as many consecutive ones as the settings require.
 *
 * @param before `undefined`: there was none.
 */
function countVerdict(
	before: VerdictCount | undefined,
	healthy: boolean,
	{ unhealthyAfter, healthyAfter }: Pick<HealthSettings, 'unhealthyAfter' | 'healthyAfter'>,
): VerdictCount {
	const wanted = healthy ? healthyAfter : unhealthyAfter;
	const count = before === undefined ? wanted : before.healthy === healthy ? Math.min(before.count + 1, wanted) : 1;
	return { healthy, count, isEnough: count >= wanted };
}
