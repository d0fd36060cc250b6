import type { FailureReason } from '../gates/breaker.ts';
import type { Identified } from '../gates/correlation.ts';
import type { RequestHead } from '../gates/headers.ts';
import { pathOf } from '../gates/path.ts';
import type { RequestSlots } from '../gates/quota.ts';
import { RateLimitFields } from '../gates/rate-limit-fields.ts';
import * as rejection from '../gates/rejection.ts';
import { Rejection } from '../gates/rejection.ts';
import { UNIDENTIFIED } from '../gates/trace-context.ts';
import { admitTarget, refuseProtocolChange } from '../gates/upgrade.ts';
import { refuseOtherHolder } from '../identity/bound-token.ts';
import { NO_CERTIFICATE } from '../identity/route-access.ts';
import { refuseOverConcurrency, refuseOverRouteRate, refuseOverTenantRate, withReport } from '../shared/quota-gates.ts';
import type { RouteStats } from '../shared/route-stats.ts';
import { AnswerFields } from './answer-fields.ts';
import type { ExchangeEvents } from './client.ts';
import { reportBrokenOff, reportRefusal } from './refusal-report.ts';
import { RoundTrip } from './round-trip.ts';

/**
 * One request's way through the proxy: the gates in their order up to the upstream (`RoundTrip`), and how it ends. What
 * a body mode does differently stands in `body/collected.ts` and `body/streaming.ts`, which extend this class.
 */
export abstract class Exchange extends RoundTrip implements ExchangeEvents {
	/** Where it has taken one of the requests that its tenant may have under way. */
	#slots: RequestSlots | undefined;
	/** Where it is counted as in flight. */
	#traffic: RouteStats | undefined;
	/** Bytes of its body that came before its route was known. */
	#received = 0;
	/** What is left of the limits, where all answers say it. */
	#report: RateLimitFields | undefined;
	/** An answer has begun; from then on there is no other one to give. */
	#answered = false;

	/** Takes the request on. A fault of ours may cost it its answer, but not the thread's other requests theirs. */
	start(): void {
		this.startedAt = this.plane.clock.now();
		this.record = this.plane.requestLog?.begin(this.client, this.startedAt);
		this.#countIn(this.plane.stats.unrouted);
		try {
			this.#pass();
		} catch (error) {
			this.onFault(error);
		}
	}

	/** The gates up to the body. */
	#pass(): void {
		const { client, plane } = this;

		// A message that two readers could understand in two ways is no request at all (RFC 9112 section 6.3).
		const head = client.head;
		if (head instanceof Rejection) {
			if (plane.traces) this.#identify(UNIDENTIFIED);
			return this.refuse(head);
		}
		this.head = head;
		if (plane.correlate !== undefined) this.#identify(head);

		this.span?.enters('token');
		// Who is calling? The client certificate has opened the connection; the token names the tenant.
		const identity = plane.authenticator.authenticate(head.authorization, plane.clock.wallSeconds());
		if (identity instanceof Rejection) return this.refuse(identity);
		this.identity = identity;

		// A bound token is worth nothing on the connection of somebody else (RFC 8705). Its verdict is shared by all connections.
		if (identity.confirmation !== undefined) {
			this.span?.enters('bound token');
			const stolen = refuseOtherHolder(identity.confirmation, client.connection.certificate?.thumbprint);
			if (stolen) return this.refuse(stolen);
		}

