import { RateLimitFields } from '@mtls-edge-proxy/gate/gates/rate-limit-fields.ts';
import { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { refuseOtherHolder } from '@mtls-edge-proxy/gate/identity/bound-token.ts';
import {
	refuseOverConcurrency,
	refuseOverRouteRate,
	refuseOverTenantRate,
} from '@mtls-edge-proxy/gate/shared/quota-gates.ts';
import type { Identified } from '../../gates/correlation.ts';
import { refuseMalformedTimeout } from '../../gates/grpc-timeout.ts';
import { pathOf } from '../../gates/path.ts';
import { UNIDENTIFIED } from '../../gates/trace-context.ts';
import { admitTarget, refuseProtocolChange } from '../../gates/upgrade.ts';
import { admitHandshake } from '../../gates/web-socket.ts';
import { NO_CERTIFICATE } from '../../identity/route-access.ts';
import { EARLY } from '../tunnel/opening.ts';
import { authorityOf, countIn, type RequestContext } from './context.ts';
import type { BodyMode } from './contract.ts';

/**
 * The gates up to the body, in their order. What they find goes into the context.
 *
 * @returns the refusal of the first gate that does not let the request through.
 */
export function admit(context: RequestContext): Rejection | undefined {
	const { client, plane } = context;

	// A message that two readers could understand in two ways is no request at all (RFC 9112 section 6.3).
	const head = client.head;
	if (head instanceof Rejection) {
		if (plane.traces) identify(context, UNIDENTIFIED);
		return head;
	}
	context.head = head;
	if (plane.correlate !== undefined) identify(context, head);

	context.span?.enters('token');
	// Who is calling? The client certificate has opened the connection; the token names the tenant.
	const identity = plane.authenticator.authenticate(head.authorization, plane.clock.wallSeconds());
	if (identity instanceof Rejection) return identity;
	context.identity = identity;

	// A bound token is worth nothing on the connection of somebody else (RFC 8705). Its verdict is shared by all connections.
	if (identity.confirmation !== undefined) {
		context.span?.enters('bound token');
		const stolen = refuseOtherHolder(identity.confirmation, client.connection.certificate?.thumbprint);
		if (stolen) return stolen;
	}

	// Only now is there somebody to charge. Everything after this costs the tenant one request.
	context.span?.enters('tenant rate');
	if (plane.limits.rateLimitHeaders) context.report = new RateLimitFields();
	const overRate = refuseOverTenantRate(plane.limiter, identity, context.startedAt, context.report);
	if (overRate) return overRate;
	client.onPaid();

	// And one of those that it may have under way, until the request is over.
	const { slots } = identity.quota;
	if (slots !== undefined) {
		context.span?.enters('tenant concurrency');
		const tooMany = refuseOverConcurrency(slots, context.report);
		if (tooMany) return tooMany;
		context.slots = slots;
	}

	// The proxy and the upstream must see the same path, or the route that is matched is not the one that is served.
	context.span?.enters('path');
	const isExtended = client.connection.protocol === 'h2' && head.webSocket !== undefined;
	const target = admitTarget(client.method, client.target, isExtended);
	if (target instanceof Rejection) return target;
	context.target = target;

	// Behind an upgraded connection there would be no gates, but for those of a tunnel.
	context.span?.enters('protocol change');
	if (head.webSocket !== undefined && plane.takesWebSockets) return admitWebSocket(context, isExtended);
	const change = refuseProtocolChange(client.method, head.wantsUpgrade);
	if (change) return change;

	// What the upstream is told of the client's patience is made of what the client has said of it.
	if (head.grpcTimeout === undefined || !context.isCall) return undefined;
	context.span?.enters('grpc timeout');
	return refuseMalformedTimeout(head.grpcTimeout);
}

/** Matching is pure, so it can be asked before its turn. */
function admitWebSocket(context: RequestContext, isExtended: boolean): Rejection | undefined {
	const { client, head, plane } = context;
	const route = plane.routes.match(pathOf(context.target!));
	const isTaken = !(route instanceof Rejection) && route.webSocket !== undefined;
	const handshake = admitHandshake(head!.webSocket!, { isTaken, isExtended, method: client.method });
	if (handshake instanceof Rejection) return handshake;
	if (client.isAhead) return EARLY;
	context.handshake = handshake;
	return undefined;
}

/** Gives the request what it is found by, and a span where it is sampled. */
function identify(context: RequestContext, identified: Identified): void {
	const { client, plane, startedAt } = context;
	context.correlation = plane.correlate!(identified);
	const { span } = context.correlation;
	if (span === undefined) return;
	context.record = plane.requestLog!.beginSpan(client, startedAt, span, context.record);
	context.span = context.record.span;
}

/** The gates from the route to the queue in front of the upstream; otherwise as `admit`. */
export function admitToRoute(context: RequestContext, body: BodyMode): Rejection | undefined {
	const { client, plane } = context;

	// Matching is pure, so it can come before anything is spent.
	context.span?.enters('route');
	const route = plane.routes.match(pathOf(context.target!));
	if (route instanceof Rejection) return route;
	context.route = route;
	context.limits = route.requestLimits;
	context.endpoint = route.upstream.only;
	countIn(context, route.stats);

	// The path that the upstream gets has to be unambiguous, too, and so has the host that it learns.
	if (route.forwarding !== undefined) {
		context.span?.enters('forwarding');
		const target = route.forwarding.target(context.target!, authorityOf(context));
		if (target instanceof Rejection) return target;
		context.target = target;
	}

	// Who may use the route? The certificate's names, the tenant and the token's scopes say. Each answer is worked out once
	// for a connection or a token.
	if (route.access !== undefined) {
		context.span?.enters('route access');
		const forbidden = route.access.refuse(client.connection, context.identity!);
		if (forbidden) return forbidden;
	}
	if (route.certificateHeaders !== undefined) {
		context.span?.enters('certificate headers');
		if (client.connection.caller === undefined) return NO_CERTIFICATE;
	}

	// A tenant's rate on this route may be lower than its rate in all.
	if (route.limit !== undefined) {
		context.span?.enters('route rate');
		const now = plane.clock.now();
		const overRate = refuseOverRouteRate(plane.limiter, context.identity!, route.limit, now, context.report);
		if (overRate) return overRate;
	}

	// Streaming: a body that announces too much is refused before the upstream hears of it.
	return body.admitLength();
}
