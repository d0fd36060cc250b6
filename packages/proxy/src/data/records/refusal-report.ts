import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import * as rejection from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { limitOf } from '@mtls-edge-proxy/gate/shared/quota-gates.ts';
import { withoutQuery } from '../../gates/target.ts';
import type { ForbiddenReason } from '../../memory/stats.ts';
import type { ClientRequest } from '../client/client-request.ts';
import type { DataPlane } from '../plane/plane.ts';
import type { Route } from '../routes/route.ts';
import type { Endpoint } from '../upstream/endpoint.ts';

/** Reports refused and broken-off requests to operators: counters by reason, and log lines. */

/** A request that was refused or broken off, with the facts known so far. */
export interface Refused {
	readonly client: Pick<ClientRequest, 'connection' | 'target'>;
	readonly route?: Route | undefined;
	readonly endpoint?: Endpoint | undefined;
	readonly tenant?: string | undefined;
}

type Told = Pick<DataPlane, 'stats' | 'strangers'>;

export function reportRefusal(told: Told, answer: Rejection, request: Refused): void {
	if (answer.is(rejection.TOKEN_MISSING)) unauthorized(told, answer, request, 'missing');
	else if (answer.is(rejection.TOKEN_INVALID)) unauthorized(told, answer, request, 'invalid');
	else if (answer.is(rejection.CERTIFICATE_FORBIDDEN)) forbidden(told, answer, request, 'certificate');
	else if (answer.is(rejection.TENANT_FORBIDDEN)) forbidden(told, answer, request, 'tenant');
	else if (answer.is(rejection.INSUFFICIENT_SCOPE)) forbidden(told, answer, request, 'scope');
	else if (answer.is(rejection.RATE_LIMITED)) limited(told, answer, request);
	else if (UNSERVED.some((kind) => answer.is(kind)))
		unserved(told, 'proxy::exchange', 'request not served', answer, request);
	// An open breaker and an internal error have their own log lines.
	else if (!answer.is(rejection.UPSTREAM_UNAVAILABLE) && !answer.is(rejection.INTERNAL_ERROR))
		unserved(told, 'proxy::request', 'request refused', answer, request);
}

export function reportBrokenOff(told: Told, why: Rejection, request: Refused): void {
	unserved(told, 'proxy::exchange', 'answer broken off', why, request, undefined);
}

/** A request without a valid token: what was wrong with it. */
function unauthorized(
	{ stats, strangers }: Told,
	{ reason = '' }: Rejection,
	{ client }: Refused,
	metric: 'missing' | 'invalid',
): void {
	stats.count('auth', metric);
	strangers.write('info', 'proxy::auth', 'request without a valid token', kindOf(reason), () => ({
		reason,
		client: client.connection.ip,
		path: withoutQuery(client.target),
	}));
}

/** A request that may not use its route, and why. */
function forbidden(
	{ stats, strangers }: Told,
	{ reason = '' }: Rejection,
	{ client, route, tenant }: Refused,
	metric: ForbiddenReason,
): void {
	stats.count('forbidden', metric);
	strangers.write('info', 'proxy::auth', 'request may not use its route', kindOf(reason), () => ({
		reason,
		route: route?.prefix,
		tenant,
		client: client.connection.ip,
		path: withoutQuery(client.target),
	}));
}

/** A request over a limit: which limit, and whose. */
function limited({ stats, strangers }: Told, answer: Rejection, { client, route, tenant }: Refused): void {
	stats.count('rateLimited', limitOf(answer));
	const { status, body, reason = body } = answer;
	strangers.write('info', 'proxy::request', 'request refused', reason, () => ({
		status,
		reason,
		route: route?.prefix,
		tenant,
		client: client.connection.ip,
		path: withoutQuery(client.target),
	}));
}

/** A malformed request, or a failure after the gates: for operators without an access log. */
function unserved(
	{ strangers }: Told,
	target: 'proxy::exchange' | 'proxy::request',
	message: string,
	{ body, reason = body, ...answer }: Rejection,
	{ client, route, endpoint }: Refused,
	status: number | undefined = answer.status,
): void {
	strangers.write('info', target, message, kindOf(reason), () => ({
		status,
		reason,
		upstream: endpoint?.authority,
		group: route?.upstream.name,
		client: client.connection.ip,
		path: withoutQuery(client.target),
	}));
}

/** Failures after the gates. */
const UNSERVED = [rejection.BAD_GATEWAY, rejection.UPSTREAM_TIMEOUT, rejection.OVERLOADED];

/** Reasons are a fixed set of texts with numbers in them. */
function kindOf(reason: string): string {
	return reason.replace(/\d[\d,.]*/g, 'N');
}
