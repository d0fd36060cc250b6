/**
 * A proxy as it might be, for screenshots and for what is looked at in a browser without starting the real one: the numbers are made
 * up, and everything from the snapshot on is real.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Sampled } from '../../../packages/proxy/src/control/status/history.ts';
import type { ShareBounds } from '../../../packages/proxy/src/control/status/shares.ts';
import type { Found } from '../../../packages/proxy/src/control/status/snapshot.ts';
import { StatusPages } from '../../../packages/proxy/src/control/status/status-pages.ts';
import { grpcStatuses, keyOf, type UpstreamStatus } from '../../../packages/proxy/src/control/status/upstreams.ts';
import type { Timers } from '../../../packages/proxy/src/control/timers.ts';
import { GRPC_STATUS_NAMES } from '../../../packages/proxy/src/gates/grpc-status.ts';
import { HISTOGRAM_BYTES, Histogram } from '../../../packages/proxy/src/memory/histogram.ts';
import { readCounters, type WorkerCounts } from '../../../packages/proxy/src/memory/worker-stats.ts';

/** A Tuesday. */
const NOW_MS = Date.UTC(2026, 8, 15, 14, 32, 7);
const UP_MS = (3 * 24 + 4) * 3_600_000;
const DAY_S = 86_400;

export interface ExampleOptions {
	/** Whether anything is wrong. Default: yes. */
	readonly well?: boolean;
	/** Whether the store of the shared limits is away. Default: no. */
	readonly storeAway?: boolean;
	/** Upstreams in addition to the six with a story. */
	readonly others?: number;
	readonly tenants?: boolean;
	/** Before the names of all that others can name. */
	readonly hostile?: string;
}

const ago = (seconds: number) => new Date(NOW_MS - seconds * 1000).toISOString();

type Rest = Partial<UpstreamStatus>;

/** A healthy one, after this number of requests. */
function upstream(name: string, routes: string[], requests: number, rest: Rest = {}): UpstreamStatus {
	return {
		upstream: name,
		group: null,
		balance: null,
		weight: null,
		protocol: 'http/1.1',
		chosen: null,
		tls: 'none',
		routes,
		breaker: { state: 'closed', since: null, reason: null, cause: null, opened_total: 0 },
		health: 'healthy',
		health_since: ago(UP_MS / 1000 - 3),
		last_probe: { at: ago(2), passed: true, found: 'GET /health answered 200', remedy: null },
		requests_total: requests,
		errors_total: Math.floor(requests / 80_000),
		requests_per_second: null,
		p50_seconds: null,
		p99_seconds: null,
		error_share: null,
		connections: { active: Math.ceil(requests / 9_000_000), idle: Math.ceil(requests / 3_000_000) },
		streams: null,
		grpc: [],
		...rest,
	};
}

const CAUSE = 'connection refused';
const REMEDY = 'start it, or correct the port: nothing listens there';

function upstreamsOf({ well = false, others = 0, hostile = '' }: ExampleOptions): UpstreamStatus[] {
	const down: Rest = well
		? {}
		: {
				breaker: {
					state: 'open',
					since: ago(198),
					reason: 'health',
					cause: `health: ${CAUSE}${hostile}`,
					opened_total: 1,
				},
				health: 'unhealthy',
				health_since: ago(198),
				last_probe: { at: ago(2), passed: false, found: CAUSE, remedy: REMEDY },
				connections: { active: 0, idle: 0 },
			};
	const trying: Rest = {
		breaker: well
			? { state: 'closed', since: ago(86_000), reason: 'probe', cause: 'the probe succeeded', opened_total: 2 }
			: { state: 'half-open', since: ago(12), reason: 'probe', cause: 'the cooldown is over', opened_total: 4 },
	};
	const calls = (code: number, total: number, lately: number) => {
		return { code, status: GRPC_STATUS_NAMES[code]!, total, last_ten_minutes: lately };
	};
	const rpc: Rest = {
		protocol: 'h2',
		tls: 'verified',
		connections: { active: 2, idle: 0 },
		streams: 14,
		grpc: [calls(0, 21_868_702, 131_004), calls(5, 1_204, 31), calls(14, 206, well ? 0 : 87), calls(4, 3, 0)],
	};
	const search = (address: string, rest: Rest = {}) =>
		upstream(`${address}:9200`, ['/api/search'], 4_560_227, {
			group: 'search',
			balance: 'least-requests',
			weight: 1,
			...rest,
		});
	const all = [
		upstream('orders.internal:8080', ['/api/orders', '/api/carts'], 48_211_034),
		upstream('accounts.internal:8080', ['/api/accounts'], 21_870_112, rpc),
		search('10.4.0.17', trying),
		search('10.4.0.21'),
		upstream('reports.internal:8080', ['/api/reports'], 318_902, down),
		upstream('assets.internal:80', ['/assets'], 33_004_871, {
			health: 'not probed',
			health_since: null,
			last_probe: null,
		}),
		...Array.from({ length: others }, (_, i) =>
			upstream(`shard-${i + 1}.internal:7000`, [`/shards/${i + 1}`], 100_000 + i),
		),
	];
	return all.map((one) => ({ ...one, routes: one.routes.map((prefix) => `${prefix}${hostile}`) }));
}

