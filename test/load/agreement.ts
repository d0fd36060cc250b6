/** Checks a run against the proxy's metrics: at rest every gauge is zero, and the counters match the outcomes that clients recorded. */
import { type Scrape, sampleSum } from '../fixtures/prometheus.ts';
import type { Conversations } from './conversations.ts';
import type { Ledger } from './ledger.ts';

const ZERO_AT_REST = [
	'proxy_connections',
	'proxy_requests_in_flight',
	'proxy_tunnels_open',
	'proxy_upstream_connections',
	'proxy_upstream_streams',
	'proxy_body_memory_bytes',
];

/** Reported only for upstreams with limits. */
const QUEUE_LENGTH = 'proxy_upstream_queue_length';

/** @returns gauges that are not zero, as text. */
export function notAtRest(scrape: Scrape): string[] {
	const names = scrape.has(QUEUE_LENGTH) ? [...ZERO_AT_REST, QUEUE_LENGTH] : ZERO_AT_REST;
	return names.flatMap((name) => {
		const value = sampleSum(scrape, name);
		return value === 0 ? [] : [`${name} is ${value}`];
	});
}

/** @returns counters that disagree with the clients of `ledger`, as text. A client that left may or may not have been answered. */
export function disagreements(scrape: Scrape, ledger: Ledger, talks?: Conversations): string[] {
	const told: string[] = [];
	const compare = (what: string, counted: number, least: number, most: number) => {
		if (counted < least || counted > most)
			told.push(`the proxy counts ${counted} ${what}, clients ${least} to ${most}`);
	};
	const lost = ledger.lostWithThread;
	const requests = (scrape.get('proxy_requests_total')?.samples ?? []).filter(
		({ labels }) => !talks?.authorities.includes(labels.upstream!),
	);
	for (const status of new Set([...ledger.statuses.keys(), ...requests.map(({ labels }) => Number(labels.status))])) {
		const counted = requests
			.filter(({ labels }) => Number(labels.status) === status)
			.reduce((sum, { value }) => sum + value, 0);
		const seen = ledger.statuses.get(status) ?? 0;
		compare(`answers of status ${status}`, counted, seen - lost, seen + ledger.left + lost);
	}
	compare(
		'calls that have ended well',
		sampleSum(scrape, 'proxy_grpc_responses_total', { code: '0' }),
		ledger.calls,
		Infinity,
	);
	if (talks !== undefined) {
		// A client sees the end of its WebSocket before the proxy does. A thread that is killed in between has not counted it.
		const uncounted = lost + ledger.kills * talks.talkers;
		compare(
			'WebSockets that have ended',
			sampleSum(scrape, 'proxy_tunnel_ends_total'),
			talks.tunnels - uncounted,
			talks.tunnels + talks.unanswered,
		);
	}
	return told;
}
