import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { NOTHING_REVOKED } from '../../packages/gate/src/identity/revocations.ts';
import { systemClock } from '../../packages/gate/src/shared/clock.ts';
import { RateLimitedLog } from '../../packages/gate/src/shared/rate-limited-log.ts';
import type { LimiterConfig } from '../../packages/proxy/src/config/config.ts';
import type { StoreFiles } from '../../packages/proxy/src/control/files/store-files.ts';
import { StoreClient } from '../../packages/proxy/src/control/store/client.ts';
import { SHARDS } from '../../packages/proxy/src/control/store/contract.ts';
import type { StoreFailureReason } from '../../packages/proxy/src/control/store/failure.ts';
import { redisStore } from '../../packages/proxy/src/control/store/redis.ts';
import { RedisFleetStore } from '../../packages/proxy/src/control/store/redis-fleet-store.ts';
import { SharedRevocations } from '../../packages/proxy/src/control/store/shared-revocations.ts';
import { systemTimers } from '../../packages/proxy/src/control/timers.ts';
import type { TlsMaterial } from '../../packages/proxy/src/shared/messages.ts';
import { blockNamed } from '../fixtures/doc-blocks.ts';
import { freePort } from '../fixtures/free-port.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { type RedisServer, startRedis, startSentinel } from '../fixtures/redis-server.ts';
import { limiterConfig } from '../fixtures/shared-limits.ts';
import { silentPort } from '../fixtures/silent-port.ts';
import { until } from '../fixtures/wait.ts';
import { RecordedLog } from '../unit/control/fixtures/recorded-log.ts';
import { missingTools } from './tools.ts';

/** The client and the scripts against a real redis-server: what it reports when the store is away, full, read-only, failing over. */

const skip = missingTools('redis-server', 'redis-sentinel');
const NO_FILES: StoreFiles = {
	password: undefined,
	sentinelPassword: undefined,
	secret: undefined,
	ca: undefined,
	identity: undefined,
};
/** Generous: the tests are about failures, not about the machine's speed. */
const TIMEOUT_MS = 10_000;
/** For tests in which a server does not respond. */
const SHORT = { timeoutMs: 1_500 };

interface Connected extends Disposable {
	readonly client: StoreClient;
	readonly store: RedisFleetStore;
	/** Settles this many milliseconds of one tenant's rate. Resolves with how many its time is ahead, or why that failed. */
	readonly take: (ms: number) => Promise<number | StoreFailureReason>;
}

let runs = 0;

async function connect(
	server: RedisServer | readonly RedisServer[],
	config: Partial<LimiterConfig> = {},
	files: Partial<StoreFiles> = {},
	key = 0x41n,
): Promise<Connected> {
	const ports = [server].flat().map(({ port }) => port);
	const complete = limiterConfig(ports, { prefix: 'test', timeoutMs: TIMEOUT_MS, ...config });
	const client = new StoreClient({
		open: redisStore(complete, { ...NO_FILES, ...files }),
		timeoutMs: complete.timeoutMs,
		timers: systemTimers,
		random: Math.random,
	});
	const store = new RedisFleetStore(client, complete.prefix, (++runs).toString(16).padStart(16, '0'));
	const take = async (ms: number) => {
		try {
			const [ahead] = await store.settle([{ key, costMicros: ms * 1000, aheadMicros: ms * 1000 }]);
			return Math.ceil(ahead! / 1000);
		} catch (error) {
			return (error as { reason: StoreFailureReason }).reason;
		}
	};
	await client.start();
	return { client, store, take, [Symbol.dispose]: () => client.stop() };
}