/** A snapshot but for what the history adds. */
export function exampleFound(options: ExampleOptions = {}): Found {
	const { well = false, storeAway = false, tenants = false, hostile = '' } = options;
	const counts = (...all: readonly (readonly [reason: string, total: number, lately: number, status?: number])[]) =>
		all.map(([reason, total, last_ten_minutes, status]) => {
			return { reason, ...(status !== undefined && { status }), total, last_ten_minutes };
		});
	const certificate = (kind: Found['certificates'][number]['kind'], subject: string, serial: string, days: number) => {
		return { kind, subject, serial, not_after: ago(-days * DAY_S), days_left: Math.floor(days) };
	};
	const upstreams = upstreamsOf(options);
	return {
		schema: 1,
		at: ago(0),
		process: {
			host: 'edge-1',
			version: '0.1.0',
			body_mode: 'collected',
			node: '26.10.0',
			started_at: ago(UP_MS / 1000),
			uptime_seconds: UP_MS / 1000,
			not_ready: null,
			resident_bytes: 412 * 2 ** 20,
			heap_used_bytes: 38.4 * 2 ** 20,
		},
		traffic: {
			requests_total: upstreams.reduce((sum, one) => sum + one.requests_total, 2_848),
			requests_per_second: null,
			p50_seconds: null,
			p99_seconds: null,
			error_share: null,
			in_flight: 62,
		},
		shares: [],
		upstreams,
		dns: [
			{
				group: 'search',
				name: `search.internal:9200${hostile}`,
				routes: ['/api/search'],
				addresses: 2,
				age_seconds: 12,
				failing_since: null,
				failures: 0,
				cause: null,
			},
			...(well
				? []
				: [
						{
							group: 'billing',
							name: 'billing.internal:8080',
							routes: ['/api/billing'],
							addresses: 0,
							age_seconds: null,
							failing_since: ago(95),
							failures: 9,
							cause: `the name has no addresses${hostile}`,
						},
					]),
		],
		refusals: counts(
			['token invalid', 1_718, 37, 401],
			["over the tenant's rate", 540, 12, 429],
			['no route', 288, 2, 404],
			['token missing', 214, 1, 401],
			['forbidden by scope', 94, 0, 403],
			["over the tenant's concurrency", 71, 0, 429],
			['malformed request or path', 17, 0, 400],
			['forbidden by certificate', 12, 0, 403],
		),
		handshakes: {
			completed_total: 1_204_882,
			failed_total: 8_711,
			p50_seconds: 0.00231,
			p99_seconds: 0.00874,
			failures: counts(
				['nothing sent', 8_640, 20],
				['no certificate', 43, 1],
				['not TLS', 19, 0],
				['unknown CA', 7, 0],
				['expired', 2, 0],
			),
		},
		connections: {
			handshaking: 3,
			http1: 618,
			h2: 1_652,
			websockets: 12,
			limit: 32_000,
			refused: [],
			ended: counts(['expired', 4, 0], ['revoked', 1, 0]),
			websocket_ends: counts(['client', 4_102, 61], ['token_expired', 11, 2]),
			http2_errors: counts(['reset-flood', 2, 0]),
		},
		grpc: grpcStatuses(upstreams),
		certificates: [
			certificate('server', `CN=edge.example.com${hostile}`, '3f', well ? 61 : 9.4),
			certificate('server_chain', 'CN=Example Issuing CA 2, O=Example', '4e', 1102),
			certificate('client_ca', 'CN=Example Clients CA, O=Example', '5d', 743),
			certificate('crl', 'CN=Example Clients CA, O=Example', '', 5.2),
		],
		issuers: [
			{
				issuer: `https://login.example.com${hostile}`,
				source: 'network',
				algorithms: ['RS256', 'ES256'],
				keys: [`2026-09${hostile}`, '2026-08'],
				age_seconds: 134,
				fetches: { success_total: 912, failure_total: 3 },
			},
			{
				issuer: 'https://batch.example.com',
				source: 'file',
				algorithms: ['RS256'],
				keys: [null],
				age_seconds: null,
				fetches: null,
			},
		],
		workers: {
			configured: 4,
			listening: 4,
			each: [0.41, 0.38, 0.44, 0.4].map((utilization, worker) => ({
				worker,
				connections: 512 + 37 * worker,
				in_flight: 11 + 3 * worker,
				utilization,
				delay_p99_seconds: 0.0021 + worker * 0.0003,
			})),
		},
		memory: [
			{
				name: 'request and response bodies',
				unit: 'bytes',
				used: 96 * 2 ** 20,
				limit: 2 ** 30,
				key: 'limits.max_buffered_bytes',
			},
			{
				name: 'client connections',
				unit: 'connections',
				used: 2_273,
				limit: 32_000,
				key: 'limits.max_connections',
			},
		],
		reloads: {
			generation: 7,
			success_total: 5,
			failure_total: well ? 0 : 1,
			last: [
				{ part: 'routes', outcome: 'success', at: ago(4_210), asked: 'SIGHUP', cause: null, generation: 7 },
				{ part: 'tls', outcome: 'success', at: ago(4_211), asked: 'SIGHUP', cause: null, generation: 7 },
				...(well
					? []
					: [
							{
								part: 'routes',
								outcome: 'failure',
								at: ago(90_300),
								asked: 'files changed',
								cause: `/etc/proxy/config.toml:31: routes[4].upstream: is missing; set it to http://host:port${hostile}`,
								generation: 6,
							} as const,
						]),
			],
			needs_restart: [],
			needs_restart_since: null,
		},
		log: { lost_total: 0, failing_since: null, cause: null },
		shared_limits: {
			store: storeAway ? 'unavailable' : 'up',
			for_seconds: storeAway ? 41 : 86_400,
			since: ago(storeAway ? 41 : 86_400),
			reason: storeAway ? 'unreachable' : null,
			cause: storeAway ? 'connect ECONNREFUSED 10.4.1.3:6379' : null,
			on_store_failure: 'share',
			replicas: 4,
			settle_seconds: 0.203,
			calls: { success_total: 4_312_007, failure_total: 3 },
			revocations: 2,
		},
		tenants: tenants
			? [
					{ tenant: `acme${hostile}`, requests_per_second: 5_000, burst: 8_000, concurrency: 64, in_flight: 12 },
					{ tenant: 'globex', requests_per_second: 'unlimited', burst: null, concurrency: null, in_flight: null },
					{ tenant: 'initech', requests_per_second: null, burst: null, concurrency: 8, in_flight: 0 },
				]
			: null,
	};
}

