import type { RouteLimit } from '@mtls-edge-proxy/gate/shared/quota-gates.ts';
import type { Forwarding } from '../../gates/forwarding.ts';
import type { CertificateHeaders } from '../../identity/certificate-headers.ts';
import type { RouteAccess } from '../../identity/route-access.ts';
import type { RouteStats } from '../../memory/route-stats.ts';
import type { RouteSeed, WebSocketSeed } from '../../shared/messages.ts';
import type { DeadlineQueue } from '../loop/deadlines.ts';
import type { RequestLimits } from '../request/request-limits.ts';
import type { Upstream } from '../upstream/upstream.ts';

export interface Route extends Pick<RouteSeed, 'prefix' | 'caseInsensitive' | 'trailers' | 'cooldownMs' | 'opening'> {
	/** Rate of each tenant on this route, in addition to the tenant's own rate; `undefined`: no limit. */
	readonly limit?: RouteLimit | undefined;
	/** Limits of time and bytes for its requests. */
	readonly requestLimits: RequestLimits;
	readonly upstream: Upstream;
	/** Who may use it; `undefined`: every authenticated client. */
	readonly access: RouteAccess | undefined;
	/** Header fields about the client's certificate for the upstream; `undefined`: none. */
	readonly certificateHeaders: CertificateHeaders | undefined;
	/** Changes to a request for the upstream, in addition to those that all requests get; `undefined`: none. */
	readonly forwarding?: Forwarding | undefined;
	/** `undefined`: it takes no WebSockets. */
	readonly webSocket?: WebSocketRoute | undefined;
	/** Its requests in flight, and their bytes. */
	readonly stats: RouteStats;
}

/** Limits of the WebSockets of a route. */
export interface WebSocketRoute extends Omit<WebSocketSeed, 'idleMs'> {
	/** How long a tunnel may be idle. */
	readonly idle: DeadlineQueue;
	/** The same after one side has ended: that side no longer answers pings, and the other one only sends the rest. */
	readonly halfEnded: DeadlineQueue;
	/** Between two checks of messages that are delayed by their limit. */
	readonly looks: DeadlineQueue;
}