describe('a real redis-server as the store', { skip }, () => {
	let server: RedisServer;
	const open = new AsyncDisposableStack();
	before(async () => {
		server = open.use(await startRedis());
	});
	after(() => open.disposeAsync());

	it('adds up what two replicas have admitted', async () => {
		using a = await connect(server, {}, {}, 0x0an);
		using b = await connect(server, {}, {}, 0x0an);
		assert.equal(await a.take(30_000), 30_000);
		const both = (await b.take(30_000)) as number;
		// What was paid back in the meantime is not known here.
		assert.ok(both > 50_000 && both <= 60_000, String(both));
		assert.equal(a.client.state.type, 'up');
	});

	it('knows the script again after it has forgotten it', async () => {
		using a = await connect(server, {}, {}, 0x0bn);
		assert.equal(typeof (await a.take(1)), 'number');
		await server.do('SCRIPT', 'FLUSH');
		assert.equal(typeof (await a.take(1)), 'number');
		assert.deepEqual([...a.client.counts.failures], []);
	});

	it('is full', async () => {
		using a = await connect(server, {}, {}, 0x0cn);
		await server.do('CONFIG', 'SET', 'maxmemory', '1');
		assert.equal(await a.take(1), 'full');
		await server.do('CONFIG', 'SET', 'maxmemory', '0');
		assert.equal(typeof (await a.take(1)), 'number');
		assert.equal(a.client.state.type, 'up');
	});

	it('has become a replica, and is the primary again', async () => {
		await using primary = await startRedis();
		await using other = await startRedis();
		using a = await connect(other, {}, {}, 0x0dn);
		assert.equal(typeof (await a.take(1)), 'number');
		await other.do('REPLICAOF', '127.0.0.1', primary.port);
		await until(async () => (await a.take(1)) === 'read_only', 'the store to be read-only');
		await other.do('REPLICAOF', 'NO', 'ONE');
		await until(async () => typeof (await a.take(1)) === 'number', 'the store to take writes again');
	});

	it('is paused, and answers again', async () => {
		await using paused = await startRedis();
		using a = await connect(paused, SHORT);
		await until(async () => typeof (await a.take(1)) === 'number', 'the store to answer');
		paused.pause();
		assert.equal(await a.take(1), 'timeout');
		// Later calls do not wait for it before there is a connection.
		assert.equal(a.client.state.type, 'away');
		assert.equal(await a.take(1), 'timeout');
		paused.resume();
		await until(async () => typeof (await a.take(1)) === 'number', 'the store to answer again');
	});

	it('is killed, and starts again without its data', async () => {
		await using killed = await startRedis();
		using a = await connect(killed);
		assert.equal(typeof (await a.take(1)), 'number');
		await killed.kill();
		await until(async () => (await a.take(1)) === 'unreachable', 'the store to be gone');
		await killed.start();
		await until(async () => typeof (await a.take(1)) === 'number', 'the store to be back');
		assert.equal(a.client.state.type, 'up');
	});

	it('needs credentials, and no more rights than documented', async () => {
		await using guarded = await startRedis();
		const rules = /^ACL SETUSER .*$/m.exec(readFileSync('docs/explanation/shared-rate-limits.md', 'utf8'))?.[0];
		assert.ok(rules, 'docs/explanation/shared-rate-limits.md has no ACL rules');
		await guarded.do(...rules.replace('PASSWORD', 'hunter2').split(' '));
		await guarded.do('ACL', 'SETUSER', 'default', 'off');
		const user = { username: 'edge', prefix: 'proxy' };
		using stranger = await connect(guarded, { prefix: 'proxy' });
		assert.equal(await stranger.take(1), 'credentials');
		using wrong = await connect(guarded, user, { password: 'hunter3' });
		assert.equal(await wrong.take(1), 'credentials');
		using right = await connect(guarded, user, { password: 'hunter2' });
		assert.equal(typeof (await right.take(1)), 'number');
		assert.deepEqual(
			await right.client.command('proxy:revoked', ['XREVRANGE', 'proxy:revoked', '+', '-', 'COUNT', '1']),
			[],
		);
		assert.deepEqual(
			await right.client.command('proxy:revoked', ['XRANGE', 'proxy:revoked', '-', '+', 'COUNT', '1']),
			[],
		);
		for (const command of [
			['FLUSHALL'],
			['KEYS', '*'],
			['XADD', 'proxy:revoked', '*', 'lift', 'tenant:a'],
			['CONFIG', 'GET', '*'],
		]) {
			await assert.rejects(right.client.command('x', command), { reason: 'permission' }, command.join(' '));
		}
		using elsewhere = await connect(guarded, { ...user, prefix: 'other' }, { password: 'hunter2' });
		assert.equal(await elsewhere.take(1), 'permission');
	});

	it('has revocations that operators write by hand', async () => {
		using a = await connect(server);
		const log = new RecordedLog();
		const revocations = new SharedRevocations({
			client: a.client,
			prefix: 'proxy',
			onChange: () => {},
			timers: systemTimers,
			log: log.logger,
			limitedLog: new RateLimitedLog(log.logger, systemClock(process.hrtime.bigint())),
		});
		const script = `redis-cli() { command redis-cli -p ${server.port} "$@"; }\n${blockNamed('revocations by hand').code}`;
		execFileSync('bash', ['--norc', '-euc', script], { env: { ...process.env, SHA256: 'ab'.repeat(32) } });
		await revocations.start();
		revocations.stop();
		const { revoked } = revocations.withShared({ clients: { revoked: NOTHING_REVOKED } } as TlsMaterial).clients!;
		assert.deepEqual(revoked, {
			tenants: [],
			tokens: ['7d1f0c9e'],
			certificates: ['AB'.repeat(32)],
			serials: [{ issuer: '2.5.4.3="clients",2.5.4.6="de"', serial: '0A1B' }],
		});
		assert.deepEqual(log.lines, ['info proxy::limiter: revocations read from the store']);
	});

	describe('with TLS', () => {
		let pki: TestPki;
		let secured: RedisServer;
		before(async () => {
			pki = await testPki();
			const { certPath, keyPath } = pki.server;
			secured = open.use(await startRedis({ tls: { certPath, keyPath, caPath: pki.caPath } }));
		});
		const tls = (host = '127.0.0.1') => ({ store: [{ host, port: Number(secured.port), tls: true, database: 0 }] });
		const ca = () => readFileSync(pki.caPath, 'utf8');
		const identity = () => ({ cert: pki.clients.valid.certPem, key: pki.clients.valid.keyPem });

		it('verifies against the configured CA, and sends its certificate', async () => {
			using a = await connect(secured, tls('localhost'), { ca: ca(), identity: identity() });
			assert.equal(typeof (await a.take(1)), 'number');
		});

		it('refuses a store with another name, whatever the environment allows', async () => {
			process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
			try {
				for (const [config, given] of [
					[tls(), { identity: identity() }],
					[
						{ ...tls(), serverName: 'elsewhere.test' },
						{ ca: ca(), identity: identity() },
					],
				] as const) {
					using a = await connect(secured, config, given);
					assert.equal(await a.take(1), 'tls');
				}
			} finally {
				delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
			}
		});

		it('is refused without a certificate', async () => {
			using a = await connect(secured, tls('localhost'), { ca: ca() });
			assert.notEqual(typeof (await a.take(1)), 'number');
			assert.equal(a.client.state.type, 'away');
		});
	});

	it('is a Cluster', async () => {
		// By default it is in the kernel's range of ephemeral ports.
		const bus = ['--cluster-port', await freePort()];
		await using node = await startRedis({
			args: ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1', ...bus],
		});
		await node.do('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
		await until(async () => String(await node.do('CLUSTER', 'INFO')).includes('cluster_state:ok'), 'the cluster');
		using a = await connect(node, { cluster: true });
		const keys = Array.from({ length: 300 }, (_, i) => BigInt(i * 104_729 * SHARDS + 7));
		const answers = await a.store.settle(keys.map((key) => ({ key, costMicros: 1, aheadMicros: 5_000_000 })));
		assert.deepEqual(new Set(answers), new Set([5_000_000]));
		assert.deepEqual(
			await a.store.report(keys.map((key) => ({ key, underWay: 1 }))),
			keys.map(() => 0),
		);
	});

	it('has Sentinels, which choose another primary', async () => {
		await using primary = await startRedis();
		await using replica = await startRedis({ args: ['--replicaof', '127.0.0.1', primary.port] });
		await until(
			async () => String(await replica.do('INFO', 'replication')).includes('master_link_status:up'),
			'the replica to follow',
		);
		await using sentinel = await startSentinel(primary.port);
		await until(
			async () => String(await sentinel.do('INFO', 'sentinel')).includes('slaves=1'),
			'the Sentinel to know the replica',
		);
		using a = await connect(sentinel, { sentinelName: 'main', ...SHORT });
		await until(async () => typeof (await a.take(1)) === 'number', 'the primary');
		await primary.kill();
		await until(async () => typeof (await a.take(1)) !== 'number', 'the primary to be gone');
		await until(async () => typeof (await a.take(1)) === 'number', 'the other primary');
		assert.match(String(await replica.do('INFO', 'replication')), /role:master/);
	});

	it('is found by other Sentinels while the one that is listed first is killed, frozen, or dropped on the way', async () => {
		await using primary = await startRedis();
		const sentinels = await Promise.all([1, 2, 3].map(() => startSentinel(primary.port)));
		await using _stack = {
			[Symbol.asyncDispose]: async () => void (await Promise.all(sentinels.map((one) => one.kill()))),
		};
		for (const [i, first] of sentinels.entries()) {
			const others = sentinels.filter((one) => one !== first);
			first.pause();
			using frozen = await connect([first, ...others], { sentinelName: 'main', ...SHORT });
			await until(async () => typeof (await frozen.take(1)) === 'number', `the primary, with Sentinel ${i + 1} frozen`);
			first.resume();
			// Its current primary freezes later.
			using later = await connect([first, ...others], { sentinelName: 'main', ...SHORT });
			await until(async () => typeof (await later.take(1)) === 'number', 'the primary');
			first.pause();
			let inARow = 0;
			await until(async () => {
				inARow = typeof (await later.take(1)) === 'number' ? inARow + 1 : 0;
				await new Promise((done) => setTimeout(done, 100));
				return inARow === 25;
			}, 'commands to go on, also while the library scans');
			first.resume();
		}
		const [first, ...others] = sentinels as [RedisServer, ...RedisServer[]];
		await first.kill();
		using killed = await connect([first, ...others], { sentinelName: 'main', ...SHORT });
		await until(async () => typeof (await killed.take(1)) === 'number', 'the primary, with a Sentinel killed');
		// Nobody answers there, as when packets are dropped: a full backlog.
		using silent = await silentPort();
		using dropped = await connect([{ port: silent.port } as RedisServer, ...others], {
			sentinelName: 'main',
			...SHORT,
		});
		await until(async () => typeof (await dropped.take(1)) === 'number', 'the primary, with a Sentinel dropped');
	});
});
