/**
 * What the JavaScript of a request over HTTP/1.1 costs, from the bytes of its head to those of its answer: 64 connections whose sockets,
 * and those to the upstream, only call back. No kernel, no TLS, no other process, so a version that costs 0.1 µs more than another is seen.
 * Compare the least of several runs in turns; neighbours of a machine can only add.
 *
 * No two requests are alike: tokens of 1,000 tenants, 1,000 paths, unique identifiers. With `repeated` all are the same.
 *
 *   node bench/request-script.ts [CHECKOUT] [N] [repeated]  # its sources, not its dist; by default this one's. N addresses in place of a URL
 */
import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import { pathToFileURL } from 'node:url';

const CONNECTIONS = 64;
const WARM_UP = 1500;
const SAMPLES = 500;
/** Rounds of one sample: few, so that some of them meet nobody. */
const ROUNDS = 15;

const root = resolve(process.argv[2] ?? `${import.meta.dirname}/..`);
const addresses = Number(process.argv[3] ?? 1);
const isRepeated = process.argv[4] === 'repeated';
const urlOf = (path: string) => pathToFileURL(`${root}/${path}`).href;
/** Of the other checkout: nothing is known of its types. */
const use = (path: string) => import(urlOf(path));

/** What sockets have to call back in the next turn. */
const calls: (() => void)[] = [];
let answered = 0;

/** In place of `node:net` for the upstream's side. */
const connect = ({ onread }: { onread: { buffer: () => Buffer; callback: (length: number) => void } }) => ({
	...NO_SOCKET,
	write: () => {
		calls.push(() => {
			onread.buffer().set(ANSWER);
			onread.callback(ANSWER.length);
		});
		return true;
	},
});

registerHooks({
	resolve(specifier, context, next) {
		const isUpstream = context.parentURL === urlOf('packages/proxy/src/data/upstream/transport.ts');
		if (specifier === 'node:net' && isUpstream) return { url: 'bench:net', format: 'module', shortCircuit: true };
		return next(specifier, context);
	},
	load(url, context, next) {
		if (url !== 'bench:net') return next(url, context);
		return { source: 'export const { connect } = globalThis.bench;', format: 'module', shortCircuit: true };
	},
});
Object.assign(globalThis, { bench: { connect } });

const NO_SOCKET = {
	writable: true,
	writableNeedDrain: false,
	writableLength: 0,
	on() {
		return this;
	},
	once() {},
	cork() {},
	uncork() {},
	pause() {},
	resume() {},
	end() {},
	destroy() {},
	isPaused: () => false,
};
/** Tokens differ in their signatures; identifiers are as long as those of real ones. */
const hex = (digits: number) =>
	Array.from({ length: digits }, () => Math.floor(Math.random() * 16).toString(16)).join('');
const TOKENS = Array.from({ length: isRepeated ? 1 : 1000 }, () => `Bearer ${'x'.repeat(300)}${hex(342)}`);
const REQUESTS = Array.from({ length: isRepeated ? 1 : 8192 }, (_, i) =>
	Buffer.from(
		`GET /svc-a/hello/${i % 1000}?page=${i % 1000} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: billing-service/4.2 (linux)\r\n` +
			`Accept: application/json\r\nAuthorization: ${TOKENS[Math.floor(Math.random() * TOKENS.length)]}\r\n` +
			`Traceparent: 00-${hex(32)}-${hex(16)}-00\r\nX-Request-Id: ${hex(32)}\r\n\r\n`,
	),
);
let asked = 0;
const ANSWER = Buffer.from(
	'HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\nContent-Type: application/json\r\n' +
		'Content-Length: 17\r\nConnection: keep-alive\r\n\r\n{"hello":"world"}',
);

const clients = await connectClients();
await rounds(WARM_UP);
const costs: number[] = [];
for (let i = 0; i < SAMPLES; i++) {
	const before = performance.now();
	await rounds(ROUNDS);
	costs.push(((performance.now() - before) * 1000) / ROUNDS / CONNECTIONS);
}
costs.sort((a, b) => a - b);
const shown = [0, 0.05, 0.5].map((part) => costs[Math.floor(part * SAMPLES)]!.toFixed(2));
console.log(
	`${root}, ${addresses} addresses: least ${shown[0]}, 5 % at most ${shown[1]}, median ${shown[2]} us a request`,
);
process.exit(0);

/** Each client asks once and gets its answer. */
async function rounds(count: number): Promise<void> {
	for (let i = 0; i < count; i++) {
		answered = 0;
		for (const ask of clients) ask();
		while (answered < CONNECTIONS || calls.length > 0) {
			await new Promise(setImmediate);
			for (const call of calls.splice(0)) call();
		}
	}
}

