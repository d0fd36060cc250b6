import { type Admission, isFailureStatus, NORMAL, type Outcome, REFUSED } from '../gates/breaker.ts';
import type { Correlation } from '../gates/correlation.ts';
import type { RequestHead } from '../gates/headers.ts';
import type { CleanTarget } from '../gates/path.ts';
import type { Identity } from '../gates/token-cache.ts';
import type { BucketCounts } from '../shared/bucket-counts.ts';
import type { UpstreamLoad } from '../shared/upstream-load.ts';
import type { AnswerFields } from './answer-fields.ts';
import type { ClientRequest } from './client.ts';
import { Timed } from './deadlines.ts';
import type { DataPlane, Route, Upstream } from './plane.ts';
import type { RequestLimits } from './request-limits.ts';
import type { RequestRecord } from './request-record.ts';
import type { RequestSpan } from './request-span.ts';
import type { OutgoingBody, ResponseHandler, UpstreamConnection, UpstreamFailure } from './upstream/connection.ts';
import type { UpstreamGroup } from './upstream/group.ts';

/**
 * One request at the upstream that was chosen for it: it is put together and sent there, counted as under way until it has ended, and the
 * breaker that has admitted it is told, once, what became of it. Which upstream that is, and which one is next, `RoundTrip` decides.
 */
export abstract class Attempt extends Timed implements ResponseHandler {
	protected readonly client: ClientRequest;
	protected readonly plane: DataPlane;
	/** While requests are logged, and until this one has been. */
	protected record: RequestRecord | undefined;
	/** Where the request is sampled. */
	protected span: RequestSpan | undefined;
	/** What the gates have found; each is there as soon as it is known. */
	protected head: RequestHead | undefined;
	protected correlation: Correlation | undefined;
	protected identity: Identity | undefined;
	protected target: CleanTarget | undefined;
	protected route: Route | undefined;
	/** What the request may take of time and bytes. */
	protected limits: RequestLimits;
	/** Among whose addresses one is chosen: the route's, or, of a request that had to wait or is sent again, the one in force when it left. */
	protected group: UpstreamGroup | undefined;
	/** Where the request goes, or went last; `undefined`: that has not been chosen yet. */
	protected upstream: Upstream | undefined;
	protected connection: UpstreamConnection | undefined;
	/** Monotonic milliseconds when the request first left for an upstream. What it has waited for another one since is not counted. */
	protected sentAt = 0;
	/** What the breaker was promised a report on. */
	#admission: Admission | typeof REFUSED = REFUSED;
	/** The load in which it is counted as under way. */
	#load: UpstreamLoad | undefined;
	/** The client's body waits for a connection to the upstream. */
	#bodyWaits = false;

	constructor(client: ClientRequest, plane: DataPlane) {
		super();
		this.client = client;
		this.plane = plane;
		this.limits = plane.requestLimits;
	}

	/** Framing line of the request's body, its bytes as far as they are there, and whether they are all. */
	protected abstract outgoingBody(): OutgoingBody;
	/** Lets the client's body come. */
	protected abstract readBody(): void;

	/** It goes to the upstream that its group has chosen last, and owes the breaker a report. */
	protected goesTo(upstream: Upstream): void {
		this.upstream = upstream;
		this.#admission = this.group!.admission;
		this.countAt(upstream);
	}

	/** Where its group counts, it has been counted as under way there. */
	protected countAt({ load }: Upstream): void {
		if (this.group!.counts) this.#load = load;
	}

