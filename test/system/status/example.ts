/**
 * A proxy as it might be, for screenshots and for what is looked at in a browser without starting the real one: the numbers are made
 * up, and everything from the facts on is real.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { upstreamKey } from '../../../src/control/routing/table.ts';
import type { Facts, UpstreamFacts } from '../../../src/control/status/facts.ts';
import type { Sampled } from '../../../src/control/status/history.ts';
import { StatusPages } from '../../../src/control/status/status-pages.ts';
import type { Timers } from '../../../src/control/timers.ts';
import { CLOSED, HALF_OPEN, OPEN } from '../../../src/gates/breaker.ts';
import { HISTOGRAM_BYTES, Histogram } from '../../../src/memory/histogram.ts';

/** A Tuesday. */
const NOW_MS = Date.UTC(2026, 8, 15, 14, 32, 7);
const UP_MS = (3 * 24 + 4) * 3_600_000;
const DAY_S = 86_400;

export interface ExampleOptions {
	/** Whether anything is wrong. Default: yes. */
	readonly well?: boolean;
	/** Upstreams beside the six with a story. */
	readonly others?: number;
	readonly tenants?: boolean;
	/** Before the names of all that others can name. */
	readonly hostile?: string;
}

export function exampleFacts({ well = false, others = 0, tenants = false, hostile = '' }: ExampleOptions = {}): Facts {
	const wall = NOW_MS / 1000;
	const ago = (seconds: number) => wall - seconds;
	const upstream = (name: string, routes: string[], requests: number, rest: Partial<UpstreamFacts> = {}) => ({
		upstream: name,
		group: undefined,
		tls: 'none' as const,
		routes: routes.map((prefix) => `${prefix}${hostile}`),
		circuit: CLOSED as UpstreamFacts['circuit'],
		transition: undefined,
		opened: 0,
		probed: true,
		alive: true as boolean | undefined,
		lastProbe: {
			passed: true,
			found: 'GET /health answered 200',
			remedy: undefined,
			atSeconds: ago(2),
		} as UpstreamFacts['lastProbe'],
		answers: new Map([
			[200, requests],
			[404, Math.floor(requests / 900)],
			[502, Math.floor(requests / 80_000)],
		]),
		active: Math.ceil(requests / 9_000_000),
		idle: Math.ceil(requests / 3_000_000),
		...rest,
	});
	const down: Partial<UpstreamFacts> = well
		? {}
		: {
				circuit: OPEN,
				transition: { wallSeconds: ago(198), reason: 'health', cause: `health: connection refused${hostile}` },
				opened: 1,
				alive: false,
				lastProbe: {
					passed: false,
					found: 'connection refused',
					remedy: 'start it, or correct the port: nothing listens there',
					atSeconds: ago(2),
				},
				active: 0,
				idle: 0,
			};
	const search = (address: string, rest: Partial<UpstreamFacts> = {}) =>
		upstream(`${address}:9200`, ['/api/search'], 4_560_227, {
			group: 'search',
			share: { balance: 'least-requests', weight: 1 },
			...rest,
		});
	const trying: Partial<UpstreamFacts> = well
		? { opened: 2, transition: { wallSeconds: ago(86_000), reason: 'probe', cause: 'the probe succeeded' } }
		: {
				circuit: HALF_OPEN,
				transition: { wallSeconds: ago(12), reason: 'probe', cause: 'the cooldown is over' },
				opened: 4,
			};
	return {
		wallMs: NOW_MS,
		startedMs: NOW_MS - UP_MS,
		monotonicMs: UP_MS,
		build: { version: '0.1.0', bodyMode: 'collected', node: '26.10.0' },
		obstacle: undefined,
		residentBytes: 412 * 2 ** 20,
		heapUsedBytes: 38.4 * 2 ** 20,
		listening: 4,
		workers: [0.41, 0.38, 0.44, 0.4].map((utilization, i) => ({
			connections: 512 + 37 * i,
			inFlight: 11 + 3 * i,
			loop: { utilization, delayP50: 0.4, delayP99: 2.1 + i * 0.3, delayMax: 9 },
		})),
		upstreams: [
			upstream('orders.internal:8080', ['/api/orders', '/api/carts'], 48_211_034),
			upstream('accounts.internal:8080', ['/api/accounts'], 21_870_112),
			search('10.4.0.17', trying),
			search('10.4.0.21'),
			upstream('reports.internal:8080', ['/api/reports'], 318_902, down),
			upstream('assets.internal:80', ['/assets'], 33_004_871, {
				probed: false,
				alive: undefined,
				lastProbe: undefined,
			}),
			...Array.from({ length: others }, (_, i) =>
				upstream(`shard-${i + 1}.internal:7000`, [`/shards/${i + 1}`], 100_000 + i),
			),
		],
		names: [
			{
				group: 'search',
				name: `search.internal:9200${hostile}`,
				routes: ['/api/search'],
				addresses: 2,
				ageMs: 12_000,
				failing: undefined,
			},
			...(well
				? []
				: [
						{
							group: 'billing',
							name: 'billing.internal:8080',
							routes: ['/api/billing'],
							addresses: 0,
							ageMs: undefined,
							failing: { sinceSeconds: ago(95), failures: 9, cause: `the name has no addresses${hostile}` },
						},
					]),
		],
		ownAnswers: new Map([
			[401, 1_932],
			[404, 288],
			[429, 611],
			[400, 17],
			[503, 0],
		]),
		auth: new Map([
			['missing', 214],
			['invalid', 1_718],
		]),
		forbidden: new Map([
			['certificate', 12],
			['tenant', 0],
			['scope', 94],
		]),
		rateLimited: new Map([
			['tenant', 540],
			['route', 0],
			['concurrency', 71],
		]),
		handshakes: { completed: 1_204_882, quantile: (q) => (q > 0.9 ? 8.74 : 2.31) },
		handshakesDone: 1_204_882,
		handshakeFailures: new Map([
			['no certificate', 43],
			['unknown CA', 7],
			['expired', 2],
			['not TLS', 19],
			['refused by client', 0],
			['nothing sent', 8_640],
		]),
		connections: {
			handshake: 3,
			'http/1.1': 618,
			h2: 1_652,
			refused: new Map([
				['max_connections', 0],
				['descriptors', 0],
			]),
			ended: new Map([
				['revoked', 1],
				['expired', 4],
			]),
			http2Errors: new Map([['reset-flood', 2]]),
		},
		bodyBudget: { used: 96 * 2 ** 20, limit: 2 ** 30 },
		connectionBudget: { used: 2_273, limit: 32_000 },
		certificates: [
			{
				kind: 'server',
				subject: `CN=edge.example.com${hostile}`,
				serial: '3f',
				expiresSeconds: wall + (well ? 61 : 9.4) * DAY_S,
			},
			{
				kind: 'server_chain',
				subject: 'CN=Example Issuing CA 2, O=Example',
				serial: '4e',
				expiresSeconds: wall + 1102 * DAY_S,
			},
			{
				kind: 'client_ca',
				subject: 'CN=Example Clients CA, O=Example',
				serial: '5d',
				expiresSeconds: wall + 743 * DAY_S,
			},
			{ kind: 'crl', subject: 'CN=Example Clients CA, O=Example', serial: '', expiresSeconds: wall + 5.2 * DAY_S },
		],
		issuers: [
			{
				issuer: `https://login.example.com${hostile}`,
				remote: true,
				algorithms: ['RS256', 'ES256'],
				kids: [`2026-09${hostile}`, '2026-08'],
				ageMs: 134_000,
				fetches: { success: 912, failure: 3 },
			},
			{
				issuer: 'https://batch.example.com',
				remote: false,
				algorithms: ['RS256'],
				kids: [undefined],
				ageMs: undefined,
				fetches: undefined,
			},
		],
		generation: 7,
		reloads: {
			success: 5,
			failure: well ? 0 : 1,
			last: [
				{ part: 'routes', result: 'success', atSeconds: ago(4_210), asked: 'SIGHUP', cause: undefined, generation: 7 },
				{ part: 'tls', result: 'success', atSeconds: ago(4_211), asked: 'SIGHUP', cause: undefined, generation: 7 },
				...(well
					? []
					: [
							{
								part: 'routes',
								result: 'failure',
								atSeconds: ago(90_300),
								asked: 'files changed',
								cause: `/etc/proxy/config.toml:31: routes[4].upstream: is missing; set it to http://host:port${hostile}`,
								generation: 6,
							} as const,
						]),
			],
		},
		shareBounds: { share: { '401': 0.2, '429': 0.2, '5xx': 0.05, handshakes: 0.2 }, least: 20 },
		log: { accessLines: 0, lines: 0, failing: undefined },
		store: {
			isAway: false,
			reason: undefined,
			cause: undefined,
			forMs: 86_400_000,
			onStoreFailure: 'share',
			replicas: 4,
			part: undefined,
			delayMs: 203,
			calls: { success: 4_312_007, failures: new Map([['timeout', 3]]) },
			revocations: 2,
		},
		tenants: tenants
			? [
					{ name: `acme${hostile}`, rate: { rps: 5_000, burst: 8_000 }, concurrency: 64, inFlight: 12 },
					{ name: 'globex', rate: null, concurrency: undefined, inFlight: undefined },
					{ name: 'initech', rate: undefined, concurrency: 8, inFlight: 0 },
				]
			: undefined,
	};
}

