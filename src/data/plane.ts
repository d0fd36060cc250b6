import type { OpeningRule } from '../gates/breaker.ts';
import type { Correlation, Identified } from '../gates/correlation.ts';
import type { Forwarding } from '../gates/forwarding.ts';
import type { Identifiers } from '../gates/headers.ts';
import type { RouteTable } from '../gates/routes.ts';
import type { CertificateHeaders } from '../identity/certificate-headers.ts';
import type { RouteAccess } from '../identity/route-access.ts';
import { BreakerCell } from '../memory/breaker-cell.ts';
import type { BucketCounts } from '../memory/bucket-counts.ts';
import type { TenantLimiter } from '../memory/limiter.ts';
import type { RouteStats } from '../memory/route-stats.ts';
import { UpstreamStats, type WorkerStats } from '../memory/stats.ts';
import { UpstreamLoad } from '../memory/upstream-load.ts';
import type { Authenticator } from '../shared/authenticator.ts';
import { watchCircuit } from '../shared/circuit-watch.ts';
import type { Clock } from '../shared/clock.ts';
import type { Limits } from '../shared/limits.ts';
import type { Logger } from '../shared/log.ts';
import type { UpstreamSeed } from '../shared/messages.ts';
import type { RouteLimit } from '../shared/quota-gates.ts';
import { RateLimitedLog } from '../shared/rate-limited-log.ts';
import type { BufferedBytes } from './body/buffered-bytes.ts';
import type { DeadlineQueue, Deadlines } from './deadlines.ts';
import type { DispatchQueue } from './dispatch-queue.ts';
import { versionAndHost } from './outgoing-head.ts';
import type { ReadQueue } from './paced-reads.ts';
import type { RequestLimits } from './request-limits.ts';
import type { RequestLog } from './request-record.ts';
import type { TurnEnd } from './turn-end.ts';
import type { UpstreamGroup } from './upstream/group.ts';
import { UpstreamPool } from './upstream/pool.ts';
import { ResponseHeads } from './upstream/response-heads.ts';
import type { Transport } from './upstream/transport.ts';

/** All that one worker's exchanges share. Decided once, when the worker starts; only what is said of routes changes, on reload. */
export interface DataPlane {
	readonly clock: Clock;
	readonly limits: Limits;
	readonly authenticator: Authenticator;
	/** Asked only where a rate holds. */
	readonly limiter: TenantLimiter;
	routes: RouteTable<Route>;
	/** Some of the routes have their own limits of bodies: in collected mode the route is looked up before the body is read. */
	routesLimitBodies: boolean;
	/** Of requests without a route, or before it is known. */
	readonly requestLimits: RequestLimits;
	readonly stats: WorkerStats;
	readonly histograms: PlaneHistograms;
	readonly bufferedBytes: BufferedBytes;
	readonly deadlines: PlaneDeadlines;
	readonly turnEnd: TurnEnd;
	/** Connections that are read later. */
	readonly reads: ReadQueue;
	/** Requests on their way to the upstreams. */
	readonly dispatches: DispatchQueue;
	readonly log: Logger;
	/** For lines that anybody can provoke. */
	readonly strangers: RateLimitedLog;
	/** `undefined` when requests are neither logged nor traced, which is the normal case. */
	readonly requestLog: RequestLog | undefined;
	/** Gives requests their identifiers. `undefined`: they are forwarded as they came. */
	readonly correlate: ((head: Identified) => Correlation) | undefined;
	/** Which of them heads are read for. */
	readonly identifiers: Identifiers;
	/** Whether requests may be sampled. */
	readonly traces: boolean;
}

/** Durations over all time, beside the summaries of the last minute. */
export interface PlaneHistograms {
	readonly handshakes: BucketCounts;
	/** What requests have spent in the gates. */
	readonly gates: BucketCounts;
	/** Of round trips to an upstream. */
	readonly durationsOf: (seed: UpstreamSeed) => BucketCounts;
}

/** One queue for each kind of limit. */
export interface PlaneDeadlines {
	/** Monotonic milliseconds, to the resolution of the timer. */
	readonly now: number;
	/** How often the timer has gone off: between two of them all sockets were looked at, however late the loop is. */
	readonly ticks: number;
	readonly handshake: DeadlineQueue;
	/** Ahead of it, where load balancers speak the PROXY protocol; to be asked for once. @param ms how long it may take. */
	readonly proxyHeader: (ms: number) => DeadlineQueue;
	readonly firstRequest: DeadlineQueue;
	/** For a client to take its answer, or some of it. */
	readonly answer: DeadlineQueue;
	/** An HTTP/1.1 connection between two requests. */
	readonly idleClient: DeadlineQueue;
	/** Until an HTTP/2 connection is pinged, and until the ping must be answered. */
	readonly ping: DeadlineQueue;
	readonly pong: DeadlineQueue;
	/** Between two looks at which connections have to end. */
	readonly patrol: DeadlineQueue;
	/** For what is under way on a connection whose certificate is worth nothing any more. */
	readonly ending: DeadlineQueue;
	/** A closing HTTP/1.1 connection whose client is still sending. */
	readonly linger: DeadlineQueue;
	/** For limits that routes and upstreams set themselves: of a body, a round trip, an upstream's connection, a place in its queue. @param ms how long. */
	readonly lasting: (ms: number) => DeadlineQueue;
}

