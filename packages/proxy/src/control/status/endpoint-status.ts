import { CLOSED } from '../../memory/breaker-cell.ts';
import { CIRCUIT_NAMES, TRANSITIONS } from '../../memory/transition-counts.ts';
import {
	readEndpoint,
	UPSTREAM_CHOICES,
	type UpstreamChoice,
	type UpstreamStats,
} from '../../memory/upstream-stats.ts';
import { beginning, lastTransition } from '../facts/circuit.ts';
import { sum, total } from '../metrics/adding-up.ts';
import type { Endpoint } from '../routing/table.ts';
import { grpcCounts } from './grpc.ts';
import type { UpstreamStatus } from './schema.ts';
import { iso, isoOf } from './times.ts';

/** What `/status.json` says of one endpoint: health, breaker, and the counts of all workers. */

/**
 * @param regions one for each worker.
 * @param callsLately gRPC calls of the last ten minutes, by status code and the total so far.
 */
export function endpointStatus(
	endpoint: Endpoint,
	regions: readonly UpstreamStats[],
	callsLately: (code: number, total: number) => number,
) {
	return {
		...statusOf(endpoint),
		breaker: breakerOf(endpoint, regions),
		...countersOf(regions, endpoint, callsLately),
	};
}

function statusOf({
	address,
	group,
	health,
	protocol = 'http/1.1',
	tls,
	alive,
	aliveSince,
	lastProbe: last,
}: Endpoint) {
	const verdict = alive === undefined ? 'not probed yet' : alive ? 'healthy' : 'unhealthy';
	return {
		upstream: address.authority,
		group: group ?? null,
		protocol,
		tls: tls === undefined ? 'none' : tls.rejectUnauthorized ? 'verified' : 'not verified',
		health: health === undefined ? 'not probed' : verdict,
		health_since: health === undefined ? null : isoOf(aliveSince),
		last_probe:
			health === undefined || last === undefined
				? null
				: { at: iso(last.atSeconds * 1000), passed: last.passed, found: last.found, remedy: last.remedy ?? null },
	} satisfies Partial<UpstreamStatus>;
}

/** Indexes of the transitions to open. */
const OPENINGS = [...TRANSITIONS.keys()].filter((i) => TRANSITIONS[i]!.to === 'open');

function breakerOf(endpoint: Endpoint, regions: readonly UpstreamStats[]): UpstreamStatus['breaker'] {
	const { circuit } = endpoint.breaker;
	const opened = total([endpoint.counters, ...regions], ({ transitions }) =>
		total(OPENINGS, (i) => transitions.cells[i]!),
	);
	// A circuit that has never opened needs no reason, and decoding the words takes time.
	const last = circuit !== CLOSED || opened > 0 ? lastTransition(endpoint) : undefined;
	const transition = last ?? (circuit === CLOSED ? undefined : beginning(endpoint));
	return {
		state: CIRCUIT_NAMES[circuit]!,
		since: isoOf(transition?.wallSeconds),
		reason: transition?.reason ?? null,
		cause: transition?.cause || null,
		opened_total: opened,
	};
}

function countersOf(
	regions: readonly UpstreamStats[],
	{ protocol = 'http/1.1' }: Endpoint,
	callsLately: (code: number, total: number) => number,
) {
	const { responses, active, idle, streams, grpc } = readEndpoint(regions);
	let errors = 0;
	for (const [status, count] of responses) if (status >= 500) errors += count;
	return {
		requests_total: sum(responses.values()),
		errors_total: errors,
		connections: { active, idle },
		chosen: protocol === 'auto' ? choicesOf(regions) : null,
		streams: protocol === 'http/1.1' ? null : streams,
		grpc: grpcCounts(grpc, callsLately),
	};
}

/** Of the workers that have a connection. */
function choicesOf(regions: readonly UpstreamStats[]): UpstreamChoice[] {
	const inUse = regions.map((region) => region.read()).filter(({ active, idle }) => active + idle > 0);
	return UPSTREAM_CHOICES.filter((protocol) => inUse.some(({ choice }) => choice === protocol));
}
