/** The proxy's own gate: one worker thread of the data plane, whole, in front of an upstream that says who was let in. */
import { type KeyObject, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { readPublicKey } from '../../packages/gate/src/gates/public-key.ts';
import { issuerWithKey } from '../../packages/gate/src/identity/issuer.ts';
import { ConcurrencyCounts } from '../../packages/gate/src/memory/concurrency.ts';
import { TenantLimiter } from '../../packages/gate/src/memory/limiter.ts';
import { DEFAULT_BALANCING } from '../../packages/proxy/src/gates/balancing/settings.ts';
import { BreakerCell, OPEN } from '../../packages/proxy/src/memory/breaker-cell.ts';
import { BucketCounts } from '../../packages/proxy/src/memory/bucket-counts.ts';
import { Budget } from '../../packages/proxy/src/memory/budget.ts';
import { RouteStats } from '../../packages/proxy/src/memory/route-stats.ts';
import { UpstreamLoad } from '../../packages/proxy/src/memory/upstream-load.ts';
import { UpstreamStats } from '../../packages/proxy/src/memory/upstream-stats.ts';
import { WorkerStats } from '../../packages/proxy/src/memory/worker-stats.ts';
import type { Limits } from '../../packages/proxy/src/shared/limits.ts';
import type { FromWorker, WorkerSeed } from '../../packages/proxy/src/shared/messages.ts';
import { testPki } from '../fixtures/pki.ts';
import type { GateSettings, Subject } from './subject.ts';

/** Of the bundle under test, which starts in a third of the time; by itself a file of tests takes the source. */
const WORKER =
	process.env.PROXY_TEST_MAIN === undefined
		? new URL('../../packages/proxy/src/data/worker.ts', import.meta.url)
		: join(dirname(process.env.PROXY_TEST_MAIN), 'chunks/worker.js');
const BUCKETS = { bounds: [1], exemplars: false };
const LIMITS: Limits = {
	maxRequestBodyBytes: 8 * 1024 * 1024,
	requestBodyTimeoutMs: 30_000,
	upstreamTimeoutMs: 30_000,
	tlsHandshakeTimeoutMs: 10_000,
	firstRequestTimeoutMs: 10_000,
	h2MaxConcurrentStreams: 64,
	shutdownDrainMs: 25_000,
	shutdownDelayMs: 0,
	maxHeaderBytes: 16_384,
	maxBufferedBytes: 1024 ** 3,
	maxBufferedBytesPerTenant: 1024 ** 3,
	minAnswerBytesPerSec: undefined,
	maxConnectionAgeMs: 0,
	maxConnections: undefined,
	rateLimitHeaders: false,
};

export const proxy: Subject = {
	name: 'the proxy',
	protocols: ['h1', 'h2'],
	async start(settings) {
		// The main thread reads the key, before anything is there that would have to be stopped.
		const publicKey = readPublicKey(settings.publicKeyPem);
		const upstream = await startUpstream();
		const worker = new Worker(WORKER, {
			workerData: { ...(await seed(settings, publicKey, upstream)), fakeClock: settings.clock.memory },
			execArgv: ['--import', new URL('proxy-fake-time.ts', import.meta.url).href],
		});
		const stop = async () => {
			await worker.terminate();
			upstream.closeAllConnections();
			upstream.close();
		};
		try {
			// Rejects with the error that ends the worker.
			const [message] = (await once(worker, 'message')) as [FromWorker];
			if (message.type !== 'listening') throw new Error(`the worker does not listen: ${JSON.stringify(message)}`);
			return { port: message.port, [Symbol.asyncDispose]: stop };
		} catch (error) {
			await stop();
			throw error;
		}
	},
};

async function seed(settings: GateSettings, publicKey: KeyObject, upstream: Server): Promise<WorkerSeed> {
	const { issuer, audience, tenantRps, clock } = settings;
	const { server, ca } = await testPki();
	const { port } = upstream.address() as AddressInfo;
	const place = { states: BreakerCell.allocateStates(1), loads: UpstreamLoad.allocate(1, 0), at: 0 };
	const breaker = BreakerCell.allocate(clock.ms, OPEN, place);
	new BreakerCell(breaker, undefined, place).health(true, clock.ms);
	const stats = UpstreamStats.allocate();
	const durations = BucketCounts.allocate(BUCKETS, 1);
	const tenantSecret = randomBytes(32);
	return {
		index: 0,
		workers: 1,
		clockEpoch: 0n,
		bind: { host: '127.0.0.1', port: 0 },
		reusePort: false,
		limits: LIMITS,
		tenantRps,
		identity: {
			issuers: [issuerWithKey(publicKey, { issuer: issuer ?? undefined, audience: audience ?? undefined })],
		},
		tls: { cert: server.certPem, key: server.keyPem, ca: ca.certPem },
		routing: {
			endpoints: [
				{
					authority: `127.0.0.1:${port}`,
					host: '127.0.0.1',
					port,
					group: undefined,
					place,
					breakerId: 1,
					breaker,
					connections: UpstreamLoad.allocate(1, 0),
					stats,
					durations,
					idleTimeoutMs: 4000,
				},
			],
			upstreams: [{ name: undefined, endpoints: [0], weights: [1], balancing: DEFAULT_BALANCING }],
			routes: [
				{
					prefix: '/',
					trailers: true,
					cooldownMs: 1000,
					opening: { failures: 1, tenants: 1 },
					upstream: 0,
					stats: RouteStats.allocate(1),
				},
			],
		},
		limiter: TenantLimiter.allocate(tenantSecret, 1024),
		concurrency: ConcurrencyCounts.allocate(1, 8),
		tenantSecret,
		tenantShares: undefined,
		bufferedBytes: Budget.allocate(LIMITS.maxBufferedBytes, 1024, 1),
		connections: Budget.allocate(1000, 1, 1),
		stats: WorkerStats.allocate(),
		histograms: {
			upstream: BUCKETS,
			handshake: BUCKETS,
			gate: BUCKETS,
			handshakes: BucketCounts.allocate(BUCKETS, 1),
			gates: BucketCounts.allocate(BUCKETS, 1),
		},
		logFilter: 'off',
		log: { access: 'off', requestId: false },
	};
}

/** Knows the tenant by the proxy's header; the scope it takes from the token, which is forwarded as it came. */
async function startUpstream(): Promise<Server> {
	const server = createServer((req, res) => {
		const [, payload = ''] = req.headers.authorization?.split('.') ?? [];
		const { scope } = JSON.parse(Buffer.from(payload, 'base64url').toString());
		const body = { sub: req.headers['x-proxy-tenant'], scope: typeof scope === 'string' ? scope : '' };
		res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	return server;
}