/** Those written as numbers here have no key in the configuration. */
export function createDeadlines(wheel: Deadlines, limits: Limits): PlaneDeadlines {
	const lasting = new Map<number, DeadlineQueue>();
	return {
		get now() {
			return wheel.now;
		},
		get ticks() {
			return wheel.ticks;
		},
		handshake: wheel.queue(limits.tlsHandshakeTimeoutMs),
		proxyHeader: (ms) => wheel.queue(ms),
		firstRequest: wheel.queue(limits.firstRequestTimeoutMs),
		// As long as `[limits]` gives an upstream, whatever a route gives its own.
		answer: wheel.queue(limits.upstreamTimeoutMs),
		idleClient: wheel.queue(60_000),
		ping: wheel.queue(30_000),
		pong: wheel.queue(20_000),
		patrol: wheel.queue(1_000),
		// With the time that finding the connection takes, 5 s in all.
		ending: wheel.queue(4_000),
		linger: wheel.queue(2_000),
		lasting(ms) {
			// Deadlines of one queue last equally long; configurations name few different times.
			const queue = lasting.get(ms) ?? wheel.queue(ms);
			lasting.set(ms, queue);
			return queue;
		},
	};
}

export interface Route {
	readonly prefix: string;
	/** Its upstream takes paths in any letter case for the same path. */
	readonly caseInsensitive?: boolean | undefined;
	readonly cooldownMs: number;
	readonly opening: OpeningRule;
	/** What a tenant may ask of this route, in addition to all else; `undefined`: no limit. */
	readonly limit?: RouteLimit | undefined;
	/** Time and bytes that its requests have. */
	readonly requestLimits: RequestLimits;
	/** Where its requests go. */
	readonly group: UpstreamGroup;
	/** Who may use it; `undefined`: whoever has come this far. */
	readonly access: RouteAccess | undefined;
	/** What the upstream is told of the client's certificate; `undefined`: nothing. */
	readonly certificateHeaders: CertificateHeaders | undefined;
	/** What becomes of a request on its way there, beside what is the same for all routes; `undefined`: nothing. */
	readonly forwarding?: Forwarding | undefined;
	/** Its requests in flight, and their bytes. */
	readonly stats: RouteStats;
}

/** One address of an upstream, as this worker knows it. */
export class Upstream {
	readonly authority: string;
	/** Of its `[[upstreams]]`; `undefined`: a route's URL. */
	readonly group: string | undefined;
	readonly host: string;
	readonly port: number;
	readonly breaker: BreakerCell;
	readonly stats: UpstreamStats;
	/** The same round trips as `stats.roundTrips`. */
	readonly durations: BucketCounts;
	readonly pool: UpstreamPool;
	/** Counted where something is decided by it (`UpstreamGroup.counts`). */
	readonly load: UpstreamLoad;
	/** Connections, idle ones included, in the whole process. */
	readonly connections: UpstreamLoad;
	readonly heads = new ResponseHeads();
	readonly clock: Clock;
	readonly log: Logger;
	#transport: Transport;
	/** Rest of the request line, and the `Host` line: the same for every request to this upstream. */
	readonly versionAndHost: string;

	constructor(
		seed: UpstreamSeed,
		worker: number,
		transport: Transport,
		{ deadlines, log, clock, histograms }: Pick<DataPlane, 'deadlines' | 'log' | 'clock' | 'histograms'>,
	) {
		this.authority = seed.authority;
		this.group = seed.group;
		this.host = seed.host;
		this.port = seed.port;
		this.clock = clock;
		this.log = log;
		this.stats = new UpstreamStats(seed.stats);
		this.durations = histograms.durationsOf(seed);
		this.load = new UpstreamLoad(seed.place.loads, worker, seed.place.at);
		this.connections = new UpstreamLoad(seed.connections, worker);
		const observe = watchCircuit(
			{ upstream: seed.authority, group: seed.group },
			this.stats.transitions,
			this.load,
			new RateLimitedLog(log, clock),
			clock,
		);
		this.breaker = new BreakerCell(seed.breaker, observe, seed.place);
		this.pool = new UpstreamPool(this, deadlines, seed);
		this.versionAndHost = versionAndHost(seed.hostField ?? seed.authority);
		this.#transport = transport;
	}

	/** How it is connected to. */
	get transport(): Transport {
		return this.#transport;
	}

	/** From now on. Connections that were made in another way end when they are idle. */
	connectBy(transport: Transport): void {
		if (transport === this.#transport) return;
		this.#transport = transport;
		this.pool.closeIdle();
	}
}