/** Requests per second and milliseconds at a moment, from 0 (ten minutes ago) to 1: the same at each run. */
function traffic(facts: UpstreamFacts, i: number, at: number) {
	const wave = (speed: number) => Math.sin(at * speed + i * 1.7) + 0.4 * Math.sin(at * speed * 3.1 + i);
	const total = facts.answers.get(200)!;
	const isDown = facts.circuit === OPEN && at > 0.67;
	const rate = isDown ? 0 : (total / 100_000) * (1 + 0.18 * wave(7) + 0.06 * wave(23));
	const p50 = 2 + i * 1.6 + 0.5 * wave(5);
	const burst = i === 2 && at > 0.55 && at < 0.75 ? 140 * Math.sin((at - 0.55) * 15.7) : 0;
	return { rate: Math.max(0, rate), p50, p99: p50 * 4 + 3 * Math.abs(wave(11)) + burst, isDown };
}

/** The pages over these facts, after ten minutes in which `traffic` has been. */
export function examplePages(options: ExampleOptions = {}): StatusPages {
	const facts = exampleFacts(options);
	const start = facts.monotonicMs - 600_000;
	const answers = new Map<string, number>();
	let now = start;
	let tick = () => {};
	const recorders = facts.upstreams.map(() => new Histogram(new SharedArrayBuffer(HISTOGRAM_BYTES)));
	const timers: Timers = {
		after: () => () => {},
		every: (_, run) => {
			tick = run;
			return () => {};
		},
	};
	const sampled = (): Sampled[] =>
		facts.upstreams.map(({ upstream, group }, i) => ({
			key: upstreamKey(upstream, group),
			answers: () => answers.get(upstream) ?? 0,
			serverErrors: () => 0,
			addRoundTrips: (to, nowMs) => recorders[i]!.addLastSliceTo(to, nowMs),
		}));
	const pages = new StatusPages({
		source: {
			*facts() {
				for (const _ of facts.upstreams) yield;
				return facts;
			},
			counters: () => facts,
			sampled,
		},
		timers,
		now: () => now,
		onFault: (error) => {
			throw error;
		},
	});
	const tickHistory = tick;
	for (; now < facts.monotonicMs; now += 1_000) {
		for (const [i, one] of facts.upstreams.entries()) {
			const { rate, p50, p99, isDown } = traffic(one, i, (now - start) / 600_000);
			answers.set(one.upstream, (answers.get(one.upstream) ?? 0) + rate);
			for (let k = 0; k < 20 && !isDown; k++) recorders[i]!.record(k === 19 ? p99 : p50 * (0.9 + k / 90), now);
		}
		tickHistory();
	}
	return pages;
}

/** The pages behind a listener of their own. */
export async function serveExample(options: ExampleOptions = {}) {
	const { routes } = examplePages(options);
	const server = createServer(async (request, response) => {
		const answer = await routes.get(request.url!.split('?')[0]!)?.(request, response);
		if (answer === undefined) {
			if (!response.headersSent) response.writeHead(404).end();
			return;
		}
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