const SHARE_BOUNDS: ShareBounds = {
	share: { '401': 0.2, '429': 0.2, '5xx': 0.05, grpc: 0.05, handshakes: 0.2 },
	least: 20,
};
/** What workers count a second, while the upstreams have their traffic. */
const OWN_PER_SECOND = { done: 40, failed: 0.036, ownResponses: 0.09 };

/** Requests per second and milliseconds at a moment, from 0 (ten minutes ago) to 1: the same at each run. */
function traffic({ requests_total: total, breaker }: UpstreamStatus, i: number, at: number) {
	const wave = (speed: number) => Math.sin(at * speed + i * 1.7) + 0.4 * Math.sin(at * speed * 3.1 + i);
	const isDown = breaker.state === 'open' && at > 0.67;
	const isTried = breaker.state === 'half-open' && at > 0.55;
	const rate = isDown ? 0 : (total / 100_000) * (1 + 0.18 * wave(7) + 0.06 * wave(23));
	const p50 = 2 + i * 1.6 + 0.5 * wave(5);
	const burst = isTried && at < 0.75 ? 140 * Math.sin((at - 0.55) * 15.7) : 0;
	const errors = isTried && at < 0.8 ? 0.45 : breaker.state === 'open' && at > 0.6 ? 0.8 : 0.0002;
	return { rate: Math.max(0, rate), errors, p50, p99: p50 * 4 + 3 * Math.abs(wave(11)) + burst, isDown };
}

