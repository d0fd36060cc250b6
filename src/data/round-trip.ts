import { CIRCUIT_OPEN, type FailureReason } from '../gates/breaker.ts';
import type { Rejection } from '../gates/rejection.ts';
import * as rejection from '../gates/rejection.ts';
import { silenceCause } from '../shared/causes.ts';
import type { RetryReason } from '../shared/stats.ts';
import { Attempt } from './attempt.ts';
import type { Dispatched } from './dispatch-queue.ts';
import type { Route, Upstream } from './plane.ts';
import type { FailureKind, UpstreamFailure } from './upstream/connection.ts';
import type { UpstreamGroup } from './upstream/group.ts';
import type { Departure, Place, Waiting } from './upstream/waiting-room.ts';

/**
 * One request between the gates and the answer: an address of its route's group is chosen, or waited for, and the request is sent there
 * (`Attempt`); where that one does not take it, and it is safe, another one is.
 */
export abstract class RoundTrip extends Attempt implements Dispatched, Waiting {
	/** The client has left. */
	isGone = false;
	/** Monotonic milliseconds when it was the request's turn: what is pipelined waits before that. */
	protected startedAt = 0;
	/** Of the time before it first left for an upstream so much was spent waiting, for the client or in the queue, ms. */
	#waitedMs = 0;
	/** Where it waits for an upstream. */
	#place: Place | undefined;
	/** Upstreams that did not take it. */
	#tried: readonly Upstream[] = NONE_TRIED;
	/** Why it waits for another one. */
	#failure: RetriedFailure | undefined;

	/** Gives an answer of our own. */
	protected abstract refuse(answer: Rejection): void;
	/** The same for a request that was admitted. */
	protected abstract fail(answer: Rejection, outcome: 'abandoned' | FailureReason): void;
	/** All of its body is still there. */
	protected abstract get canRepeat(): boolean;

	// --- It leaves for an upstream. ---

	/** The gates before it have found its route. */
	protected routeTo(route: Route): void {
		this.route = route;
		this.limits = route.requestLimits;
		this.group = route.group;
		this.upstream = route.group.only;
	}

	/** For `DispatchQueue`: this one's turn has come. A fault of ours costs no other request anything. */
	dispatch(now: number): void {
		try {
			this.#dispatch(now);
		} catch (error) {
			this.onFault(error);
		}
	}

