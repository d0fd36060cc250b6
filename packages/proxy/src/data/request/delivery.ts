import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import * as rejection from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { silenceCause } from '@mtls-edge-proxy/gate/words/causes.ts';
import { CIRCUIT_OPEN, type FailureReason, type Outcome } from '../../gates/breaker.ts';
import type { RetryReason } from '../../memory/upstream-stats.ts';
import type { Dispatched } from '../loop/dispatch-queue.ts';
import type { FailureKind, UpstreamFailure } from '../upstream/contract.ts';
import type { Endpoint } from '../upstream/endpoint.ts';
import type { Departure, Place, Waiting } from '../upstream/pending-queue.ts';
import type { Choice, Upstream } from '../upstream/upstream.ts';
import { UpstreamAttempt } from './attempt.ts';
import { CALL_TIMED_OUT } from './call-deadline.ts';
import { measure } from './context.ts';
import type { Exchange } from './exchange.ts';
import { STATE } from './state.ts';

/**
 * One request between the gates and the response: an address of its route's upstream is chosen, or waited for, and the request is sent there
 * (`UpstreamAttempt`). If that endpoint does not take it, it is sent again when that is safe.
 */
export class Delivery implements Dispatched, Waiting {
	readonly request: Exchange;
	/** The route's upstream. If the request had to wait or is sent again: the one in force when it left. */
	upstream: Upstream;
	/** The current or last attempt. */
	attempt: UpstreamAttempt | undefined = undefined;
	/** Set in state `waiting`. */
	#place: Place | undefined = undefined;
	/** Endpoints that did not take it. */
	#tried: readonly Endpoint[] = NONE_TRIED;
	/** Why it waits for another endpoint. */
	#failure: RetriedFailure | undefined = undefined;

	constructor(request: Exchange) {
		this.request = request;
		this.upstream = request.context.route!.upstream;
	}

	// --- It leaves for an endpoint. ---

	/** For `DispatchQueue`. */
	get isGone(): boolean {
		return this.request.state !== STATE.queued;
	}

