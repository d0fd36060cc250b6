import {
	type Admission,
	CIRCUIT_OPEN,
	type FailureReason,
	isFailureStatus,
	NORMAL,
	type Outcome,
	REFUSED,
} from '../gates/breaker.ts';
import type { Correlation, Identified } from '../gates/correlation.ts';
import type { RequestHead } from '../gates/headers.ts';
import { type CleanTarget, pathOf } from '../gates/path.ts';
import type { RequestSlots } from '../gates/quota.ts';
import { RateLimitFields } from '../gates/rate-limit-fields.ts';
import * as rejection from '../gates/rejection.ts';
import { Rejection } from '../gates/rejection.ts';
import type { Identity } from '../gates/token-cache.ts';
import { UNIDENTIFIED } from '../gates/trace-context.ts';
import { admitTarget, refuseProtocolChange } from '../gates/upgrade.ts';
import { refuseOtherHolder } from '../identity/bound-token.ts';
import { NO_CERTIFICATE } from '../identity/route-access.ts';
import type { BucketCounts } from '../shared/bucket-counts.ts';
import { silenceCause } from '../shared/causes.ts';
import { refuseOverConcurrency, refuseOverRouteRate, refuseOverTenantRate, withReport } from '../shared/quota-gates.ts';
import type { RouteStats } from '../shared/route-stats.ts';
import type { UpstreamLoad } from '../shared/upstream-load.ts';
import { AnswerFields } from './answer-fields.ts';
import type { ClientRequest, ExchangeEvents } from './client.ts';
import { Timed } from './deadlines.ts';
import type { Dispatched } from './dispatch-queue.ts';
import type { DataPlane, Route, Upstream } from './plane.ts';
import { reportBrokenOff, reportRefusal } from './refusal-report.ts';
import type { RequestRecord } from './request-record.ts';
import type { RequestSpan } from './request-span.ts';
import type { OutgoingBody, ResponseHandler, UpstreamConnection, UpstreamFailure } from './upstream/connection.ts';
import type { UpstreamGroup } from './upstream/group.ts';
import type { Waiting, WaitingRoom } from './upstream/waiting-room.ts';

/**
 * One request's way through the proxy: the gates of specification 4.1 in their order, from here to the upstream. What
 * a body mode does differently stands in `body/collected.ts` and `body/streaming.ts`, which extend this class.
 */
export abstract class Exchange extends Timed implements Dispatched, Waiting, ExchangeEvents, ResponseHandler {
	protected readonly client: ClientRequest;
	protected readonly plane: DataPlane;
	/** While requests are logged, and until this one has been. */
	protected record: RequestRecord | undefined;
	/** Where the request is sampled. */
	protected span: RequestSpan | undefined;
	/** Monotonic milliseconds when it was the request's turn: what is pipelined waits before that. */
	#startedAt = 0;
	/** Of that so much was spent waiting for the client, ms. */
	#waitedMs = 0;
	#head: RequestHead | undefined;
	#correlation: Correlation | undefined;
	#identity: Identity | undefined;
	/** Where it has taken one of the requests that its tenant may have under way. */
	#slots: RequestSlots | undefined;
	/** Where it is counted as in flight. */
	#traffic: RouteStats | undefined;
	/** Bytes of its body that came before its route was known. */
	#received = 0;
	/** What is left of the limits, where all answers say it. */
	#report: RateLimitFields | undefined;
	#target: CleanTarget | undefined;
	protected route: Route | undefined;
	/** Among whose addresses one is chosen: the route's, or, of a request that had to wait, the one in force when it left. */
	#group: UpstreamGroup | undefined;
	/** Where the request goes; `undefined`: that has not been chosen yet. */
	#upstream: Upstream | undefined;
	/** Monotonic milliseconds when the request left for the upstream. */
	#sentAt = 0;
	/** What the breaker was promised a report on. */
	#admission: Admission | typeof REFUSED = REFUSED;
	protected connection: UpstreamConnection | undefined;
	/** Where it waits for its upstream, and since when, monotonic milliseconds. */
	#room: WaitingRoom | undefined;
	#waitsSince = 0;
	/** The load in which it is counted as under way. */
	#load: UpstreamLoad | undefined;
	/** Upstreams that did not take it. */
	#tried: readonly Upstream[] = NONE_TRIED;
	/** The client's body waits for a connection to the upstream. */
	#bodyWaits = false;
	/** An answer has begun; from then on there is no other one to give. */
	#answered = false;
	/** The client has left. */
	isGone = false;

	constructor(client: ClientRequest, plane: DataPlane) {
		super();
		this.client = client;
		this.plane = plane;
	}

