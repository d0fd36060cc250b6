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
 * Passes a request through the gates before its body, in order. Their findings go into the context.
 *
 * @returns the refusal of the first gate that does not let the request through.
 */
export function admit(context: RequestContext): Rejection | undefined {
	const { client, plane } = context;

	// A message that two readers could understand differently is not a request (RFC 9112 section 6.3).
	const head = client.head;
	if (head instanceof Rejection) {
		if (plane.traces) identify(context, UNIDENTIFIED);
		return head;
	}
	context.head = head;
	if (plane.correlate !== undefined) identify(context, head);

	context.span?.enters('token');
	// Who is calling? The client certificate has opened the connection; the token names the tenant.
	const principal = plane.authenticator.authenticate(head.authorization, plane.clock.wallSeconds());
	if (principal instanceof Rejection) return principal;
	context.principal = principal;

	// A bound token is invalid on a connection with another certificate (RFC 8705). Its verdict is shared by all connections.
	if (principal.confirmation !== undefined) {
		context.span?.enters('bound token');
		const stolen = refuseOtherHolder(principal.confirmation, client.connection.certificate?.thumbprint);
		if (stolen) return stolen;
	}

	// The tenant is known only now. From here on, the request counts against its rate.
	context.span?.enters('tenant rate');
	if (plane.limits.rateLimitHeaders) context.report = new RateLimitFields();
	const overRate = refuseOverTenantRate(plane.limiter, principal, context.startedAt, context.report);
	if (overRate) return overRate;
	client.onPaid();

	// The request also takes one of the tenant's concurrent places until it is over.
	const { slots } = principal.quota;
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

	// An upgraded connection would bypass the gates, except for those of a tunnel.
	context.span?.enters('protocol change');
	if (head.webSocket !== undefined && plane.takesWebSockets) return admitWebSocket(context, isExtended);
	const change = refuseProtocolChange(client.method, head.wantsUpgrade);
	if (change) return change;

	// The upstream's `grpc-timeout` is derived from the client's.
	if (head.grpcTimeout === undefined || !context.isCall) return undefined;
	context.span?.enters('grpc timeout');
	return refuseMalformedTimeout(head.grpcTimeout);
}

/** Matches the route early, which is safe because matching is pure. */
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

/** Gives the request its correlation, and a span if it is sampled. */
function identify(context: RequestContext, identified: Identified): void {
	const { client, plane, startedAt } = context;
	context.correlation = plane.correlate!(identified);
	const { span } = context.correlation;
	if (span === undefined) return;
	context.record = plane.requestLog!.beginSpan(client, startedAt, span, context.record);
	context.span = context.record.span;
}

/** Passes a request through the gates from the route to the upstream's queue; otherwise like `admit`. */
export function admitToRoute(context: RequestContext, body: BodyMode): Rejection | undefined {
	const { client, plane } = context;

	// Matching is pure, so it comes before anything is spent.
	context.span?.enters('route');
	const route = plane.routes.match(pathOf(context.target!));
	if (route instanceof Rejection) return route;
	context.route = route;
	context.limits = route.requestLimits;
	context.endpoint = route.upstream.only;
	countIn(context, route.stats);

	// The path and the host that the upstream receives must be unambiguous, too.
	if (route.forwarding !== undefined) {
		context.span?.enters('forwarding');
		const target = route.forwarding.target(context.target!, authorityOf(context));
		if (target instanceof Rejection) return target;
		context.target = target;
	}

	// The certificate's names, the tenant and the token's scopes decide who may use the route. Each result is computed once per
	// connection or token.
	if (route.access !== undefined) {
		context.span?.enters('route access');
		const forbidden = route.access.refuse(client.connection, context.principal!);
		if (forbidden) return forbidden;
	}
	if (route.certificateHeaders !== undefined) {
		context.span?.enters('certificate headers');
		if (client.connection.caller === undefined) return NO_CERTIFICATE;
	}

	// A tenant's rate on this route may be lower than its total rate.
	if (route.limit !== undefined) {
		context.span?.enters('route rate');
		const now = plane.clock.now();
		const overRate = refuseOverRouteRate(plane.limiter, context.principal!, route.limit, now, context.report);
		if (overRate) return overRate;
	}

	// Streaming: a body that announces too much is refused before the upstream hears of it.
	return body.admitLength();
}
