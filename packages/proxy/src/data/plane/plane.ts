import type { TenantLimiter } from '@mtls-edge-proxy/gate/memory/limiter.ts';
import type { Authenticator } from '@mtls-edge-proxy/gate/shared/authenticator.ts';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { RateLimitedLog } from '@mtls-edge-proxy/gate/shared/rate-limited-log.ts';
import type { Correlation, Identified } from '../../gates/correlation.ts';
import type { Identifiers } from '../../gates/field-kinds.ts';
import type { RouteTable } from '../../gates/routes.ts';
import type { BucketCounts } from '../../memory/bucket-counts.ts';
import type { WorkerStats } from '../../memory/worker-stats.ts';
import type { Limits } from '../../shared/limits.ts';
import type { EndpointSeed } from '../../shared/messages.ts';
import type { BufferedBytes } from '../body/buffered-bytes.ts';
import type { DispatchQueue } from '../loop/dispatch-queue.ts';
import type { ReadQueue } from '../loop/paced-reads.ts';
import type { Rests } from '../loop/rests.ts';
import type { TurnEnd } from '../loop/turn-end.ts';
import type { RequestLog } from '../records/request-record.ts';
import type { RequestLimits } from '../request/request-limits.ts';
import type { Route } from '../routes/route.ts';
import type { OpenTunnels } from '../tunnel/open-tunnels.ts';
import type { PlaneDeadlines } from './plane-deadlines.ts';

/**
 * Everything that the exchanges of one worker share. It is fixed when the worker starts; only the members about routes change, on
 * reload.
 */
export interface DataPlane {
	readonly clock: Clock;
	readonly limits: Limits;
	readonly authenticator: Authenticator;
	/** Used only if a rate applies. */
	readonly limiter: TenantLimiter;
	routes: RouteTable<Route>;
	/** Some routes have their own limits of bodies: in collected mode the route is then looked up before the body is read. */
	routesLimitBodies: boolean;
	/** Some routes take WebSockets. */
	takesWebSockets: boolean;
	readonly tunnels: OpenTunnels;
	/** Limits of requests without a route, or before theirs is known. */
	readonly requestLimits: RequestLimits;
	readonly stats: WorkerStats;
	readonly histograms: PlaneHistograms;
	readonly bufferedBytes: BufferedBytes;
	readonly deadlines: PlaneDeadlines;
	readonly turnEnd: TurnEnd;
	/** Counts the young requests in flight in this worker. */
	readonly rests: Rests;
	/** Connections whose reading is delayed. */
	readonly reads: ReadQueue;
	/** Requests on their way to the upstreams. */
	readonly dispatches: DispatchQueue;
	readonly log: Logger;
	/** For log lines that any client can provoke. */
	readonly strangers: RateLimitedLog;
	/** `undefined` when requests are neither logged nor traced, which is the normal case. */
	readonly requestLog: RequestLog | undefined;
	/** Gives requests their identifiers. `undefined`: the client's are forwarded unchanged. */
	readonly correlate: ((head: Identified) => Correlation) | undefined;
	/** Which identifiers are read apart from a head's lines. */
	readonly identifiers: Identifiers;
	/** Whether requests may be sampled. */
	readonly traces: boolean;
}

/** Durations over all time. The summaries of the last minute are in `stats`. */
export interface PlaneHistograms {
	readonly handshakes: BucketCounts;
	/** Time of requests in the gates. */
	readonly gates: BucketCounts;
	/** Round trips to an upstream. */
	readonly durationsOf: (seed: EndpointSeed) => BucketCounts;
}
