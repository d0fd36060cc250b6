import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import { RateLimitedLog } from '@mtls-edge-proxy/gate/shared/rate-limited-log.ts';
import { BreakerCell } from '../../memory/breaker-cell.ts';
import type { BucketCounts } from '../../memory/bucket-counts.ts';
import { UpstreamLoad } from '../../memory/upstream-load.ts';
import { UpstreamStats } from '../../memory/upstream-stats.ts';
import { watchCircuit } from '../../shared/circuit-watch.ts';
import type { EndpointSeed } from '../../shared/messages.ts';
import { versionAndHost } from '../client/outgoing-head.ts';
import type { DeadlineQueue } from '../loop/deadlines.ts';
import type { ReadQueue } from '../loop/paced-reads.ts';
import { PeerShare } from '../loop/read-share.ts';
import { FlushQueue } from '../loop/turn-end.ts';
import { ResponseHeads } from '../memo/response-heads.ts';
import type { DataPlane } from '../plane/plane.ts';
import type { PlaneDeadlines } from '../plane/plane-deadlines.ts';
import { AutoPool } from './auto-pool.ts';
import type { ConnectionPool } from './connection-pool.ts';
import { Http2Pool } from './http2/pool.ts';
import { UpstreamPool } from './pool.ts';
import type { Transport } from './transport.ts';

/** One address of an upstream, as this worker sees it. */
export class Endpoint {
	readonly authority: string;
	/** Name of its `[[upstreams]]`; `undefined`: a route's URL. */
	readonly group: string | undefined;
	readonly host: string;
	readonly port: number;
	readonly breaker: BreakerCell;
	readonly stats: UpstreamStats;
	/** The same round trips as `stats.roundTrips`. */
	readonly durations: BucketCounts;
	readonly pool: ConnectionPool;
	/** Counted only if a decision depends on it (`Upstream.counts`). */
	readonly load: UpstreamLoad;
	/** Connections, idle ones included, in the whole process. */
	readonly connections: UpstreamLoad;
	readonly heads = new ResponseHeads();
	/** Longest trailers of a response, bytes. */
	readonly maxTrailers: number;
	/** What its connections may use of this worker, and those that are read later. */
	readonly share = new PeerShare();
	readonly reads: ReadQueue;
	/** Output of its connections, to write at the end of the loop's turn. */
	readonly writing: FlushQueue;
	readonly deadlines: PlaneDeadlines;
	/** How long its connections may be idle, ms; 0: they are not kept. */
	idleMs!: number;
	idleDeadlines!: DeadlineQueue;
	/** For connecting; `undefined`: only the request's own time limits apply. */
	connectDeadlines: DeadlineQueue | undefined;
	readonly clock: Clock;
	readonly log: Logger;
	readonly #lines: RateLimitedLog;
	#transport: Transport;
	/** Rest of the request line, and the `Host` line: the same for every request to this endpoint. */
	readonly versionAndHost: string;

	constructor(
		seed: EndpointSeed,
		worker: number,
		transport: Transport,
		plane: Pick<DataPlane, 'deadlines' | 'turnEnd' | 'reads' | 'log' | 'clock' | 'histograms' | 'limits'>,
	) {
		const { log, clock, histograms, limits, reads, deadlines, turnEnd } = plane;
		this.authority = seed.authority;
		this.group = seed.group;
		this.host = seed.host;
		this.port = seed.port;
		this.clock = clock;
		this.maxTrailers = limits.maxHeaderBytes;
		this.log = log;
		this.reads = reads;
		this.writing = new FlushQueue(turnEnd);
		this.deadlines = deadlines;
		this.#lines = new RateLimitedLog(log, clock);
		this.stats = new UpstreamStats(seed.stats);
		this.durations = histograms.durationsOf(seed);
		this.load = new UpstreamLoad(seed.place.loads, worker, seed.place.at);
		this.connections = new UpstreamLoad(seed.connections, worker);
		const observe = watchCircuit(
			{ upstream: seed.authority, group: seed.group },
			this.stats.transitions,
			this.load,
			this.#lines,
			clock,
		);
		this.breaker = new BreakerCell(seed.breaker, observe, seed.place);
		this.pool = poolOf(this, seed);
		this.versionAndHost = versionAndHost(seed.hostField ?? seed.authority);
		this.#transport = transport;
		this.use(transport, seed);
	}

	/** Logs that a connection has used up the address's share of the worker. */
	reportDelay(): void {
		this.#lines.write('warn', 'proxy::exchange', DELAYED, 'share', () => ({ upstream: this.authority }));
	}

	/** Makes its connections. */
	get transport(): Transport {
		return this.#transport;
	}

	/** For connections that are made, or become idle, from now on. Connections of another transport end when they are idle. */
	use(
		transport: Transport,
		{ idleTimeoutMs, connectTimeoutMs }: Pick<EndpointSeed, 'idleTimeoutMs' | 'connectTimeoutMs'>,
	): void {
		const { lasting } = this.deadlines;
		this.idleMs = idleTimeoutMs;
		this.idleDeadlines = lasting(idleTimeoutMs);
		this.connectDeadlines = connectTimeoutMs === undefined ? undefined : lasting(connectTimeoutMs);
		if (transport === this.#transport) return;
		this.#transport = transport;
		this.pool.closeIdle();
	}
}

const DELAYED = 'reading from the upstream is delayed: it sends more than its responses need';

function poolOf(endpoint: Endpoint, { protocol }: EndpointSeed): ConnectionPool {
	if (protocol === 'auto') return new AutoPool(endpoint);
	return protocol === 'h2' ? new Http2Pool(endpoint) : new UpstreamPool(endpoint);
}