	/** Through the upstream's door, or to those who wait in front of it. */
	#dispatch(now: number): void {
		const group = this.group!;
		group.retryBudget?.request(now);
		const { room } = group;
		if (room === undefined) return void this.#depart(now);
		if (!room.comesFirst(false) && this.#depart(now) !== 'full') return;

		// Served in turns by tenant, so that a tenant's burst delays itself.
		this.span?.enters('upstream queue');
		this.#place = room.enter(this.identity!.tenant, this);
		if (this.#place === undefined) this.refuse(NO_PLACE.full);
		else this.client.holdBody();
	}

	#depart(now: number): Departure {
		const { plane } = this;

		// Last, since this may spend the one probe of a half-open breaker. From here on an outcome must be reported.
		if (this.#place === undefined) this.span?.enters('circuit breaker');
		const group = this.group!;
		const upstream = group.admit(now, this.route!.cooldownMs, this.identity!.tenant);
		if (upstream === undefined && group.isFull) return 'full';
		if (this.#place !== undefined) this.#waitedMs += this.#waitsNoLonger(now);
		if (upstream === undefined) {
			this.refuse(CIRCUIT_OPEN);
			return 'unavailable';
		}
		this.goesTo(upstream);

		this.span?.enters('upstream');
		this.sentAt = now;
		this.measure(plane.histograms.gates, now - this.startedAt - this.#waitedMs, now);
		this.limits.roundTrip.add(this);
		this.send(upstream.pool.take(now));
		return 'served';
	}

	/** So much of the time before its departure the client has taken for the body, ms: that is none of ours. */
	protected waited(ms: number): void {
		this.#waitedMs += ms;
	}

	// --- It waits for an upstream that is at a limit. ---

	/** For `WaitingRoom`. */
	get isRetry(): boolean {
		return this.#failure !== undefined;
	}

	/** For `WaitingRoom`. */
	depart(now: number, group: UpstreamGroup): Departure {
		try {
			this.group = group;
			return this.#failure === undefined ? this.#depart(now) : this.#departAgain(now, this.#failure);
		} catch (error) {
			this.#place = undefined;
			this.onFault(error);
			return 'unavailable';
		}
	}

	/** For `WaitingRoom`. */
	giveUp(why: 'full' | 'timeout'): void {
		this.#waitsNoLonger(this.plane.clock.now());
		try {
			this.refuse(this.#failure === undefined ? NO_PLACE[why] : failedAndNoPlace(this.#failure, why));
		} catch (error) {
			this.onFault(error);
		}
	}

	/** @returns for how long it has waited, ms. */
	#waitsNoLonger(now: number): number {
		const waited = now - this.#place!.since;
		this.#place = undefined;
		this.record?.queued(waited);
		return waited;
	}

	/** The client has left, or there is no time any more to be sent. */
	protected leaveQueue(result: 'timeout' | 'gone'): void {
		if (this.#place === undefined) return;
		this.#place.leave(result);
		this.#waitsNoLonger(this.plane.clock.now());
	}

	// --- An upstream has not answered. ---

	/** What says nothing of the upstream is reported once it is known where the request goes next. */
	override onFailing({ kind, cause }: UpstreamFailure): void {
		if (OUTCOMES[kind] !== 'abandoned') this.settle(OUTCOMES[kind], cause);
	}

	override onFailure({ kind, cause }: UpstreamFailure): void {
		this.upstreamEnded();
		if (kind === 'exhausted') return this.fail(rejection.OVERLOADED.because(cause), 'abandoned');
		if (kind === 'malformed') return this.fail(rejection.BAD_GATEWAY.because(cause), 'broken');
		const failure = { kind, cause };
		const why = this.#mayRetry(kind) ? this.#retry(failure) : rejection.BAD_GATEWAY.because(cause);
		if (why !== undefined) this.fail(why, OUTCOMES[kind]);
	}

	/** The upstream's time is over before its answer has begun. @param outcome if there is a connection to blame for it. */
	protected upstreamTimedOut(outcome: 'timeout' | 'abandoned'): void {
		if (this.#place !== undefined) {
			this.leaveQueue('timeout');
			return this.refuse(
				rejection.UPSTREAM_TIMEOUT.because(`${this.#failure!.cause}; no other address had room in time`),
			);
		}
		const isConnected = this.connection?.isConnected ?? true;
		const cause = silenceCause(isConnected ? 'answer' : 'connection', this.limits.upstreamTimeoutMs);
		this.fail(rejection.UPSTREAM_TIMEOUT.because(cause), isConnected ? outcome : 'connect');
	}

	// --- It is sent again. ---

	/**
	 * What has not been delivered may always be sent again. What may have been: only what can be repeated safely (RFC 9112 section
	 * 9.3.1). Both only if we still have all of it.
	 */
	#mayRetry(kind: RetryReason): boolean {
		const { method } = this.client;
		const isSafe = method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
		return (kind === 'unreachable' || isSafe) && this.#tried.length < this.group!.retries && this.canRepeat;
	}

	/**
	 * Sends the request again, to another upstream on a connection that nobody has used, within the time that it had from the first; or has
	 * it wait for one that is at a limit.
	 *
	 * @returns the answer, where neither can be.
	 */
	#retry(failure: RetriedFailure): Rejection | undefined {
		const { kind, cause } = failure;
		const { tenant } = this.identity!;
		const { cooldownMs } = this.route!;
		// A reload since it has left may have removed addresses, as they often do that fail just now.
		const group = this.group!.inForce;
		this.group = group;
		const { room, retryBudget } = group;
		const failed = this.upstream!;
		const tried = [...this.#tried, failed];
		const now = this.plane.clock.now();

		if (retryBudget?.allows(now) === false) {
			const found = group.lookForOther(now, cooldownMs, tried);
			const isOffered = kind === 'stale' || found === 'free' || (found === 'full' && room?.isFull === false);
			if (isOffered) failed.stats.retryDenied();
			return rejection.BAD_GATEWAY.because(cause);
		}

		const other = room?.comesFirst(true) ? undefined : group.admitOther(now, cooldownMs, tenant, tried);
		if (other !== undefined) {
			this.settle('abandoned');
			this.goesTo(other);
		} else if (kind === 'stale' && group.again(failed, now)) {
			// A stale connection says nothing of its upstream, so where there is no other one it is worth another try.
			this.countAt(failed);
		} else {
			if (room === undefined) return rejection.BAD_GATEWAY.because(cause);
			if (kind !== 'stale' && group.lookForOther(now, cooldownMs, tried) === 'none') {
				return rejection.BAD_GATEWAY.because(cause);
			}
			// The breaker does not wait.
			this.settle('abandoned');
			this.#failure = failure;
			this.#place = room.enter(tenant, this);
			if (this.#place === undefined) return failedAndNoPlace(failure, 'full');
		}
		this.#tried = tried;
		retryBudget?.retry(now);
		if (this.#place === undefined) this.#sendAgain(failed, kind);
		return undefined;
	}

	/** It has waited for another upstream. */
	#departAgain(now: number, { kind, cause }: RetriedFailure): Departure {
		const { tenant } = this.identity!;
		const { cooldownMs } = this.route!;
		const group = this.group!;
		const failed = this.upstream!;
		let other = group.admitOther(now, cooldownMs, tenant, this.#tried);
		if (other === undefined && kind === 'stale') {
			other = group.admitOther(now, cooldownMs, tenant, this.#tried.slice(0, -1));
		}
		if (other === undefined && group.isFull) return 'full';
		this.sentAt += this.#waitsNoLonger(now);
		if (other === undefined) {
			this.refuse(rejection.BAD_GATEWAY.because(cause));
			return 'unavailable';
		}
		this.goesTo(other);
		this.#sendAgain(failed, kind);
		return 'served';
	}

	#sendAgain(failed: Upstream, kind: RetryReason): void {
		failed.stats.retried(kind);
		try {
			this.send(this.upstream!.pool.open());
		} catch (error) {
			this.onFault(error);
		}
	}
}

/** After which a request may be sent again: nothing of an answer has reached the client. */
interface RetriedFailure {
	readonly kind: RetryReason;
	/** In words, for operators. */
	readonly cause: string;
}

/** What each of them is to the breaker. A stale connection had timed out under our hands: not the upstream's fault. */
const OUTCOMES: Readonly<Record<FailureKind, 'abandoned' | FailureReason>> = {
	...{ unreachable: 'connect', unanswered: 'broken', broken: 'broken', malformed: 'broken' },
	...{ stale: 'abandoned', exhausted: 'abandoned' },
};

const NO_PLACE = {
	full: rejection.OVERLOADED.because('the upstream is at its limit, and so is its queue'),
	timeout: rejection.OVERLOADED.because('waited for queue_timeout_secs while the upstream was at its limit'),
};

/** The upstream has not taken it, and there was none that could: that is what operators have to look at, so it is the answer. */
function failedAndNoPlace({ cause }: RetriedFailure, why: keyof typeof NO_PLACE): Rejection {
	const what = why === 'full' ? 'and their queue was full' : 'and it waited for queue_timeout_secs';
	return rejection.BAD_GATEWAY.because(`${cause}; no other address had room, ${what}`);
}

const NONE_TRIED: readonly Upstream[] = [];
