import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Correlation, SpanContext } from '../../gates/correlation.ts';
import { withoutQuery } from '../../gates/target.ts';
import type { TunnelEnd } from '../../memory/worker-stats.ts';
import type { ClientConnection } from '../client/client-connection.ts';
import { RequestSpan } from './request-span.ts';

/** How a request ended. */
export type Ending =
	/** The whole response was written to the client's connection. */
	| 'complete'
	/** The client left earlier. */
	| 'client gone'
	/** The response had begun and could not be completed. */
	| 'broken off';

/** The facts of one request for its log line and its span. It exists only if requests are logged or this one is sampled. */
export class RequestRecord {
	/** Members of the line that all requests of the connection share, as JSON (`ClientConnection.logMembers`). */
	readonly connectionMembers: string;
	/** Empty if the request could not be read. */
	readonly method: string;
	/** Request target, with its query. */
	readonly target: string;
	/** 0: the client left before it had a response. */
	status = 0;
	/** The refusal, or why the proxy broke off a response. */
	refusal: Rejection | undefined = undefined;
	/** `grpc-status` of a gRPC call: the upstream's, or that of a refusal. */
	grpcStatus: number | undefined = undefined;
	tenant: string | undefined = undefined;
	route: { readonly prefix: string } | undefined = undefined;
	/** The last chosen endpoint; `undefined`: none was chosen. */
	upstream: { readonly authority: string } | undefined = undefined;
	correlation: Correlation | undefined = undefined;
	/** Present if the request is sampled. */
	span: RequestSpan | undefined = undefined;
	/** How often it was sent to an upstream: 0, 1, or more after retries. */
	attempts = 0;
	/** Time spent waiting for a place at the upstream, ms. */
	queuedMs = 0;
	/** Bytes of bodies without framing: read from the client, and written to its connection. */
	bytesIn = 0;
	bytesOut = 0;
	ending: Ending = 'complete';
	/** Why its tunnel ended. */
	tunnelEnd: TunnelEnd | undefined = undefined;
	/** Monotonic milliseconds. */
	readonly startedAt: number;
	readonly #clock: Clock;
	#bodyFrom = Number.NaN;
	#bodyTo = Number.NaN;
	#upstreamFrom = Number.NaN;
	#upstreamTo = Number.NaN;
	#endedAt = Number.NaN;

	/** @param startedAt monotonic milliseconds. */
	constructor(client: Loggable, clock: Clock, startedAt: number) {
		// Read now: the members cannot be read from a closed connection.
		this.connectionMembers = client.connection.logMembers;
		this.method = client.method;
		this.target = client.target;
		this.#clock = clock;
		this.startedAt = startedAt;
	}

	/** Also called when the request is sent again. */
	bodyBegins(): void {
		if (Number.isNaN(this.#bodyFrom)) this.#bodyFrom = this.#clock.now();
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

	/** The exchange with the upstream is complete or given up. */
	upstreamEnds(): void {
		this.#upstreamTo = this.#clock.now();
	}

	responds(status: number, refusal: Rejection | undefined): void {
		this.status = status;
		this.refusal = refusal;
		this.span?.responds(refusal);
	}

	gave(bytes: number): void {
		this.bytesOut += bytes;
	}

	breaksOff(why: Rejection): void {
		this.refusal = why;
		this.ending = 'broken off';
		this.span?.breaksOff(why);
	}

	/** The client has left. A broken-off response also ends with this call, and stays `broken off`. */
	losesClient(): void {
		if (this.ending === 'complete') this.ending = 'client gone';
	}

	tunnelEnds(why: TunnelEnd): void {
		this.tunnelEnd = why;
	}

	ends(): void {
		this.#endedAt = this.#clock.now();
	}

	get path(): string {
		return withoutQuery(this.target);
	}

	/** Milliseconds, like the durations below. */
	get duration(): number {
		return this.#endedAt - this.startedAt;
	}

	/** From asking for the body to its last byte; NaN if there was no body, or if it did not end. */
	get bodyDuration(): number {
		return this.#bodyTo - this.#bodyFrom;
	}

	/** From sending the first attempt to the end of the response; NaN if none was sent. */
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
	/** Called for each sampled request; its record has a span. */
	readonly write: (record: RequestRecord, span: RequestSpan) => void;
	/** Decides whether to sample a request without a readable head. */
	readonly sample: () => SpanContext | undefined;
}

/** Writes the record of each request when it ends. */
export class RequestLog {
	readonly #clock: Clock;
	readonly #writers: readonly ((record: RequestRecord) => void)[];
	readonly #spans: SpanParts | undefined;

	/** @param writers called for each request; if empty, only sampled requests are recorded. */
	constructor(clock: Clock, writers: readonly ((record: RequestRecord) => void)[], spans?: SpanParts) {
		this.#clock = clock;
		this.#writers = writers;
		this.#spans = spans;
	}

	/**
	 * @param now monotonic milliseconds.
	 * @returns `undefined` if there are no writers.
	 */
	begin(client: Loggable, now: number): RequestRecord | undefined {
		return this.#writers.length === 0 ? undefined : new RequestRecord(client, this.#clock, now);
	}

	/** Begins the span of a sampled request. @param record from `begin`, if it returned one. */
	beginSpan(client: Loggable, now: number, context: SpanContext, record: RequestRecord | undefined): RequestRecord {
		const sampled = record ?? new RequestRecord(client, this.#clock, now);
		sampled.span = new RequestSpan(client.connection, context, this.#clock, now);
		return sampled;
	}

	/** Begins the record of a request without a readable head, and samples it. */
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
