import type { RouteLimit } from '@mtls-edge-proxy/gate/shared/quota-gates.ts';
import type { OpeningRule } from '../../gates/breaker.ts';
import type { Forwarding } from '../../gates/forwarding.ts';
import type { CertificateHeaders } from '../../identity/certificate-headers.ts';
import type { RouteAccess } from '../../identity/route-access.ts';
import type { RouteStats } from '../../memory/route-stats.ts';
import type { DeadlineQueue } from '../loop/deadlines.ts';
import type { RequestLimits } from '../request/request-limits.ts';
import type { Upstream } from '../upstream/upstream.ts';

export interface Route {
	readonly prefix: string;
	/** Its endpoint takes paths in any letter case for the same path. */
	readonly caseInsensitive?: boolean | undefined;
	/** Trailers of its requests and responses pass. */
	readonly trailers: boolean;
	readonly cooldownMs: number;
	readonly opening: OpeningRule;
	/** What a tenant may ask of this route, in addition to all else; `undefined`: no limit. */
	readonly limit?: RouteLimit | undefined;
	/** Time and bytes that its requests have. */
	readonly requestLimits: RequestLimits;
	/** Where its requests go. */
	readonly upstream: Upstream;
	/** Who may use it; `undefined`: every authenticated client. */
	readonly access: RouteAccess | undefined;
	/** What the endpoint is told of the client's certificate; `undefined`: nothing. */
	readonly certificateHeaders: CertificateHeaders | undefined;
	/** What becomes of a request on its way there, beside what is the same for all routes; `undefined`: nothing. */
	readonly forwarding?: Forwarding | undefined;
	/** `undefined`: it takes no WebSockets. */
	readonly webSocket?: WebSocketRoute | undefined;
	/** Its requests in flight, and their bytes. */
	readonly stats: RouteStats;
}

/** What bounds the WebSockets of a route. */
export interface WebSocketRoute {
	/** They end when their token expires. */
	readonly endsAtExpiry: boolean;
	/** Messages that a client may send; `undefined`: any number. */
	readonly messagesPerSec: number | undefined;
	/** How long one may stand without a byte. */
	readonly idle: DeadlineQueue;
	/** The same, once one side has ended: it does not answer pings any more, and the other one has only what is left to send. */
	readonly halfEnded: DeadlineQueue;
	/** Between two looks at messages that wait for their time. */
	readonly looks: DeadlineQueue;
}
