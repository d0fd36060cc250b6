import { TenantLimiter } from '@mtls-edge-proxy/gate/memory/limiter.ts';
import type { Authenticator } from '@mtls-edge-proxy/gate/shared/authenticator.ts';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import { type Logger, parseLogFilter } from '@mtls-edge-proxy/gate/shared/log.ts';
import { RateLimitedLog } from '@mtls-edge-proxy/gate/shared/rate-limited-log.ts';
import { correlate } from '../../gates/correlation.ts';
import { RouteTable } from '../../gates/routes.ts';
import { createTracing, UNIDENTIFIED } from '../../gates/trace-context.ts';
import { BucketCounts } from '../../memory/bucket-counts.ts';
import { Budget } from '../../memory/budget.ts';
import { FleetLimiter } from '../../memory/fleet/fleet-limiter.ts';
import { sleep } from '../../memory/sleep.ts';
import { TenantShares } from '../../memory/tenant-shares.ts';
import type { WorkerStats } from '../../memory/worker-stats.ts';
import type { WorkerSeed } from '../../shared/messages.ts';
import { BufferedBytes } from '../body/buffered-bytes.ts';
import { DispatchQueue } from '../loop/dispatch-queue.ts';
import { reportTo } from '../loop/faults.ts';
import { ReadQueue } from '../loop/paced-reads.ts';
import { Rests } from '../loop/rests.ts';
import { TurnEnd } from '../loop/turn-end.ts';
import type { AccessLog } from '../records/access-log.ts';
import { createRandomHex } from '../records/random-hex.ts';
import { RequestLog, type RequestRecord } from '../records/request-record.ts';
import type { SpanQueue } from '../records/span-queue.ts';
import { createRequestLimits } from '../request/request-limits.ts';
import { OpenTunnels } from '../tunnel/open-tunnels.ts';
import type { DataPlane, PlaneHistograms } from './plane.ts';
import type { PlaneDeadlines } from './plane-deadlines.ts';

/** Everything that the exchanges of one worker share. */
export function createPlane(
	seed: WorkerSeed,
	clock: Clock,
	stats: WorkerStats,
	deadlines: PlaneDeadlines,
	authenticator: Authenticator,
	{ log, accessLog, spans }: { log: Logger; accessLog: AccessLog | undefined; spans: SpanQueue | undefined },
): DataPlane {
	const limiter = createLimiter(seed);
	const debugs = parseLogFilter(seed.logFilter).enabled('debug', 'proxy::request');
	const writers = [...(accessLog ? [accessLog.write] : []), ...(debugs ? [debugLines(log)] : [])];
	const { correlate, identifiers } = createCorrelate(seed);
	const rests = new Rests(clock, sleep);
	const turnEnd = new TurnEnd(reportTo(log), rests);
	return {
		clock,
		limits: seed.limits,
		authenticator,
		limiter,
		routes: new RouteTable([]),
		routesLimitBodies: false,
		takesWebSockets: false,
		tunnels: new OpenTunnels(clock, stats, deadlines.patrol),
		requestLimits: createRequestLimits(seed.limits, deadlines),
		stats,
		histograms: createHistograms(seed),
		bufferedBytes: new BufferedBytes(
			new Budget(seed.bufferedBytes, seed.index),
			seed.tenantShares && new TenantShares(seed.tenantShares, seed.index),
		),
		deadlines,
		turnEnd,
		rests,
		reads: new ReadQueue(turnEnd, clock),
		dispatches: new DispatchQueue(clock, turnEnd),
		log,
		strangers: new RateLimitedLog(log, clock),
		requestLog: createRequestLog(clock, writers, spans, correlate),
		correlate,
		identifiers,
		traces: spans !== undefined,
	};
}

function createRequestLog(
	clock: Clock,
	writers: readonly ((record: RequestRecord) => void)[],
	spans: SpanQueue | undefined,
	correlate: DataPlane['correlate'],
): RequestLog | undefined {
	if (writers.length === 0 && spans === undefined) return undefined;
	const sample = () => correlate?.(UNIDENTIFIED).span;
	return new RequestLog(clock, writers, spans && { write: spans.write, sample });
}

function createCorrelate({ log: { requestId }, trace }: WorkerSeed): Pick<DataPlane, 'correlate' | 'identifiers'> {
	const randomHex = createRandomHex();
	if (trace !== undefined) {
		const identifiers = requestId ? 'trace and request' : 'trace';
		return { correlate: createTracing({ ratio: trace.ratio, requestIds: requestId }, randomHex), identifiers };
	}
	if (!requestId) return { correlate: undefined, identifiers: 'none' };
	return { correlate: (head) => correlate(head, randomHex), identifiers: 'trace and request' };
}

function createHistograms({ index, histograms }: WorkerSeed): PlaneHistograms {
	const { upstream, handshake, gate, handshakes, gates } = histograms;
	return {
		handshakes: BucketCounts.view(handshake, handshakes, index),
		gates: BucketCounts.view(gate, gates, index),
		durationsOf: ({ durations }) => BucketCounts.view(upstream, durations, index),
	};
}

/** Writes the line for each response with `RUST_LOG=proxy::request=debug`. */
function debugLines(log: Logger): (record: RequestRecord) => void {
	return ({ method, path, status, tenant, upstream, refusal, duration }) => {
		if (status === 0) return;
		log.debug('proxy::request', 'answered', {
			method,
			path,
			status,
			tenant,
			upstream: upstream?.authority,
			rejection: refusal?.code,
			reason: refusal?.reason,
			duration_ms: Math.round(duration * 1000) / 1000,
		});
	};
}

function createLimiter({ limiter, fleet, index }: WorkerSeed): TenantLimiter {
	return fleet === undefined ? new TenantLimiter(limiter, index) : new FleetLimiter(limiter, index, fleet);
}