/** Those of a plane with one route, whose tenant has a rate. */
async function connectClients(): Promise<(() => void)[]> {
	const { FakePlane } = await use('test/unit/data/fixtures/fake-plane.ts');
	const { Http1Connection } = await use('packages/proxy/src/data/http1/connection.ts');
	const { FlushQueue } = await use('packages/proxy/src/data/loop/turn-end.ts');
	const plane = await furnished(new FakePlane());
	const flushes = new FlushQueue(plane.turnEnd);
	return Array.from({ length: CONNECTIONS }, () => {
		let onData = (_: Buffer) => {};
		const socket = {
			...NO_SOCKET,
			on(event: string, listener: typeof onData) {
				if (event === 'data') onData = listener;
				return this;
			},
			write(_text: string, _encoding: string, onFlushed: () => void) {
				answered++;
				calls.push(onFlushed);
				return true;
			},
		};
		new Http1Connection(socket, '192.0.2.1', plane.share(), plane, flushes);
		return () => onData(Buffer.from(REQUESTS[asked++ % REQUESTS.length]!));
	});
}

/** The plane of the unit tests, with what a worker has in its place. */
async function furnished(plane: Awaited<ReturnType<typeof use>>): Promise<typeof plane> {
	const { Endpoint } = await use('packages/proxy/src/data/upstream/endpoint.ts');
	const { transportsOf } = await use('packages/proxy/src/data/upstream/transport.ts');
	const { Upstream } = await use('packages/proxy/src/data/upstream/upstream.ts');
	const { DEFAULT_BALANCING } = await use('packages/proxy/src/gates/balancing/settings.ts');
	const { UpstreamLoad } = await use('packages/proxy/src/memory/upstream-load.ts');
	const { ReadQueue } = await use('packages/proxy/src/data/client/paced-reads.ts');
	const { DispatchQueue } = await use('packages/proxy/src/data/loop/dispatch-queue.ts');
	const { RouteTable } = await use('packages/proxy/src/gates/routes.ts');
	const { TokenCache } = await use('packages/gate/src/gates/token-cache.ts');
	const { TenantLimiter } = await use('packages/gate/src/memory/limiter.ts');
	const { CLOSED } = await use('packages/proxy/src/gates/breaker.ts');
	const { rateOf } = await use('packages/gate/src/identity/quotas.ts');
	const { BreakerCell } = await use('packages/proxy/src/memory/breaker-cell.ts');
	const { BucketCounts } = await use('packages/proxy/src/memory/bucket-counts.ts');
	const { RouteStats } = await use('packages/proxy/src/memory/route-stats.ts');
	const { UpstreamStats } = await use('packages/proxy/src/memory/stats.ts');
	const clock = { now: () => performance.now(), wallSeconds: () => Date.now() / 1000 };
	const layout = {
		bounds: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
		exemplars: false,
	};
	const buckets = () => BucketCounts.view(layout, BucketCounts.allocate(layout, 1), 0);
	const cache = new TokenCache();
	for (const [i, token] of TOKENS.entries()) {
		cache.add(token, {
			tenant: `tenant-${i}`,
			tenantHeader: `x-proxy-tenant: tenant-${i}\r\n`,
			tenantKey: (BigInt(i + 1) * 0x9e37_79b9_7f4a_7c15n) & 0x7fff_ffff_ffff_ffffn,
			quota: { rate: rateOf({ rps: 1e6, burst: 1e6 }), slots: undefined },
			usableUntil: Number.POSITIVE_INFINITY,
		});
	}
	const authenticate = (authorization: string, now: number) => {
		plane.stats.count('tokenCache', 'hit');
		return cache.find(authorization, now);
	};
	Object.assign(plane, {
		clock,
		authenticator: { authenticate },
		histograms: { handshakes: buckets(), gates: buckets(), durationsOf: buckets },
		limiter: new TenantLimiter(TenantLimiter.allocate(new Uint8Array(32)), 0),
		reads: new ReadQueue(plane.turnEnd, clock),
		dispatches: new DispatchQueue(clock, plane.turnEnd),
	});
	const endpointAt = (host: string) => {
		const place = { states: BreakerCell.allocateStates(1), loads: UpstreamLoad.allocate(1, 0), at: 0 };
		const seed = {
			place,
			authority: `${host}:80`,
			host,
			port: 80,
			idleTimeoutMs: 1e9,
			stats: UpstreamStats.allocate(),
			breaker: BreakerCell.allocate(0, CLOSED, place),
			connections: UpstreamLoad.allocate(1, 0),
		};
		const [transport] = transportsOf({ endpoints: [seed], upstreams: [{ endpoints: [0] }] }, () => undefined, clock);
		return new Endpoint(seed, 0, transport, plane);
	};
	const endpoints = Array.from({ length: addresses }, (_, i) => endpointAt(`192.0.2.${i + 2}`));
	const upstream = new Upstream({
		...DEFAULT_BALANCING,
		name: undefined,
		endpoints,
		weights: endpoints.map(() => 1),
		random: Math.random,
	});
	const stats = RouteStats.view(RouteStats.allocate(1), 0);
	const { requestLimits } = plane;
	plane.routes = new RouteTable([
		{ prefix: '/svc-a', trailers: true, cooldownMs: 1000, opening: {}, requestLimits, upstream, stats },
	]);
	return plane;
}