/** The pages over this snapshot, after ten minutes in which `traffic` has been. */
export function examplePages(options: ExampleOptions = {}): StatusPages {
	const found = exampleFound(options);
	const start = UP_MS - 600_000;
	const answers = new Map(found.upstreams.map((one) => [keyOf(one), { all: 0, errors: 0 }]));
	let now = start;
	let tick = () => {};
	const recorders = found.upstreams.map(() => new Histogram(new SharedArrayBuffer(HISTOGRAM_BYTES)));
	const timers: Timers = {
		after: () => () => {},
		every: (_, run) => {
			tick = run;
			return () => {};
		},
	};
	const sampled = (): Sampled[] =>
		found.upstreams.map((one, i) => ({
			key: keyOf(one),
			responses: () => answers.get(keyOf(one))!.all,
			serverErrors: () => answers.get(keyOf(one))!.errors,
			addGrpcTo: () => {},
			addRoundTrips: (to, nowMs) => recorders[i]!.addLastSliceTo(to, nowMs),
		}));
	const counters = (): WorkerCounts => {
		const seconds = (now - start) / 1000;
		return {
			...readCounters([]),
			responses: new Map([[401, OWN_PER_SECOND.ownResponses * seconds]]),
			'TLSv1.3': new Map([['x25519', OWN_PER_SECOND.done * seconds]]),
			handshakeRefusals: new Map([['nothing sent', OWN_PER_SECOND.failed * seconds]]),
		};
	};
	const pages = new StatusPages({
		source: {
			*read(history) {
				const upstreams: UpstreamStatus[] = [];
				for (const one of found.upstreams) {
					upstreams.push({ ...one, ...history.latest(keyOf(one)) });
					yield;
				}
				const shares = history.shares(SHARE_BOUNDS, (ms) => ago((UP_MS - ms) / 1000));
				return { ...found, upstreams, shares, traffic: { ...found.traffic, ...history.latest() } };
			},
			counters,
			sampled,
		},
		timers,
		now: () => now,
		onFault: (error) => {
			throw error;
		},
	});
	const tickHistory = tick;
	for (; now < UP_MS; now += 1_000) {
		for (const [i, one] of found.upstreams.entries()) {
			const { rate, errors, p50, p99, isDown } = traffic(one, i, (now - start) / 600_000);
			const counted = answers.get(keyOf(one))!;
			counted.all += rate;
			counted.errors += rate * errors;
			for (let k = 0; k < 20 && !isDown; k++) recorders[i]!.record(k === 19 ? p99 : p50 * (0.9 + k / 90), now);
		}
		tickHistory();
	}
	return pages;
}

/** The pages, on a separate listener. */
export async function serveExample(options: ExampleOptions = {}) {
	const { routes } = examplePages(options);
	const server = createServer(async (request, response) => {
		const answer = await routes.get(request.url!.split('?')[0]!)?.(request);
		if (answer === undefined) return void response.writeHead(404).end();
		response
			.writeHead(answer.status, { ...answer.headers, 'content-type': answer.type ?? 'text/plain' })
			.end(answer.body);
	});
	await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
	return {
		url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
		[Symbol.asyncDispose]: async () => {
			server.closeAllConnections();
			server.close();
		},
	};
}