	/** For `DispatchQueue`: the request's turn has come. */
	dispatch(now: number): void {
		const { retryBudget, pending } = this.upstream;
		retryBudget?.request(now);
		if (pending === undefined) {
			if (this.#depart(now) === 'full') this.request.refuse(SHUT.noQueue);
			return;
		}
		if (!pending.comesFirst(false) && this.#depart(now) !== 'full') return;

		// Tenants take turns, so a tenant's burst delays only itself.
		const { client, span } = this.request.context;
		span?.enters('upstream queue');
		if (this.#wait()) client.holdBody();
		else this.request.refuse(this.#noPlace('full'));
	}

	#depart(now: number): Departure {
		const { request } = this;
		const { context, state } = request;

		if (this.#isCallOver(now)) {
			if (state === STATE.waiting) context.waitedMs += this.#waitsNoLonger(now);
			request.refuse(CALL_TIMED_OUT);
			return 'unavailable';
		}
		// Last, since this may spend the one probe of a half-open breaker. From here on an outcome must be reported.
		if (state === STATE.queued) context.span?.enters('circuit breaker');
		const choice = this.upstream.choose(now, context.route!.cooldownMs, context.principal!.tenant);
		if (choice === 'full') return 'full';
		if (state === STATE.waiting) context.waitedMs += this.#waitsNoLonger(now);
		if (choice === 'none') {
			request.refuse(CIRCUIT_OPEN);
			return 'unavailable';
		}
		const attempt = this.#attempt(choice);
		context.span?.enters('upstream');
		context.sentAt = now;
		measure(context, context.plane.histograms.gates, now - context.startedAt - context.waitedMs, now);
		const { roundTrip } = context.limits;
		if (roundTrip === undefined) {
			request.cancelDeadline();
			context.client.connection.probe();
		} else roundTrip.add(request);
		attempt.begin(now, true);
		return 'served';
	}

	/** Whether the client of a call has stopped waiting; then no endpoint should start on it. */
	#isCallOver(now: number): boolean {
		const { callDeadline } = this.request.context;
		return callDeadline !== undefined && callDeadline.leftAt(now) <= 0;
	}

	#attempt(choice: Choice): UpstreamAttempt {
		const attempt = new UpstreamAttempt(this, choice);
		this.attempt = attempt;
		const { request } = this;
		request.context.endpoint = choice.endpoint;
		request.enter(STATE.sent);
		return attempt;
	}

	// --- It waits for an endpoint that is at a limit. ---

	/** @returns whether there was a place for it. */
	#wait(): boolean {
		const { request } = this;
		this.#place = this.upstream.pending!.enter(request.context.principal!.tenant, this);
		if (this.#place === undefined) return false;
		request.enter(STATE.waiting);
		return true;
	}

	/** For `PendingQueue`. */
	get isRetry(): boolean {
		return this.#failure !== undefined;
	}

	/** For `PendingQueue`. */
	depart(now: number, upstream: Upstream): Departure {
		this.upstream = upstream;
		return this.#failure === undefined ? this.#depart(now) : this.#departAgain(now, this.#failure);
	}

	/** For `PendingQueue`. */
	giveUp(why: 'full' | 'timeout'): void {
		this.#waitsNoLonger(this.request.context.plane.clock.now());
		this.request.refuse(this.#failure === undefined ? this.#noPlace(why) : failedAndNoPlace(this.#failure, why));
	}

	/** Tells operators whether the limit is ours or the upstream's. */
	#noPlace(why: 'full' | 'timeout'): Rejection {
		return (this.upstream.isShut ? SHUT : NO_PLACE)[why];
	}

	/** For `PendingQueue` and `DispatchQueue`: an error in the proxy has ended the request's turn. */
	onFault(error: unknown): void {
		this.#place = undefined;
		this.request.onFault(error);
	}

	/** @returns how long it has waited, ms. */
	#waitsNoLonger(now: number): number {
		const waited = now - this.#place!.since;
		this.#place = undefined;
		this.request.context.record?.queued(waited);
		return waited;
	}

	#leaveQueue(result: 'timeout' | 'gone'): void {
		if (this.#place === undefined) return;
		this.#place.leave(result);
		this.#waitsNoLonger(this.request.context.plane.clock.now());
	}

	/** Ends the request, wherever it is. @param cause reason of a failure, in words for operators. */
	end(outcome: Outcome, cause?: string): void {
		this.#leaveQueue('gone');
		this.attempt?.end(outcome, cause);
	}

	/** @param outcome for the breaker, if there is a connection to blame. */
	timedOut(outcome: 'timeout' | 'abandoned'): void {
		const { request } = this;
		if (this.#place !== undefined) {
			this.#leaveQueue('timeout');
			const cause = `${this.#failure!.cause}; no other address had room in time`;
			return request.refuse(rejection.UPSTREAM_TIMEOUT.because(cause));
		}
		const isConnected = this.attempt?.connection?.isConnected ?? true;
		const cause = silenceCause(isConnected ? 'response' : 'connection', request.context.limits.upstreamTimeoutMs);
		request.fail(rejection.UPSTREAM_TIMEOUT.because(cause), isConnected ? outcome : 'connect');
	}

	// --- An endpoint has not answered. ---

	/** A failure that says nothing about the endpoint is reported once the request's next step is known. */
	attemptFailing({ kind, cause }: UpstreamFailure): void {
		if (this.#endsCall(kind)) this.attempt!.settle('abandoned');
		else if (OUTCOMES[kind] !== 'abandoned') this.attempt!.settle(OUTCOMES[kind], cause);
	}

	/** Whether the upstream has given up a call whose time is over. */
	#endsCall(kind: FailureKind): boolean {
		return (kind === 'unanswered' || kind === 'broken') && this.attempt!.isCallOver;
	}

