import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import type { LimiterConfig } from '../../src/config/config.ts';
import type { StoreFiles } from '../../src/control/files/store-files.ts';
import { StoreClient } from '../../src/control/store/client.ts';
import type { LeaseBatch, LeaseCall } from '../../src/control/store/contract.ts';
import type { StoreFailureReason } from '../../src/control/store/failure.ts';
import { redisStore } from '../../src/control/store/redis.ts';
import { RedisLeaseStore } from '../../src/control/store/redis-lease-store.ts';
import { SharedRevocations } from '../../src/control/store/shared-revocations.ts';
import { systemTimers } from '../../src/control/timers.ts';
import { NOTHING_REVOKED } from '../../src/identity/revocations.ts';
import { systemClock } from '../../src/shared/clock.ts';
import type { TlsMaterial } from '../../src/shared/messages.ts';
import { RateLimitedLog } from '../../src/shared/rate-limited-log.ts';
import { blockNamed } from '../fixtures/doc-blocks.ts';
import { freePort } from '../fixtures/free-port.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { type RedisServer, startRedis, startSentinel } from '../fixtures/redis-server.ts';
import { until } from '../fixtures/wait.ts';
import { RecordedLog } from '../unit/control/fixtures/recorded-log.ts';
import { missingTools } from './tools.ts';

/** The client and the ledgers against a real redis-server: what it says when it is away, full, read-only, failing over. */

const skip = missingTools('redis-server', 'redis-sentinel');
const NO_FILES: StoreFiles = {
	password: undefined,
	sentinelPassword: undefined,
	secret: undefined,
	ca: undefined,
	identity: undefined,
};
/** Generous: what is tested is what becomes of a failure, not how fast a machine is. */
const TIMEOUT_MS = 1_500;

interface Connected extends Disposable {
	readonly client: StoreClient;
	readonly store: RedisLeaseStore;
	/** One call for one tenant; resolves with what was granted, or why nothing was. */
	readonly take: (want: number) => Promise<number | StoreFailureReason>;
}

let runs = 0;

