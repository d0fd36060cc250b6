import { type Admission, isFailureStatus, NORMAL, type Outcome, REFUSED } from '../gates/breaker.ts';
import type { RequestHead } from '../gates/headers.ts';
import { type CleanTarget, cleanTarget, pathOf } from '../gates/path.ts';
import * as rejection from '../gates/rejection.ts';
import { Rejection } from '../gates/rejection.ts';
import type { Identity } from '../gates/token-cache.ts';
import { refuseProtocolChange } from '../gates/upgrade.ts';
import type { ClientRequest } from './client.ts';
import { Timed } from './deadlines.ts';
import type { Dispatched } from './dispatch-queue.ts';
import type { DataPlane, Route } from './plane.ts';
import type { ResponseHandler, UpstreamConnection, UpstreamFailure } from './upstream/connection.ts';

/**
 * One request's way through the proxy: the gates of specification 4.1 in their order, from here to the upstream. What
 * a body mode does differently stands in `body/collected.ts` and `body/streaming.ts`, which extend this class.
 */
export abstract class Exchange extends Timed implements Dispatched, ResponseHandler {
	protected readonly client: ClientRequest;
	protected readonly plane: DataPlane;
	/** Monotonic milliseconds when it was the request's turn: what is pipelined waits before that. */
	#startedAt = 0;
	#head: RequestHead | undefined;
	#identity: Identity | undefined;
	#target: CleanTarget | undefined;
	protected route: Route | undefined;
	/** Monotonic milliseconds when the request left for the upstream. */
	#sentAt = 0;
	/** What the breaker was promised a report on. */
	#admission: Admission | typeof REFUSED = REFUSED;
	protected connection: UpstreamConnection | undefined;
	#retried = false;
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
		if (head instanceof Rejection) return this.refuse(head);
		this.#head = head;

		// Who is calling? The client certificate has opened the connection; the token names the tenant.
		const identity = plane.authenticator.authenticate(head.authorization, plane.clock.wallSeconds());
		if (identity instanceof Rejection) return this.refuse(identity);
		this.#identity = identity;