	attemptFailed({ kind, cause }: UpstreamFailure): void {
		const { request } = this;
		if (request.tunnel !== undefined) return request.tunnel.onUpstreamLost();
		if (this.#endsCall(kind)) return request.fail(CALL_TIMED_OUT, 'abandoned');
		// A response that breaks off is a failure, whatever its status.
		if (request.state === STATE.responding) return request.fail(rejection.BAD_GATEWAY.because(cause), 'broken');
		request.body.onResponseLost();
		if (kind === 'exhausted') return request.fail(rejection.OVERLOADED.because(cause), 'abandoned');
		if (kind === 'oversized') return request.fail(rejection.HEADERS_TOO_LARGE.because(cause), 'abandoned');
		if (kind === 'unsupported' || kind === 'excessive' || kind === 'malformed')
			return request.fail(rejection.BAD_GATEWAY.because(cause), OUTCOMES[kind]);
		const failure = { kind, cause };
		const why = this.#mayRetry(kind) ? this.#retry(failure) : rejection.BAD_GATEWAY.because(cause);
		if (why !== undefined) request.fail(why, OUTCOMES[kind]);
	}

	// --- It is sent again. ---

	/**
	 * A request that was not delivered may always be sent again; one that may have been, only if it is safe to repeat (RFC 9112 section
	 * 9.3.1). Either way we must still have all of it.
	 */
	#mayRetry(kind: RetryReason): boolean {
		const { body } = this.request;
		const { method } = this.attempt!;
		const isSafe = method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
		const isUndelivered = kind === 'unreachable' || kind === 'refused';
		const retries = kind === 'refused' ? Math.max(this.upstream.retries, MAX_REFUSALS) : this.upstream.retries;
		return (isUndelivered || isSafe) && this.#tried.length < retries && body.canRepeat;
	}