async function connect(
	server: RedisServer | readonly RedisServer[],
	config: Partial<LimiterConfig> = {},
	files: Partial<StoreFiles> = {},
	key = 'aaaaaaaaaaaaaaaa',
): Promise<Connected> {
	const complete: LimiterConfig = {
		store: [server].flat().map(({ port }) => ({ host: '127.0.0.1', port: Number(port), tls: false, database: 0 })),
		sentinelName: undefined,
		cluster: false,
		onStoreFailure: 'share',
		replicas: 1,
		username: undefined,
		passwordPath: undefined,
		sentinelUsername: undefined,
		sentinelPasswordPath: undefined,
		caPath: undefined,
		certPath: undefined,
		keyPath: undefined,
		serverName: undefined,
		secretPath: undefined,
		prefix: 'test',
		timeoutMs: TIMEOUT_MS,
		revocations: false,
		...config,
	};
	const client = new StoreClient({
		open: redisStore(complete, { ...NO_FILES, ...files }),
		timeoutMs: complete.timeoutMs,
		timers: systemTimers,
		random: Math.random,
	});
	const store = new RedisLeaseStore(client, complete.prefix);
	const replica = (++runs).toString(16).padStart(16, '0');
	let seq = 0;
	let held = 0;
	const take = async (want: number) => {
		const call = { key, rps: 100, capacity: 50, term: 1, known: held > 0, held, spent: 0, want };
		try {
			const { grants } = await store.lease({ replica, seq: ++seq, leaving: false, bornMs: 1, calls: [call] });
			held += grants[0]!.granted;
			return grants[0]!.granted;
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

	it('grants what the ledger has, to two replicas together', async () => {
		using a = await connect(server, {}, {}, '000000000000000a');
		using b = await connect(server, {}, {}, '000000000000000a');
		assert.equal(await a.take(30), 30);
		const rest = (await b.take(30)) as number;
		// What has come back in the meantime is not ours to say; a second would be 100.
		assert.ok(rest >= 20 && rest <= 30, String(rest));
		assert.equal(a.client.state.type, 'up');
	});

	it('does a thousand calls at once, and every key expires but the one that must not', async () => {
		using a = await connect(server);
		const calls = Array.from({ length: 1_000 }, (_, i): LeaseCall => {
			const key = `${i % 2 ? 's' : ''}${(i * 7919).toString(16).padStart(16, '0')}`;
			const rps = i % 2 ? 0 : 10;
			return { key, rps, capacity: 10 + i, term: 1, known: false, held: 0, spent: 0, want: 10 };
		});
		const batch: LeaseBatch = { replica: 'f'.repeat(16), seq: 1, leaving: false, bornMs: 1, calls };
		const { grants, replicas } = await a.store.lease(batch);
		assert.equal(grants.length, 1_000);
		assert.ok(grants.every(({ granted }) => granted === 10));
		assert.deepEqual(
			grants.map(({ left }) => left),
			calls.map(({ capacity }) => capacity - 10),
		);
		assert.ok(replicas >= 1);
		const keys = (await server.do('KEYS', '*')) as string[];
		const forever: string[] = [];
		for (const key of keys) if ((await server.do('PTTL', key)) === -1) forever.push(key);
		assert.deepEqual(forever, ['test:{registry}:born']);
		assert.ok(keys.every((key) => key.startsWith('test:')));
	});

	it('knows the script again after it has forgotten it', async () => {
		using a = await connect(server, {}, {}, '000000000000000b');
		assert.equal(await a.take(1), 1);
		await server.do('SCRIPT', 'FLUSH');
		assert.equal(await a.take(1), 1);
		assert.deepEqual([...a.client.counts.failures], []);
	});

	it('is full', async () => {
		using a = await connect(server, {}, {}, '000000000000000c');
		await server.do('CONFIG', 'SET', 'maxmemory', '1');
		assert.equal(await a.take(1), 'full');
		await server.do('CONFIG', 'SET', 'maxmemory', '0');
		assert.equal(await a.take(1), 1);
		assert.equal(a.client.state.type, 'up');
	});

	it('has become a replica, and is the primary again', async () => {
		await using primary = await startRedis();
		await using other = await startRedis();
		using a = await connect(other, {}, {}, '000000000000000d');
		assert.equal(await a.take(1), 1);
		await other.do('REPLICAOF', '127.0.0.1', primary.port);
		await until(async () => (await a.take(1)) === 'read_only', 'the store to be read-only');
		await other.do('REPLICAOF', 'NO', 'ONE');
		await until(async () => typeof (await a.take(1)) === 'number', 'the store to take writes again');
	});

	it('is paused, and answers again', async () => {
		await using paused = await startRedis();
		using a = await connect(paused, { timeoutMs: 200 });
		assert.equal(await a.take(1), 1);
		paused.pause();
		assert.equal(await a.take(1), 'timeout');
		// It is not waited for again before there is a connection.
		assert.equal(a.client.state.type, 'away');
		assert.equal(await a.take(1), 'timeout');
		paused.resume();
		await until(async () => typeof (await a.take(1)) === 'number', 'the store to answer again');
	});

	it('is killed, and started anew without what it had', async () => {
		await using killed = await startRedis();
		using a = await connect(killed);
		assert.equal(await a.take(1), 1);
		await killed.kill();
		await until(async () => (await a.take(1)) === 'unreachable', 'the store to be gone');
		await killed.start();
		await until(async () => typeof (await a.take(1)) === 'number', 'the store to be back');
		assert.equal(a.client.state.type, 'up');
	});

	it('wants credentials, and no more rights than the documentation says', async () => {
		await using guarded = await startRedis();
		const rules = /^ACL SETUSER .*$/m.exec(readFileSync('docs/limits.md', 'utf8'))?.[0];
		assert.ok(rules, 'docs/limits.md has no ACL rules');
		await guarded.do(...rules.replace('PASSWORD', 'hunter2').split(' '));
		await guarded.do('ACL', 'SETUSER', 'default', 'off');
		const user = { username: 'edge', prefix: 'proxy' };
		using stranger = await connect(guarded, { prefix: 'proxy' });
		assert.equal(await stranger.take(1), 'credentials');
		using wrong = await connect(guarded, user, { password: 'hunter3' });
		assert.equal(await wrong.take(1), 'credentials');
		using right = await connect(guarded, user, { password: 'hunter2' });
		assert.equal(await right.take(1), 1);
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
			takeOver: async () => {},
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
			serials: [{ issuer: 'C=DE, CN=Clients', serial: 'A1B' }],
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

		it('believes the CA that it is given, and shows its certificate', async () => {
			using a = await connect(secured, tls('localhost'), { ca: ca(), identity: identity() });
			assert.equal(await a.take(1), 1);
		});

		it('refuses a store that is not who it says, whatever the environment allows', async () => {
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
		// By default it lies where the kernel takes ports from.
		const bus = ['--cluster-port', await freePort()];
		await using node = await startRedis({
			args: ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1', ...bus],
		});
		await node.do('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
		await until(async () => String(await node.do('CLUSTER', 'INFO')).includes('cluster_state:ok'), 'the cluster');
		using a = await connect(node, { cluster: true });
		const calls = Array.from({ length: 300 }, (_, i): LeaseCall => {
			const key = (i * 104_729).toString(16).padStart(16, '0');
			return { key, rps: 10, capacity: 10, term: 1, known: false, held: 0, spent: 0, want: 5 };
		});
		const { grants } = await a.store.lease({ replica: 'e'.repeat(16), seq: 1, leaving: false, bornMs: 1, calls });
		assert.ok(grants.every(({ granted }) => granted === 5));
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
			20_000,
		);
		using a = await connect(sentinel, { sentinelName: 'main', timeoutMs: 500 });
		await until(async () => typeof (await a.take(1)) === 'number', 'the primary');
		await primary.kill();
		await until(async () => typeof (await a.take(1)) !== 'number', 'the primary to be gone');
		await until(async () => typeof (await a.take(1)) === 'number', 'the other primary', 30_000);
		assert.match(String(await replica.do('INFO', 'replication')), /role:master/);
	});
});