		// Only now is there somebody to charge. Everything after this costs the tenant one request.
		this.span?.enters('tenant rate');
		if (plane.limits.rateLimitHeaders) this.#report = new RateLimitFields();
		const overRate = refuseOverTenantRate(plane.limiter, identity, this.startedAt, this.#report);
		if (overRate) return this.refuse(overRate);
		client.onPaid();

		// And one of those that it may have under way, until the request is over, whatever becomes of it.
		const { slots } = identity.quota;
		if (slots !== undefined) {
			this.span?.enters('tenant concurrency');
			const tooMany = refuseOverConcurrency(slots, this.#report);
			if (tooMany) return this.refuse(tooMany);
			this.#slots = slots;
		}

		// The proxy and the upstream must see the same path, or the route that is matched is not the one that is served.
		this.span?.enters('path');
		const target = admitTarget(client.method, client.target);
		if (target instanceof Rejection) return this.refuse(target);
		this.target = target;

		// Behind an upgraded connection there would be no gates.
		this.span?.enters('protocol change');
		const unsupported = refuseProtocolChange(client.method, head.wantsUpgrade);
		if (unsupported) return this.refuse(unsupported);

		// Collected: the whole body, or 413, 408, 400; then on to `forward`. Streaming: `forward` at once.
		this.receive(head);
	}

	/** What the request is found by, and whether a span is made of it. */
	#identify(identified: Identified): void {
		const { plane } = this;
		this.correlation = plane.correlate!(identified);
		const { span } = this.correlation;
		if (span === undefined) return;
		this.record = plane.requestLog!.beginSpan(this.client, this.startedAt, span, this.record);
		this.span = this.record.span;
	}

