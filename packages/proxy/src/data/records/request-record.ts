import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Correlation, SpanContext } from '../../gates/correlation.ts';
import { withoutQuery } from '../../gates/target.ts';
import type { TunnelEnd } from '../../memory/stats.ts';
import type { ClientConnection } from '../client/client-connection.ts';
import { RequestSpan } from './request-span.ts';

/** How a request ended. */
export type Ending =
	/** The client has the whole answer, as far as we can know. */
	| 'complete'
	/** The client left before that. */
	| 'client gone'
	/** The answer had begun and could not be brought to its end. */
	| 'broken off';

/** What is kept of one request for its line in a log, or for its span. There is one only while requests are logged, or where it is sampled. */
export class RequestRecord {
	/** Members that all requests of the connection share, ready to write (`ClientConnection.logMembers`). */
	readonly connectionMembers: string;
	/** Empty where the request could not be read. */
	readonly method: string;
	/** Request target, with its query. */
	readonly target: string;
	/** 0: the client left before it had an answer. */
	status = 0;
	/** The proxy's own answer, or why it broke off another one. */
	refusal: Rejection | undefined = undefined;
	/** Of a gRPC call: the upstream's, or that of a refusal. */
	grpcStatus: number | undefined = undefined;
	tenant: string | undefined = undefined;
	route: { readonly prefix: string } | undefined = undefined;
	/** The last one that it was meant for; `undefined`: none had been chosen. */
	upstream: { readonly authority: string } | undefined = undefined;
	correlation: Correlation | undefined = undefined;
	/** Of a request that is sampled. */
	span: RequestSpan | undefined = undefined;
	/** How often it was sent to an upstream: 0, 1, or more after retries. */
	attempts = 0;
	/** Time spent waiting for a place at the upstream, ms. */
	queuedMs = 0;
	/** Bytes of bodies without their framing: what was read from the client, and what was given to its connection. */
	bytesIn = 0;
	bytesOut = 0;
	ending: Ending = 'complete';
	/** The cause of its tunnel's end. */
	tunnelEnd: TunnelEnd | undefined = undefined;
	readonly #clock: Clock;
	readonly #startedAt: number;
	#bodyFrom = Number.NaN;
	#bodyTo = Number.NaN;
	#upstreamFrom = Number.NaN;
	#upstreamTo = Number.NaN;
	#endedAt = Number.NaN;

	/** @param startedAt monotonic milliseconds. */
	constructor(client: Loggable, clock: Clock, startedAt: number) {
		// Now: a connection that has closed tells nothing.
		this.connectionMembers = client.connection.logMembers;
		this.method = client.method;
		this.target = client.target;
		this.#clock = clock;
		this.#startedAt = startedAt;
	}

	bodyBegins(): void {
		this.#bodyFrom = this.#clock.now();
	}

	received(bytes: number): void {
		this.bytesIn += bytes;
	}

	bodyEnds(): void {
		this.#bodyTo = this.#clock.now();
	}

	queued(ms: number): void {
		this.queuedMs += ms;
	}

	/** @param now monotonic milliseconds. */
	sent(now: number): void {
		if (this.attempts++ === 0) this.#upstreamFrom = now;
	}

	/** The exchange with the upstream is over, or given up. */
	upstreamEnds(): void {
		this.#upstreamTo = this.#clock.now();
	}

	answers(status: number, refusal: Rejection | undefined): void {
		this.status = status;
		this.refusal = refusal;
		this.span?.answers(refusal);
	}

	gave(bytes: number): void {
		this.bytesOut += bytes;
	}

	breaksOff(why: Rejection): void {
		this.refusal = why;
		this.ending = 'broken off';
		this.span?.breaksOff(why);
	}

	/** The client has left. What we have broken off ends like this, too. */
	losesClient(): void {
		if (this.ending === 'complete') this.ending = 'client gone';
	}

	tunnelEnds(why: TunnelEnd): void {
		this.tunnelEnd = why;
	}

	ends(): void {
		this.#endedAt = this.#clock.now();
	}

	/** Monotonic milliseconds. */
	get startedAt(): number {
		return this.#startedAt;
	}

	get path(): string {
		return withoutQuery(this.target);
	}

	/** Milliseconds, like those below. */
	get duration(): number {
		return this.#endedAt - this.#startedAt;
	}

	/** From the moment at which the body was asked for to its last byte; NaN if there was none, or if it never ended. */
	get bodyDuration(): number {
		return this.#bodyTo - this.#bodyFrom;
	}

	/** From the departure of the (first) request to the end of the response; NaN if none went to an upstream. */
	get upstreamDuration(): number {
		return (Number.isNaN(this.#upstreamTo) ? this.#endedAt : this.#upstreamTo) - this.#upstreamFrom;
	}
}

/** The part of a request that is known before it is read. */
export interface Loggable {
	readonly connection: ClientConnection;
	readonly method: string;
	readonly target: string;
}

export interface SpanParts {
	/** For each request that is sampled; its record has a span. */
	readonly write: (record: RequestRecord, span: RequestSpan) => void;
	/** Decides about a request of which nothing is known. */
	readonly sample: () => SpanContext | undefined;
}

/** Writes about each request when it is over. */
export class RequestLog {
	readonly #clock: Clock;
	readonly #writers: readonly ((record: RequestRecord) => void)[];
	readonly #spans: SpanParts | undefined;

	/** @param writers for each request; none: only those are recorded that are sampled. */
	constructor(clock: Clock, writers: readonly ((record: RequestRecord) => void)[], spans?: SpanParts) {
		this.#clock = clock;
		this.#writers = writers;
		this.#spans = spans;
	}

	/**
	 * @param now monotonic milliseconds.
	 * @returns `undefined` where nobody wants to know of a request that is not sampled.
	 */
	begin(client: Loggable, now: number): RequestRecord | undefined {
		return this.#writers.length === 0 ? undefined : new RequestRecord(client, this.#clock, now);
	}

	/** The same for one that is sampled. @param record where it has one already. */
	beginSpan(client: Loggable, now: number, context: SpanContext, record: RequestRecord | undefined): RequestRecord {
		const sampled = record ?? new RequestRecord(client, this.#clock, now);
		sampled.span = new RequestSpan(client.connection, context, this.#clock, now);
		return sampled;
	}

	/** The same for one whose head could not be read: nobody has said whether it is sampled. */
	beginUnread(client: Loggable, now: number): RequestRecord | undefined {
		const record = this.begin(client, now);
		const context = this.#spans?.sample();
		return context === undefined ? record : this.beginSpan(client, now, context, record);
	}

	/** Called once for each record. */
	end(record: RequestRecord): void {
		record.ends();
		for (const write of this.#writers) write(record);
		if (record.span !== undefined) this.#spans?.write(record, record.span);
	}
}