	/** Takes the request on. A fault of ours may cost it its answer, but not the thread's other requests theirs. */
	start(): void {
		this.#startedAt = this.plane.clock.now();
		this.record = this.plane.requestLog?.begin(this.client, this.#startedAt);
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
		this.#head = head;
		if (plane.correlate !== undefined) this.#identify(head);

		this.span?.enters('token');
		// Who is calling? The client certificate has opened the connection; the token names the tenant.
		const identity = plane.authenticator.authenticate(head.authorization, plane.clock.wallSeconds());
		if (identity instanceof Rejection) return this.refuse(identity);
		this.#identity = identity;

		// A bound token is worth nothing on the connection of somebody else (RFC 8705). Its verdict is shared by all connections.
		if (identity.confirmation !== undefined) {
			this.span?.enters('bound token');
			const stolen = refuseOtherHolder(identity.confirmation, client.connection.certificate?.thumbprint);
			if (stolen) return this.refuse(stolen);
		}

		// Only now is there somebody to charge. Everything after this costs the tenant one request.
		this.span?.enters('tenant rate');
		if (plane.limits.rateLimitHeaders) this.#report = new RateLimitFields();
		const overRate = refuseOverTenantRate(plane.limiter, identity, this.#startedAt, this.#report);
		if (overRate) return this.refuse(overRate);

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
		this.#target = target;

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
		this.#correlation = plane.correlate!(identified);
		const { span } = this.#correlation;
		if (span === undefined) return;
		this.record = plane.requestLog!.beginSpan(this.client, this.#startedAt, span, this.record);
		this.span = this.record.span;
	}

	/** From the route to the queue before the upstream's door. */
	protected forward(): void {
		const { client, plane } = this;

		// Matching is pure, so it can come before anything is spent.
		this.span?.enters('route');
		const route = plane.routes.match(pathOf(this.#target!));
		if (route instanceof Rejection) return this.refuse(route);
		this.route = route;
		this.#group = route.group;
		this.#upstream = route.group.only;
		this.#countIn(route.stats);

		// The path that the upstream gets has to mean the same to everybody, too, and so has the host that it is told of.
		if (route.forwarding !== undefined) {
			this.span?.enters('forwarding');
			const target = route.forwarding.target(this.#target!, this.#authority);
			if (target instanceof Rejection) return this.refuse(target);
			this.#target = target;
		}

		// Who may use the route? The certificate's names, the tenant and the token's scopes say. Each answer is worked out once
		// for a connection or a token.
		if (route.access !== undefined) {
			this.span?.enters('route access');
			const forbidden = route.access.refuse(client.connection, this.#identity!);
			if (forbidden) return this.refuse(forbidden);
		}
		if (route.certificateHeaders !== undefined) {
			this.span?.enters('certificate headers');
			if (client.connection.caller === undefined) return this.refuse(NO_CERTIFICATE);
		}

		// What a tenant may ask for in all need not be what it may ask of this route.
		if (route.limit !== undefined) {
			this.span?.enters('route rate');
			const overRate = refuseOverRouteRate(
				plane.limiter,
				this.#identity!,
				route.limit,
				plane.clock.now(),
				this.#report,
			);
			if (overRate) return this.refuse(overRate);
		}

		// Streaming: a body that announces too much is refused before the upstream hears of it.
		const tooLarge = this.admitBody(this.#head!);
		if (tooLarge) return this.refuse(tooLarge);

		// A few go to the upstreams at the end of each turn of the loop: `dispatch` follows when it is this one's turn.
		this.span?.enters('dispatch queue');
		plane.dispatches.add(this);
	}

	/** This one's turn has come. As in `start`, a fault of ours costs no other request anything. */
	dispatch(now: number): void {
		try {
			this.#dispatch(now);
		} catch (error) {
			this.onFault(error);
		}
	}

	/** Through the upstream's door, or to those who wait in front of it. */
	#dispatch(now: number): void {
		const group = this.#group!;
		group.retryBudget?.request(now);
		const { room } = group;
		if (room === undefined) return void this.#depart(now);
		if (room.isEmpty && this.#depart(now)) return;

		// Served in turns by tenant, so that a tenant's burst delays itself.
		this.span?.enters('upstream queue');
		if (!room.enter(this.#identity!.tenant, this)) return this.refuse(QUEUE_FULL);
		this.#room = room;
		this.#waitsSince = now;
		this.plane.deadlines.ofUpstream(room.timeoutMs).add(this);
	}

	/** For `WaitingRoom`. */
	depart(now: number, group: UpstreamGroup): boolean {
		try {
			this.#group = group;
			return this.#depart(now);
		} catch (error) {
			this.#room = undefined;
			this.onFault(error);
			return true;
		}
	}

	/** For `WaitingRoom`. */
	giveUp(): void {
		this.#waitsNoLonger(this.plane.clock.now());
		try {
			this.refuse(QUEUE_FULL);
		} catch (error) {
			this.onFault(error);
		}
	}

	/** @returns `false`: the upstream is at a limit. */
	#depart(now: number): boolean {
		const { plane } = this;
		const route = this.route!;

		// Last, since this may spend the one probe of a half-open breaker. From here on an outcome must be reported.
		if (this.#room === undefined) this.span?.enters('circuit breaker');
		const group = this.#group!;
		const upstream = group.admit(now, route.cooldownMs, this.#identity!.tenant);
		if (upstream === undefined && group.isFull) return false;
		if (this.#room !== undefined) this.#waitsNoLonger(now);
		if (upstream === undefined) {
			this.refuse(CIRCUIT_OPEN);
			return true;
		}
		this.#admission = group.admission;
		this.#upstream = upstream;
		if (group.counts) this.#load = upstream.load;

		this.span?.enters('upstream');
		this.#sentAt = now;
		this.#measure(plane.histograms.gates, now - this.#startedAt - this.#waitedMs, now);
		plane.deadlines.upstream.add(this);
		this.#send(upstream.pool.take(now));
		return true;
	}

	#waitsNoLonger(now: number): void {
		this.#room = undefined;
		const waited = now - this.#waitsSince;
		this.#waitedMs += waited;
		this.record?.queued(waited);
	}

	/** What the client asked for; `null`: it is malformed. */
	get #authority(): string | null | undefined {
		const { targetAuthority } = this.client;
		return targetAuthority === undefined ? this.#head!.authority : targetAuthority;
	}

	/** Takes the request's body as the mode does, then calls `forward`. */
	protected abstract receive(head: RequestHead): void;
	/** What the mode has to say against the declared length once the route is known. */
	protected abstract admitBody(head: RequestHead): Rejection | undefined;
	/** Framing line of the request's body, its bytes as far as they are there, and whether they are all. */
	protected abstract outgoingBody(): OutgoingBody;

	#send(connection: UpstreamConnection): void {
		const { client } = this;
		this.connection = connection;
		const { certificateHeaders, forwarding } = this.route!;
		const group = this.#group!;
		const body = this.outgoingBody();
		const certificateLines =
			certificateHeaders === undefined ? '' : client.connection.caller!.lines(certificateHeaders);
		let { versionAndHost } = this.#upstream!;
		let { lines } = this.#head!;
		if (forwarding !== undefined) {
			const authority = this.#authority ?? undefined;
			({ versionAndHost, lines } = client.connection.rewrite(forwarding, versionAndHost, authority, this.#head!));
		}
		const head = client.connection.outgoing.write(
			client.method,
			this.#target!,
			versionAndHost,
			this.#identity!.tenantHeader,
			certificateLines,
			this.#correlation?.lines ?? (group.only === undefined ? '' : undefined),
			lines,
			body.framing,
		);
		this.record?.sent(this.#sentAt);
		connection.send(client.method, head, body, this);
		if (body.complete) return;
		// Of a body that streams nothing is kept: as long as the request may have to go elsewhere, all of it stays with the client.
		if (!connection.isConnected && group.retryBudget !== undefined) this.#bodyWaits = true;
		else this.readBody();
	}

	onConnected(): void {
		if (!this.#bodyWaits) return;
		this.#bodyWaits = false;
		try {
			this.readBody();
		} catch (error) {
			this.onFault(error);
		}
	}

	/** Lets the client's body come. */
	protected readBody(): void {
		this.record?.bodyBegins();
		this.client.readBody();
	}

	// --- What the upstream answers. ---

	abstract onHead(status: number, fields: AnswerFields, length: number, hasBody: boolean): void;
	abstract onBody(chunk: Buffer): void;
	abstract room(): Buffer | undefined;
	abstract onBodyInRoom(bytes: number): void;
	abstract onEnd(): void;
	abstract onWritable(): void;

	onFailure({ kind, cause }: UpstreamFailure): void {
		this.upstreamEnded();
		if (kind === 'exhausted') return this.fail(rejection.OVERLOADED.because(cause), 'abandoned');
		if (kind === 'broken' || kind === 'malformed') return this.fail(rejection.BAD_GATEWAY.because(cause), 'broken');
		// A stale connection had timed out under our hands: not the upstream's fault, and nothing was answered.
		const outcome = OUTCOMES[kind];
		if (this.#mayRetry(kind) && this.#retry(kind, cause)) return;
		this.fail(rejection.BAD_GATEWAY.because(cause), outcome);
	}

	/**
	 * What has not been delivered may always be sent again. What may have been: only what can be repeated safely (RFC 9112 section
	 * 9.3.1). Both only if we still have all of it.
	 */
	#mayRetry(kind: RetryKind): boolean {
		const { method } = this.client;
		const isSafe = method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
		return (kind === 'unreachable' || isSafe) && this.#tried.length < this.#group!.retries && this.canRepeat;
	}
	protected abstract get canRepeat(): boolean;

	/**
	 * Sends the request again: to another upstream, on a connection that nobody has used, within the time that it had from the first.
	 *
	 * @param kind of the failure. @param cause in words, for operators.
	 * @returns whether there is one.
	 */
	#retry(kind: RetryKind, cause: string): boolean {
		const { cooldownMs } = this.route!;
		const group = this.#group!;
		const failed = this.#upstream!;
		const now = this.plane.clock.now();
		if (group.retryBudget?.allows(now) === false) {
			failed.stats.retryDenied();
			return false;
		}
		const tried = [...this.#tried, failed];
		const other =
			group.only === undefined ? group.admitOther(now, cooldownMs, this.#identity!.tenant, tried) : undefined;
		if (other !== undefined) {
			const { admission } = group;
			this.settle(OUTCOMES[kind], cause, now);
			this.#upstream = other;
			this.#admission = admission;
		} else if (kind !== 'stale' || !group.again(failed, now)) {
			return false;
		}
		if (group.counts) this.#load = this.#upstream!.load;
		// A stale connection says nothing of its upstream, so where there is no other one it is worth another try.
		this.#tried = tried;
		group.retryBudget?.retry(now);
		failed.stats.retried(kind);
		try {
			this.#send(this.#upstream!.pool.open());
		} catch (error) {
			this.onFault(error);
		}
		return true;
	}

	/** The upstream's time is over before its answer has begun. @param outcome if there is a connection to blame for it. */
	protected upstreamTimedOut(outcome: 'timeout' | 'abandoned'): void {
		const isConnected = this.connection?.isConnected ?? true;
		const cause = silenceCause(isConnected ? 'answer' : 'connection', this.plane.limits.upstreamTimeoutMs);
		this.fail(rejection.UPSTREAM_TIMEOUT.because(cause), isConnected ? outcome : 'connect');
	}

	/**
	 * The upstream's verdict on itself is in its status; the round trip counts in the latency summary.
	 *
	 * @param isComplete the whole response is there. Otherwise it may still break off, and then it is a failure, and no
	 *   success: `settle` follows.
	 */
	protected settleByStatus(status: number, isComplete: boolean): void {
		const now = this.plane.clock.now();
		const { stats, durations, breaker } = this.#upstream!;
		stats.roundTrips.record(now - this.#sentAt, now);
		this.#measure(durations, now - this.#sentAt, now);
		if (isFailureStatus(status)) return this.settle('status', `status ${status}`, now);
		if (isComplete) return this.settle('success');
		// The other requests do not wait until the last byte of a probe's response. What follows of it is like any other's.
		if (this.#admission > NORMAL) breaker.report(this.#admission, 'success');
		this.#admission = NORMAL;
	}

	#measure(durations: BucketCounts, ms: number, now: number): void {
		const bucket = durations.record(ms);
		if (this.#correlation?.isShown) {
			durations.exemplify(bucket, ms, this.#correlation.traceId, now, this.plane.clock);
		}
	}

	/** So much of the time before its departure the client has taken for the body, ms: that is none of ours. */
	protected waited(ms: number): void {
		this.#waitedMs += ms;
	}

	/**
	 * Reports to the breaker what became of the request; what was admitted is reported exactly once.
	 *
	 * @param cause of a failure, in words for operators.
	 */
	protected settle(outcome: Outcome, cause = '', now?: number): void {
		if (this.#admission === REFUSED) return;
		const { breaker } = this.#upstream!;
		if (outcome === 'success' || outcome === 'abandoned') {
			breaker.report(this.#admission, outcome);
		} else {
			const failure = { reason: outcome, cause, tenant: this.#identity!.tenant };
			breaker.fail(this.#admission, failure, this.route!.opening, now ?? this.plane.clock.now());
		}
		this.#admission = REFUSED;
	}

	// --- How it ends. ---

	/** The time for the client's body, for the upstream, or for the client to take its answer is over. */
	override onDeadline(): void {
		if (this.#room !== undefined) {
			this.#leaveRoom('timeout');
			return this.refuse(QUEUE_TIMEOUT);
		}
		this.timedOut();
	}
	protected abstract timedOut(): void;

	/** The request cannot be served although it was admitted. The answer's reason is the failure's cause. */
	protected fail(answer: Rejection, outcome: 'abandoned' | FailureReason): void {
		this.settle(outcome, answer.reason);
		this.dropUpstream();
		if (this.#answered) this.breakOff(answer);
		else this.refuse(answer);
	}

	/** Resets the answer that has begun: it must not be taken for a whole one. */
	protected breakOff(why: Rejection): void {
		this.record?.breaksOff(why);
		reportBrokenOff(this.plane, why, this.#known);
		this.client.reset();
	}

	/** Something of ours has thrown. What it was goes into the log; the client learns only that it was us. */
	onFault(error: unknown): void {
		this.plane.log.error('proxy::exchange', 'internal error', { error });
		this.fail(rejection.INTERNAL_ERROR, 'abandoned');
	}

	/** The fields of the upstream's answer as they go to the client: with what is left of the limits, where that is told. */
	protected answerFields(fields: AnswerFields): AnswerFields {
		return this.#report === undefined ? fields : new AnswerFields(withReport([...fields.list], this.#report));
	}

	/** Gives an answer of our own: the one place where refusals become answers and are counted. */
	refuse(answer: Rejection): void {
		reportRefusal(this.plane, answer, this.#known);
		this.releaseBodies();
		this.count(answer.status, answer);
		this.plane.deadlines.upstream.add(this);
		const isReported = this.#report !== undefined && !answer.is(rejection.RATE_LIMITED);
		this.client.refuse(isReported ? answer.withHeaders(withReport([...answer.headers], this.#report)) : answer);
	}

	/** What operators may be told of it. */
	get #known() {
		return { client: this.client, route: this.route, upstream: this.#upstream, tenant: this.#identity?.tenant };
	}

	/** Counts the answer that is about to be given. */
	protected count(status: number, refusal?: Rejection): void {
		this.#answered = true;
		(this.#upstream ?? this.plane).stats.answered(status);
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
		return this.#identity!.tenantKey;
	}

	protected get answered(): boolean {
		return this.#answered;
	}

	protected dropUpstream(): void {
		if (this.connection === undefined) return;
		this.connection.destroy();
		this.upstreamEnded();
	}

	protected upstreamEnded(): void {
		this.connection = undefined;
		this.#bodyWaits = false;
		if (this.#load !== undefined) {
			this.#load.dec();
			this.#load = undefined;
			this.#upstream!.pool.freed();
		}
		this.record?.upstreamEnds();
	}

	/** Gives back what the bodies of this exchange hold of the common memory budget. */
	protected abstract releaseBodies(): void;

	// --- What the client does meanwhile. ---

	abstract onRequestBody(chunk: Buffer): void;
	abstract onRequestEnd(): void;
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

	#leaveRoom(result: 'timeout' | 'gone'): void {
		const room = this.#room!;
		this.#waitsNoLonger(this.plane.clock.now());
		room.leave(this.#identity!.tenant, this, result);
	}

	/** Every request ends in one of the two above, and only once. */
	#leave(): void {
		if (this.#room !== undefined) this.#leaveRoom('gone');
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
		record.tenant = this.#identity?.tenant;
		record.route = this.route;
		record.upstream = this.#upstream;
		record.correlation = this.#correlation;
		this.plane.requestLog!.end(record);
	}
}

/** A request without a body. POST and its like say so, since their servers expect one (RFC 9110 section 8.6). */
export function noBody(method: string): OutgoingBody {
	return method === 'POST' || method === 'PUT' || method === 'PATCH' ? EMPTY_BODY : NO_BODY;
}

export function lengthLine(bytes: number): string {
	return `content-length: ${bytes}\r\n`;
}

const QUEUE_FULL = rejection.OVERLOADED.because('the upstream is at its limit, and so is its queue');
const QUEUE_TIMEOUT = rejection.OVERLOADED.because('waited for queue_timeout_secs while the upstream was at its limit');
/** Failures after which a request may be sent again: nothing of an answer has come. */
type RetryKind = 'unreachable' | 'stale' | 'unanswered';
/** What each of them is to the breaker. */
const OUTCOMES = { unreachable: 'connect', stale: 'abandoned', unanswered: 'broken' } as const;

const NONE_TRIED: readonly Upstream[] = [];
export const NO_PIECES: readonly Buffer[] = [];
const NO_BODY: OutgoingBody = { framing: '', pieces: NO_PIECES, complete: true };
const EMPTY_BODY: OutgoingBody = { framing: lengthLine(0), pieces: NO_PIECES, complete: true };