	/** From the route to the queue before the upstream's door. */
	protected forward(): void {
		const { client, plane } = this;

		// Matching is pure, so it can come before anything is spent.
		this.span?.enters('route');
		const route = plane.routes.match(pathOf(this.target!));
		if (route instanceof Rejection) return this.refuse(route);
		this.routeTo(route);
		this.#countIn(route.stats);

		// The path that the upstream gets has to mean the same to everybody, too, and so has the host that it is told of.
		if (route.forwarding !== undefined) {
			this.span?.enters('forwarding');
			const target = route.forwarding.target(this.target!, this.authority);
			if (target instanceof Rejection) return this.refuse(target);
			this.target = target;
		}

		// Who may use the route? The certificate's names, the tenant and the token's scopes say. Each answer is worked out once
		// for a connection or a token.
		if (route.access !== undefined) {
			this.span?.enters('route access');
			const forbidden = route.access.refuse(client.connection, this.identity!);
			if (forbidden) return this.refuse(forbidden);
		}
		if (route.certificateHeaders !== undefined) {
			this.span?.enters('certificate headers');
			if (client.connection.caller === undefined) return this.refuse(NO_CERTIFICATE);
		}

		// What a tenant may ask for in all need not be what it may ask of this route.
		if (route.limit !== undefined) {
			this.span?.enters('route rate');
			const overRate = refuseOverRouteRate(plane.limiter, this.identity!, route.limit, plane.clock.now(), this.#report);
			if (overRate) return this.refuse(overRate);
		}

		// Streaming: a body that announces too much is refused before the upstream hears of it.
		const tooLarge = this.admitBody(this.head!);
		if (tooLarge) return this.refuse(tooLarge);

		// A few go to the upstreams at the end of each turn of the loop: `dispatch` follows when it is this one's turn.
		this.span?.enters('dispatch queue');
		plane.dispatches.add(this);
	}

	/** Takes the request's body as the mode does, then calls `forward`. */
	protected abstract receive(head: RequestHead): void;
	/** What the mode has to say against the declared length once the route is known. */
	protected abstract admitBody(head: RequestHead): Rejection | undefined;
	protected override readBody(): void {
		this.record?.bodyBegins();
		this.client.readBody();
	}

	// --- How it ends. ---

	/** The request cannot be served although it was admitted. The answer's reason is the failure's cause. */
	protected override fail(answer: Rejection, outcome: 'abandoned' | FailureReason): void {
		this.settle(outcome, answer.reason);
		this.dropUpstream();
		if (this.#answered) this.breakOff(answer);
		else this.refuse(answer);
	}

	/** Resets the answer that has begun: it must not be taken for a whole one. */
	protected breakOff(why: Rejection): void {
		this.cancelDeadline();
		this.record?.breaksOff(why);
		reportBrokenOff(this.plane, why, this.#known);
		this.client.reset();
	}

	/** Something of ours has thrown. What it was goes into the log; the client learns only that it was us. */
	override onFault(error: unknown): void {
		const { log } = this.plane;
		log.error('proxy::exchange', 'internal error', { error });
		try {
			this.fail(rejection.INTERNAL_ERROR, 'abandoned');
		} catch (another) {
			log.error('proxy::exchange', 'internal error', { error: another });
			this.client.reset();
		}
	}

	/** The fields of the upstream's answer as they go to the client: with what is left of the limits, where that is told. */
	protected answerFields(fields: AnswerFields): AnswerFields {
		return this.#report === undefined ? fields : new AnswerFields(withReport([...fields.list], this.#report));
	}

	/** Gives an answer of our own: the one place where refusals become answers and are counted. */
	override refuse(answer: Rejection): void {
		reportRefusal(this.plane, answer, this.#known);
		this.releaseBodies();
		this.count(answer.status, answer);
		this.plane.deadlines.answer.add(this);
		const isReported = this.#report !== undefined && !answer.is(rejection.RATE_LIMITED);
		this.client.refuse(isReported ? answer.withHeaders(withReport([...answer.headers], this.#report)) : answer);
	}

	/** What operators may be told of it. */
	get #known() {
		return { client: this.client, route: this.route, upstream: this.upstream, tenant: this.identity?.tenant };
	}

	/** Counts the answer that is about to be given. */
	protected count(status: number, refusal?: Rejection): void {
		this.#answered = true;
		(this.upstream ?? this.plane).stats.answered(status);
		this.record?.answers(status, refusal);
		if (refusal !== undefined && this.client.method !== 'HEAD') {
			this.#traffic?.gave(this.client.connection.protocol, refusal.body.length);
		}
	}

	/** From now on it is in flight here, and its bytes are counted here. */
	#countIn(traffic: RouteStats): void {
		const { protocol } = this.client.connection;
		this.#traffic?.inFlight(protocol, -1);
		this.#traffic = traffic;
		traffic.inFlight(protocol, 1);
	}

	/** Bytes of the request's body have come from the client. */
	protected received(bytes: number): void {
		this.record?.received(bytes);
		// A body that is collected comes before its route is known, and is its route's all the same.
		if (this.route === undefined) this.#received += bytes;
		else this.#traffic?.received(this.client.connection.protocol, bytes);
	}

	/** Bytes of the answer's body were given to the client's connection. */
	protected gave(bytes: number): void {
		this.record?.gave(bytes);
		this.#traffic?.gave(this.client.connection.protocol, bytes);
	}

	/** Of whom what the bodies hold is counted. */
	protected get tenantKey(): bigint {
		return this.identity!.tenantKey;
	}

	protected get answered(): boolean {
		return this.#answered;
	}

	/** Gives back what the bodies of this exchange hold of the common memory budget. */
	protected abstract releaseBodies(): void;

	// --- What the client does meanwhile. ---

	abstract onRequestBody(chunk: Buffer): void;
	abstract onRequestEnd(): void;
	abstract onBodyHeld(bytes: number): void;
	/** The client has taken what it was given. @param left bytes of a whole answer that have not been given yet. */
	abstract onClientDrained(left: number): void;

	/** The body's framing is broken (HTTP/1.1 only; over HTTP/2 the stream is reset). */
	onBodyError(refusal: Rejection): void {
		this.fail(refusal, 'abandoned');
	}

	/** The answer has gone out whole. */
	onAnswered(): void {
		this.cancelDeadline();
		this.releaseBodies();
		this.#leave();
		this.#log();
	}

	/** The client has left: nobody waits for the upstream's answer any more, and it is no fault of the upstream. */
	onClientGone(why?: Rejection): void {
		this.isGone = true;
		this.cancelDeadline();
		this.settle('abandoned');
		this.dropUpstream();
		this.releaseBodies();
		this.#leave();
		if (why === undefined) this.record?.losesClient();
		else this.record?.breaksOff(why);
		this.#log();
	}

	/** Every request ends in one of the two above, and only once. */
	#leave(): void {
		this.leaveQueue('gone');
		const { protocol } = this.client.connection;
		this.#slots?.giveBack();
		this.#slots = undefined;
		if (this.#received > 0) this.#traffic?.received(protocol, this.#received);
		this.#traffic?.inFlight(protocol, -1);
		this.#traffic = undefined;
	}

	/** The request is over, whatever became of it. */
	#log(): void {
		const { record } = this;
		if (record === undefined) return;
		this.record = undefined;
		record.tenant = this.identity?.tenant;
		record.route = this.route;
		record.upstream = this.upstream;
		record.correlation = this.correlation;
		this.plane.requestLog!.end(record);
	}
}