	protected send(connection: UpstreamConnection): void {
		const { client } = this;
		this.connection = connection;
		const { certificateHeaders, forwarding } = this.route!;
		const group = this.group!;
		const body = this.outgoingBody();
		const certificateLines =
			certificateHeaders === undefined ? '' : client.connection.caller!.lines(certificateHeaders);
		let { versionAndHost } = this.upstream!;
		let { lines } = this.head!;
		if (forwarding !== undefined) {
			const authority = this.authority ?? undefined;
			({ versionAndHost, lines } = client.connection.rewrite(forwarding, versionAndHost, authority, this.head!));
		}
		const head = client.connection.outgoing.write(
			client.method,
			this.target!,
			versionAndHost,
			this.identity!.tenantHeader,
			certificateLines,
			this.correlation?.lines ?? (group.only === undefined ? '' : undefined),
			lines,
			body.framing,
		);
		this.record?.sent(this.sentAt);
		connection.send(client.method, head, body, this);
		if (body.complete) return;
		// Of a body that streams nothing is kept: as long as the request may have to go elsewhere, all of it stays with the client.
		if (connection.isConnected || group.retryBudget === undefined) return this.readBody();
		this.#bodyWaits = true;
		client.holdBody();
	}

	/** What the client asked for; `null`: it is malformed. */
	protected get authority(): string | null | undefined {
		const { targetAuthority } = this.client;
		return targetAuthority === undefined ? this.head!.authority : targetAuthority;
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

	// --- What the upstream answers. ---

	abstract onHead(status: number, fields: AnswerFields, length: number, hasBody: boolean): void;
	abstract onBody(chunk: Buffer): void;
	abstract room(): Buffer | undefined;
	abstract onBodyInRoom(bytes: number): void;
	abstract onEnd(): void;
	abstract onWritable(): void;

	abstract onFailing(failure: UpstreamFailure): void;
	abstract onFailure(failure: UpstreamFailure): void;
	abstract override onFault(error: unknown): void;

	protected dropUpstream(): void {
		// A fault of ours may have come between its admission and its connection.
		if (this.connection === undefined) return this.leaveUpstream();
		this.connection.destroy();
		this.upstreamEnded();
	}

	protected upstreamEnded(): void {
		this.connection = undefined;
		this.#bodyWaits = false;
		this.leaveUpstream();
		this.record?.upstreamEnds();
	}

	/** It is under way there no longer. */
	protected leaveUpstream(): void {
		if (this.#load !== undefined) {
			this.#load.dec();
			this.#load = undefined;
			this.upstream!.pool.freed();
		}
	}

	// --- What the breaker is told. ---

	/**
	 * The upstream's verdict on itself is in its status; the round trip counts in the latency summary.
	 *
	 * @param isComplete the whole response is there. Otherwise it may still break off, and then it is a failure, and no
	 *   success: `settle` follows.
	 */
	protected settleByStatus(status: number, isComplete: boolean): void {
		const now = this.plane.clock.now();
		const { stats, durations, breaker } = this.upstream!;
		stats.roundTrips.record(now - this.sentAt, now);
		this.measure(durations, now - this.sentAt, now);
		if (isFailureStatus(status)) return this.settle('status', `status ${status}`, now);
		if (isComplete) return this.settle('success');
		// The other requests do not wait until the last byte of a probe's response. What follows of it is like any other's.
		if (this.#admission > NORMAL) breaker.report(this.#admission, 'success');
		this.#admission = NORMAL;
	}

	protected measure(durations: BucketCounts, ms: number, now: number): void {
		const bucket = durations.record(ms);
		if (this.correlation?.isShown) {
			durations.exemplify(bucket, ms, this.correlation.traceId, now, this.plane.clock);
		}
	}

	/**
	 * Reports to the breaker what became of the request; what was admitted is reported exactly once.
	 *
	 * @param cause of a failure, in words for operators.
	 */
	protected settle(outcome: Outcome, cause = '', now?: number): void {
		if (this.#admission === REFUSED) return;
		const { breaker } = this.upstream!;
		if (outcome === 'success' || outcome === 'abandoned') {
			breaker.report(this.#admission, outcome);
		} else {
			const failure = { reason: outcome, cause, tenant: this.identity!.tenant };
			breaker.fail(this.#admission, failure, this.route!.opening, now ?? this.plane.clock.now());
		}
		this.#admission = REFUSED;
	}
}
