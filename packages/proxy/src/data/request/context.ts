import { isCall } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import type { RequestSlots } from '@mtls-edge-proxy/gate/gates/quota.ts';
import type { RateLimitFields } from '@mtls-edge-proxy/gate/gates/rate-limit-fields.ts';
import type { Principal } from '@mtls-edge-proxy/gate/gates/token-cache.ts';
import type { Correlation } from '../../gates/correlation.ts';
import type { RequestHead } from '../../gates/headers.ts';
import type { CleanTarget } from '../../gates/path.ts';
import type { WebSocketHandshake } from '../../gates/web-socket.ts';
import type { BucketCounts } from '../../memory/bucket-counts.ts';
import type { RouteStats } from '../../memory/route-stats.ts';
import type { ClientRequest } from '../client/client-request.ts';
import type { DataPlane } from '../plane/plane.ts';
import type { RequestRecord } from '../records/request-record.ts';
import type { RequestSpan } from '../records/request-span.ts';
import type { Route } from '../routes/route.ts';
import type { Endpoint } from '../upstream/endpoint.ts';
import type { CallDeadline } from './call-deadline.ts';
import type { RequestLimits } from './request-limits.ts';

/** Everything known about one request. Data only: `admit` fills it in, and the rest of the pipeline reads it. */
export class RequestContext {
	readonly client: ClientRequest;
	readonly plane: DataPlane;
	/** Monotonic milliseconds when the request's turn came; a pipelined request waits before that. */
	startedAt = 0;
	/** Time spent waiting for the client's body or in a queue before the request first left for an upstream, ms. */
	waitedMs = 0;
	/** Monotonic milliseconds when it first left for an upstream. Waiting for another upstream since then is not counted. */
	sentAt = 0;
	/** Set if requests are logged, until this one has been. */
	record: RequestRecord | undefined = undefined;
	/** Set if the request is sampled. */
	span: RequestSpan | undefined = undefined;
	head: RequestHead | undefined = undefined;
	correlation: Correlation | undefined = undefined;
	principal: Principal | undefined = undefined;
	/** Set if the request holds one of its tenant's concurrent places. */
	slots: RequestSlots | undefined = undefined;
	/** Set if the request asks for a WebSocket and its route takes it. */
	handshake: WebSocketHandshake | undefined = undefined;
	target: CleanTarget | undefined = undefined;
	route: Route | undefined = undefined;
	/** Limits on its time and bytes. */
	limits: RequestLimits;
	/** The current or last endpoint; `undefined`: none has been chosen yet. */
	endpoint: Endpoint | undefined = undefined;
	/** Set for a gRPC call with a `grpc-timeout`. */
	callDeadline: CallDeadline | undefined = undefined;
	/** What is left of the rate limits; set if all responses report it. */
	report: RateLimitFields | undefined = undefined;
	/** Counts the request as in flight, and its bytes. */
	traffic: RouteStats | undefined = undefined;
	/** Body bytes that came before the route was known. */
	earlyBytes = 0;

	constructor(client: ClientRequest, plane: DataPlane) {
		this.client = client;
		this.plane = plane;
		this.limits = plane.requestLimits;
	}

	/** Releases what only the way to the upstream needs. A tunnel may stay for days. */
	forgetHead(): void {
		this.head = undefined;
		this.handshake = undefined;
		this.target = undefined;
	}

	/** Whether this is a gRPC call. */
	get isCall(): boolean {
		return isCall(this.client.method, this.head ?? this.client);
	}
}

/** The authority that the client asked for; `null`: it is malformed. */
export function authorityOf({ client, head }: RequestContext): string | null | undefined {
	const { targetAuthority } = client;
	return targetAuthority === undefined ? head!.authority : targetAuthority;
}

/** Counts the request as in flight there and nowhere else. @param traffic `undefined`: the request is over. */
export function countIn(context: RequestContext, traffic: RouteStats | undefined): void {
	const { client, plane, startedAt, traffic: before } = context;
	const { protocol } = client.connection;
	context.traffic = traffic;
	before?.inFlight(protocol, -1);
	traffic?.inFlight(protocol, 1);
	if (before === undefined && traffic !== undefined) plane.rests.count(startedAt, 1);
	else if (before !== undefined && traffic === undefined) plane.rests.count(startedAt, -1);
}

/** Counts bytes of the request's body that have come from the client. */
export function countReceived(context: RequestContext, bytes: number): void {
	context.record?.received(bytes);
	// A collected body comes before its route is known, but still counts for that route.
	if (context.route === undefined) context.earlyBytes += bytes;
	else context.traffic?.received(context.client.connection.protocol, bytes);
}

/** Counts bytes of the response's body that were given to the client's connection. */
export function countGiven(context: RequestContext, bytes: number): void {
	context.record?.gave(bytes);
	context.traffic?.gave(context.client.connection.protocol, bytes);
}

/** Adds a duration to a histogram, with the request's trace if there is one. */
export function measure(
	{ correlation, plane }: RequestContext,
	durations: BucketCounts,
	ms: number,
	now: number,
): void {
	const bucket = durations.record(ms);
	if (correlation?.isShown) durations.exemplify(bucket, ms, correlation.traceId, now, plane.clock);
}
