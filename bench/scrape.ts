/**
 * The cost of a scrape on the main thread with many busy upstreams: time, bytes, and the longest delay of other work. Workers take no part
 * in a scrape.
 *
 *   node bench/scrape.ts           1,000 upstreams and as many routes, 4 workers
 *   node bench/scrape.ts 100 16    100 upstreams, 16 workers
 */
import { get, type IncomingMessage } from 'node:http';
import { systemClock } from '../packages/gate/src/shared/clock.ts';
import { createLogger, parseLogFilter } from '../packages/gate/src/shared/log.ts';
import { DEFAULT_BUCKETS, DEFAULT_GATE_BUCKETS } from '../packages/proxy/src/config/tables/metrics.ts';
import { startAdmin } from '../packages/proxy/src/control/admin/listener.ts';
import type { MetricSources } from '../packages/proxy/src/control/metrics/families.ts';
import { ProcessMemory } from '../packages/proxy/src/control/process-memory.ts';
import { ReloadJournal } from '../packages/proxy/src/control/reload/journal.ts';
import { Upstreams } from '../packages/proxy/src/control/routing/upstreams.ts';
import { BucketCounts } from '../packages/proxy/src/memory/bucket-counts.ts';
import { UpstreamStats } from '../packages/proxy/src/memory/upstream-stats.ts';
import { testPki } from '../test/fixtures/pki.ts';
import { route } from '../test/unit/control/fixtures/routes.ts';

const [count = 1000, workers = 4] = process.argv.slice(2).map(Number);
const SCRAPES = 10;

const clock = systemClock(process.hrtime.bigint());
const log = createLogger(
	parseLogFilter('off'),
	() => {},
	() => new Date(),
);
const layouts = {
	upstream: { bounds: DEFAULT_BUCKETS, exemplars: true },
	handshake: { bounds: DEFAULT_BUCKETS, exemplars: false },
	gate: { bounds: DEFAULT_GATE_BUCKETS, exemplars: true },
};
const rssBefore = process.memoryUsage.rss();
const memory = new ProcessMemory({
	workers,
	maxBufferedBytes: 2 ** 30,
	maxBufferedBytesPerTenant: 2 ** 30,
	maxConnections: 10_000,
	histograms: layouts,
});
const upstreams = new Upstreams(workers, clock, log, layouts.upstream);
upstreams.apply(upstreams.plan(Array.from({ length: count }, (_, i) => route(`/${i}`, `upstream-${i}.test:8080`))));
const pki = await testPki();
const sources: MetricSources = {
	build: { version: '0', bodyMode: 'collected', node: process.versions.node },
	listening: () => workers,
	state: {
		memory,
		upstreams,
		inForce: {
			generation: 1,
			reloads: { success: 0, failure: 0 },
			failures: [],
			needsRestart: undefined,
			reloading: false,
			tls: { cert: pki.server.certPem, key: '', ca: pki.ca.certPem },
		},
		journal: new ReloadJournal(clock.wallSeconds),
		startedSeconds: clock.wallSeconds(),
		clock,
	},
	logLosses: () => ({ accessLines: 0, lines: 0, failing: undefined }),
	remoteKeys: () => [],
	addresses: () => [],
};

/** As if each upstream had sent responses in each of the latest slices that a summary shows. */
function beBusy(): void {
	const traceId = '0af7651916cd43dd8448eb211c80319c';
	for (const { counters } of upstreams.current.endpoints.values()) {
		for (let worker = 0; worker < workers; worker++) {
			const stats = new UpstreamStats(counters.stats[worker]!);
			const durations = BucketCounts.view(layouts.upstream, counters.durations, worker);
			for (const status of [200, 404, 503]) stats.responded(status);
			for (let slice = 0; slice < 6; slice++) {
				for (let i = 0; i < 10; i++)
					stats.roundTrips.record(Math.random() * 2 ** (i + 1), clock.now() + slice * 10_000);
			}
			for (const bound of [...DEFAULT_BUCKETS, 60]) {
				durations.exemplify(durations.record(bound * 1000), bound * 1000, traceId, clock.now(), clock);
			}
		}
	}
}

async function scrape(port: number, accept: string): Promise<number> {
	const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
	get({ port, host: '127.0.0.1', path: '/metrics', headers: { accept }, agent: false }, resolve).on('error', reject);
	let bytes = 0;
	for await (const chunk of await promise) bytes += (chunk as Buffer).length;
	return bytes;
}

beBusy();
// What is recorded for future slices is what the summary shows in a minute.
const later = { ...clock, now: () => clock.now() + 50_000 };
const listener = await startAdmin(
	{ host: '127.0.0.1', port: 0 },
	{
		sources: { ...sources, state: { ...sources.state, clock: later } },
		readiness: { phase: 'serving', obstacle: undefined },
		log,
	},
);
console.log(`${count} upstreams and routes, ${workers} workers; medians of ${SCRAPES} scrapes`);
console.log(`memory of what is counted: ${((process.memoryUsage.rss() - rssBefore) / 2 ** 20).toFixed(0)} MiB`);
for (const accept of ['text/plain', 'application/openmetrics-text']) {
	const rounds: { ms: number; cpu: number; gap: number; bytes: number }[] = [];
	for (let i = 0; i < SCRAPES + 2; i++) {
		let last = performance.now();
		let gap = 0;
		let runs = true;
		const watch = () => {
			const now = performance.now();
			gap = Math.max(gap, now - last);
			last = now;
			if (runs) setImmediate(watch);
		};
		setImmediate(watch);
		const start = performance.now();
		const before = process.cpuUsage();
		const bytes = await scrape(listener.port, accept);
		const { user, system } = process.cpuUsage(before);
		runs = false;
		if (i >= 2) rounds.push({ ms: performance.now() - start, cpu: (user + system) / 1000, gap, bytes });
	}
	const median = (of: (round: (typeof rounds)[number]) => number) =>
		rounds.map(of).sort((a, b) => a - b)[rounds.length >> 1]!;
	console.log(
		`${accept}: ${median(({ ms }) => ms).toFixed(0)} ms, ${(median(({ bytes }) => bytes) / 1e6).toFixed(2)} MB, CPU with the reader ${median(
			({ cpu }) => cpu,
		).toFixed(0)} ms, longest wait for the main thread ${median(({ gap }) => gap).toFixed(1)} ms`,
	);
}
listener.close();