	/**
	 * Sends the request again within its original time: to another endpoint, on an unused connection. If all are at a limit, the request
	 * waits for one.
	 *
	 * @returns the response if neither is possible.
	 */
	#retry(failure: RetriedFailure): Rejection | undefined {
		const { kind, cause } = failure;
		const { plane, principal, route } = this.request.context;
		const { cooldownMs } = route!;
		// A reload may have removed addresses since the request left; failing addresses are often the removed ones.
		const upstream = this.upstream.inForce;
		this.upstream = upstream;
		const { pending, retryBudget } = upstream;
		const attempt = this.attempt!;
		const failed = attempt.endpoint;
		const tried = [...this.#tried, failed];
		const now = plane.clock.now();
		if (this.#isCallOver(now)) return CALL_TIMED_OUT;

		// A request that an endpoint refuses at once is no load, and the end of a connection (GOAWAY) refuses many together.
		if (kind !== 'refused' && retryBudget?.allows(now) === false) {
			const found = upstream.look(now, cooldownMs, tried);
			const isOffered = kind === 'stale' || found === 'free' || (found === 'full' && pending?.isFull === false);
			if (isOffered) failed.stats.count('retriesDenied', 'budget');
			return rejection.BAD_GATEWAY.because(cause);
		}

		let choice = pending?.comesFirst(true) ? 'full' : upstream.choose(now, cooldownMs, principal!.tenant, tried);
		// The end of a connection says nothing about its endpoint, so the same endpoint is worth another try if there is no other.
		if (typeof choice === 'string' && SAYS_NOTHING.has(kind)) choice = upstream.again(attempt, now) ?? choice;

		if (typeof choice !== 'string') {
			this.#tried = tried;
			retryBudget?.retry(now);
			this.#sendAgain(attempt, choice, now, kind);
			return undefined;
		}
		if (pending === undefined) return rejection.BAD_GATEWAY.because(cause);
		if (!SAYS_NOTHING.has(kind) && upstream.look(now, cooldownMs, tried) === 'none')
			return rejection.BAD_GATEWAY.because(cause);
		// The breaker gets its report before the request waits.
		attempt.settle('abandoned');
		this.#failure = failure;
		if (!this.#wait()) return failedAndNoPlace(failure, 'full');
		this.request.context.client.holdBody();
		this.#tried = tried;
		retryBudget?.retry(now);
		return undefined;
	}

	/** It has waited for another endpoint. */
	#departAgain(now: number, { kind, cause }: RetriedFailure): Departure {
		const { request, upstream } = this;
		const { context } = request;
		const { tenant } = context.principal!;
		const { cooldownMs } = context.route!;
		if (this.#isCallOver(now)) {
			this.#waitsNoLonger(now);
			request.refuse(CALL_TIMED_OUT);
			return 'unavailable';
		}
		let choice = upstream.choose(now, cooldownMs, tenant, this.#tried);
		if (typeof choice === 'string' && SAYS_NOTHING.has(kind)) {
			const failed = this.attempt!.endpoint;
			const others = this.#tried.filter((endpoint) => endpoint !== failed);
			choice = upstream.choose(now, cooldownMs, tenant, others);
		}
		if (choice === 'full') return 'full';
		context.sentAt += this.#waitsNoLonger(now);
		if (choice === 'none') {
			request.refuse(rejection.BAD_GATEWAY.because(cause));
			return 'unavailable';
		}
		this.#sendAgain(this.attempt!, choice, now, kind);
		return 'served';
	}

	#sendAgain(failed: UpstreamAttempt, choice: Choice, now: number, kind: RetryReason): void {
		failed.settle('abandoned');
		failed.endpoint.stats.count('retries', kind);
		this.#attempt(choice).begin(now, false);
	}
}

/** A failure after which a request may be sent again: the client has received nothing of a response. */
type RetriedFailure = UpstreamFailure & { readonly kind: RetryReason };

/** Failures of a connection that had ended or was about to, which is not the endpoint's fault. */
const SAYS_NOTHING: ReadonlySet<FailureKind> = new Set(['stale', 'refused']);

/** The outcome of each failure for the breaker. */
const OUTCOMES: Readonly<Record<FailureKind, 'abandoned' | FailureReason>> = {
	...{ unreachable: 'connect', unanswered: 'broken', broken: 'broken', malformed: 'broken' },
	...{
		stale: 'abandoned',
		refused: 'abandoned',
		exhausted: 'abandoned',
		oversized: 'abandoned',
		// The client may have caused it.
		excessive: 'abandoned',
		unsupported: 'abandoned',
	},
};

const NO_PLACE = {
	full: rejection.OVERLOADED.because('the upstream is at its limit, and so is its queue'),
	timeout: rejection.OVERLOADED.because('waited for queue_timeout_secs while the upstream was at its limit'),
};

const SHUT = {
	noQueue: rejection.OVERLOADED.because('the upstream takes no requests (SETTINGS_MAX_CONCURRENT_STREAMS is 0)'),
	full: rejection.OVERLOADED.because(
		'the upstream takes no requests (SETTINGS_MAX_CONCURRENT_STREAMS is 0), and its queue is full',
	),
	timeout: rejection.OVERLOADED.because(
		'waited for queue_timeout_secs while the upstream took no requests (SETTINGS_MAX_CONCURRENT_STREAMS is 0)',
	),
};

/** The endpoint did not take the request, and no other could. The response names the endpoint's failure, which operators must look into. */
function failedAndNoPlace({ cause }: RetriedFailure, why: keyof typeof NO_PLACE): Rejection {
	const what = why === 'full' ? 'and their queue was full' : 'and it waited for queue_timeout_secs';
	return rejection.BAD_GATEWAY.because(`${cause}; no other address had room, ${what}`);
}

const NONE_TRIED: readonly Endpoint[] = [];
/**
 * Retries of a request that endpoints have refused unprocessed (RFC 9113 section 8.7). If a server ends its connections one after the
 * other, one request may meet several ends.
 */
const MAX_REFUSALS = 8;