		// Only now is there somebody to charge. Everything after this costs the tenant one request.
		const withinLimit = plane.limiter?.admit(identity.limiterKey, this.#startedAt) ?? true;
		if (!withinLimit) return this.refuse(rejection.RATE_LIMITED);

		// The proxy and the upstream must see the same path, or the route that is matched is not the one that is served.
		const target = client.method === 'CONNECT' ? rejection.UPGRADE_UNSUPPORTED : cleanTarget(client.target);
		if (target instanceof Rejection) return this.refuse(target);
		this.#target = target;

		// Behind an upgraded connection there would be no gates.
		const unsupported = refuseProtocolChange(client.method, head.wantsUpgrade);
		if (unsupported) return this.refuse(unsupported);

		// Collected: the whole body, or 413, 408, 400; then on to `forward`. Streaming: `forward` at once.
		this.receive(head, this.#startedAt);
	}

	/** From the route to the queue before the upstream's door. @param now monotonic milliseconds. */
	protected forward(now: number): void {
		const { plane } = this;

		// Matching is pure, so it can come before anything is spent.
		const route = plane.routes.match(pathOf(this.#target!));
		if (route instanceof Rejection) return this.refuse(route);
		this.route = route;

		// Streaming: a body that announces too much is refused before the upstream hears of it.
		const tooLarge = this.admitBody(this.#head!);
		if (tooLarge) return this.refuse(tooLarge);

		// A few go to the upstreams in each turn of the loop: `dispatch` follows when it is this one's turn.
		plane.dispatches.add(this, now);
	}

	/** This one's turn has come. As in `start`, a fault of ours costs no other request anything. */
	dispatch(now: number): void {
		try {
			this.#dispatch(now);
		} catch (error) {
			this.onFault(error);
		}
	}

	/** Through the upstream's door. */
	#dispatch(now: number): void {
		const { plane } = this;
		const route = this.route!;

		// Last, since this may spend the one probe of a half-open breaker. From here on an outcome must be reported.
		this.#admission = route.upstream.breaker.admit(now, route.cooldownMs);
		if (this.#admission === REFUSED) return this.refuse(rejection.UPSTREAM_UNAVAILABLE);

		this.#sentAt = now;
		plane.deadlines.upstream.add(this);
		this.#send(route.upstream.pool.take(now));
	}

	/** Takes the request's body as the mode does, then calls `forward`. */
	protected abstract receive(head: RequestHead, now: number): void;
	/** What the mode has to say against the declared length once the route is known. */
	protected abstract admitBody(head: RequestHead): Rejection | undefined;
	/** Framing line of the request's body, its bytes as far as they are there, and whether they are all. */
	protected abstract outgoingBody(): OutgoingBody;

	#send(connection: UpstreamConnection): void {
		const { client, route } = this;
		const { framing, bytes, complete } = this.outgoingBody();
		this.connection = connection;
		const head = `${client.method} ${this.#target}${route!.upstream.versionAndHost}${client.forwardedLines}${
			this.#identity!.tenantHeader
		}${this.#head!.lines}${framing}\r\n`;
		connection.send(client.method, head, bytes, complete, this);
		if (!complete) client.readBody();
	}

	// --- What the upstream answers. ---

	abstract onHead(status: number, fields: string[], length: number, hasBody: boolean): void;
	abstract onBody(chunk: Buffer): void;
	abstract onEnd(): void;
	abstract onWritable(): void;

	onFailure(failure: UpstreamFailure): void {
		this.connection = undefined;
		if (failure === 'stale') {
			// The connection had timed out under our hands: not the upstream's fault, and nothing was answered.
			if (this.#mayRetry()) return this.#send(this.route!.upstream.pool.open());
			return this.fail(rejection.BAD_GATEWAY, 'abandoned');
		}
		if (failure === 'exhausted') return this.fail(rejection.OVERLOADED, 'abandoned');
		this.fail(rejection.BAD_GATEWAY, 'failure');
	}

	/** RFC 9112 section 9.3.1: only what can be repeated safely, only once, and only if we still have all of it. */
	#mayRetry(): boolean {
		const { method } = this.client;
		if (this.#retried || !(method === 'GET' || method === 'HEAD' || method === 'OPTIONS')) return false;
		this.#retried = true;
		return this.canRepeat;
	}
	protected abstract get canRepeat(): boolean;

	/** The upstream's verdict on itself is in its status; the round trip counts in the latency summary. */
	protected settleByStatus(status: number): void {
		const now = this.plane.clock.now();
		this.route!.upstream.stats.roundTrips.record(now - this.#sentAt, now);
		this.settle(isFailureStatus(status) ? 'failure' : 'success', now);
	}

	/** Reports to the breaker what became of the request; what was admitted is reported exactly once. */
	protected settle(outcome: Outcome, now: number = this.plane.clock.now()): void {
		if (this.#admission === REFUSED) return;
		this.route!.upstream.breaker.report(this.#admission, outcome, now);
		this.#admission = REFUSED;
	}

	/** A response that breaks off after its head has been settled is the upstream's failure as well. */
	protected reopenSettlement(): void {
		this.#admission = NORMAL;
	}

	// --- How it ends. ---

	/** The time for the client's body, for the upstream, or for the client to take its answer is over. */
	override onDeadline(): void {
		this.timedOut();
	}
	protected abstract timedOut(): void;

	/** The request cannot be served although it was admitted. */
	protected fail(answer: Rejection, outcome: Outcome): void {
		this.settle(outcome);
		this.dropUpstream();
		if (this.#answered) this.client.reset();
		else this.refuse(answer);
	}

	/** Something of ours has thrown. What it was goes into the log; the client learns only that it was us. */
	onFault(error: unknown): void {
		this.plane.log.error('proxy::exchange', 'internal error', { error });
		this.fail(rejection.INTERNAL_ERROR, 'abandoned');
	}

	/** Gives an answer of our own: the one place where refusals become answers and are counted. */
	refuse(answer: Rejection): void {
		const { stats } = this.plane;
		if (answer.is(rejection.TOKEN_MISSING)) stats.authFailure('missing');
		else if (answer.is(rejection.TOKEN_INVALID)) stats.authFailure('invalid');
		else if (answer.is(rejection.RATE_LIMITED)) stats.rateLimited();
		this.releaseBodies();
		this.count(answer.status, answer);
		this.plane.deadlines.upstream.add(this);
		this.client.refuse(answer);
	}

	/** Counts the answer that is about to be given. */
	protected count(status: number, refusal?: Rejection): void {
		const { plane, route } = this;
		this.#answered = true;
		if (route === undefined) plane.stats.answered(status);
		else route.upstream.stats.answered(status);
		plane.logAnswer?.({
			method: this.client.method,
			path: this.client.target.split('?', 1)[0]!,
			status,
			tenant: this.#identity?.claims.sub,
			upstream: route?.upstream.authority,
			rejection: refusal,
			duration: plane.clock.now() - this.#startedAt,
		});
	}

	protected get answered(): boolean {
		return this.#answered;
	}

	protected dropUpstream(): void {
		this.connection?.destroy();
		this.connection = undefined;
	}

	/** Gives back what the bodies of this exchange hold of the common memory budget. */
	protected abstract releaseBodies(): void;

	// --- What the client does meanwhile. ---

	abstract onRequestBody(chunk: Buffer): void;
	abstract onRequestEnd(): void;
	abstract onClientDrained(): void;

	/** The body's framing is broken (HTTP/1.1 only; over HTTP/2 the stream is reset). */
	onBodyError(): void {
		this.fail(rejection.BODY_ERROR, 'abandoned');
	}

	/** The answer has gone out whole. */
	onAnswered(): void {
		this.cancelDeadline();
		this.releaseBodies();
	}

	/** The client has left: nobody waits for the upstream's answer any more, and it is no fault of the upstream. */
	onClientGone(): void {
		this.isGone = true;
		this.cancelDeadline();
		this.settle('abandoned');
		this.dropUpstream();
		this.releaseBodies();
	}
}

/** A request without a body. POST and its like say so, since their servers expect one (RFC 9110 section 8.6). */
export function noBody(method: string): OutgoingBody {
	return method === 'POST' || method === 'PUT' || method === 'PATCH' ? EMPTY_BODY : NO_BODY;
}

const NO_BODY: OutgoingBody = { framing: '', bytes: undefined, complete: true };
const EMPTY_BODY: OutgoingBody = { framing: 'content-length: 0\r\n', bytes: undefined, complete: true };

export interface OutgoingBody {
	/** `content-length` or `transfer-encoding` line with its CRLF, or nothing. */
	readonly framing: string;
	readonly bytes: Buffer | undefined;
	readonly complete: boolean;
}
