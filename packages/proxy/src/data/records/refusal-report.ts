import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import * as rejection from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { LogFields } from '@mtls-edge-proxy/gate/shared/log.ts';
import { limitOf } from '@mtls-edge-proxy/gate/shared/quota-gates.ts';
import { withoutQuery } from '../../gates/target.ts';
import type { ForbiddenReason } from '../../memory/worker-stats.ts';
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

export function reportRefusal(told: Told, refusal: Rejection, request: Refused): void {
	const { stats } = told;
	const { code, status, body, reason = body } = refusal;
	const { route, tenant } = request;
	const token = TOKEN[code];
	const access = ACCESS[code];
	if (token !== undefined) {
		stats.count('auth', token);
		write(told, 'proxy::auth', 'request without a valid token', request, { reason });
	} else if (access !== undefined) {
		stats.count('forbidden', access);
		write(told, 'proxy::auth', 'request may not use its route', request, { reason, route: route?.prefix, tenant });
	} else if (refusal.is(rejection.RATE_LIMITED)) {
		stats.count('rateLimited', limitOf(refusal));
		write(told, 'proxy::request', 'request refused', request, { status, reason, route: route?.prefix, tenant });
	} else if (UNSERVED.some((kind) => refusal.is(kind))) {
		write(told, 'proxy::exchange', 'request not served', request, { status, reason, ...upstreamOf(request) });
		// An open breaker and an internal error have their own log lines.
	} else if (!refusal.is(rejection.UPSTREAM_UNAVAILABLE) && !refusal.is(rejection.INTERNAL_ERROR)) {
		write(told, 'proxy::request', 'request refused', request, { status, reason, ...upstreamOf(request) });
	}
}

export function reportBrokenOff(told: Told, { body, reason = body }: Rejection, request: Refused): void {
	write(told, 'proxy::exchange', 'response broken off', request, { reason, ...upstreamOf(request) });
}

/** The label of a refusal for lack of a valid token, by its code. */
const TOKEN: Readonly<Record<string, 'missing' | 'invalid'>> = {
	[rejection.TOKEN_MISSING.code]: 'missing',
	[rejection.TOKEN_INVALID.code]: 'invalid',
};

/** The label of a refusal by the rules of a route, by its code. */
const ACCESS: Readonly<Record<string, ForbiddenReason>> = {
	[rejection.CERTIFICATE_FORBIDDEN.code]: 'certificate',
	[rejection.TENANT_FORBIDDEN.code]: 'tenant',
	[rejection.INSUFFICIENT_SCOPE.code]: 'scope',
};

/** Failures after the gates. */
const UNSERVED = [rejection.BAD_GATEWAY, rejection.UPSTREAM_TIMEOUT, rejection.OVERLOADED];

function upstreamOf({ route, endpoint }: Refused) {
	return { upstream: endpoint?.authority, group: route?.upstream.name };
}

function write(
	{ strangers }: Told,
	target: 'proxy::auth' | 'proxy::exchange' | 'proxy::request',
	message: string,
	{ client }: Refused,
	facts: LogFields & { readonly reason: string },
): void {
	// Reasons are a fixed set of texts with numbers in them.
	const kind = facts.reason.replace(/\d[\d,.]*/g, 'N');
	strangers.write('info', target, message, kind, () => ({
		...facts,
		client: client.connection.ip,
		path: withoutQuery(client.target),
	}));
}
