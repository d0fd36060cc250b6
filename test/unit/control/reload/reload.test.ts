import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DEFAULT_RULES } from '../../../../packages/gate/src/identity/issuer.ts';
import type { IdentitySeed } from '../../../../packages/gate/src/identity/trust.ts';
import type { Config } from '../../../../packages/proxy/src/config/config.ts';
import type { Watched } from '../../../../packages/proxy/src/control/health/health.ts';
import { ReloadJournal } from '../../../../packages/proxy/src/control/reload/journal.ts';
import { Reloader } from '../../../../packages/proxy/src/control/reload/reload.ts';
import { CLOSED, OPEN } from '../../../../packages/proxy/src/memory/breaker-cell.ts';
import type { TlsMaterial, ToWorker } from '../../../../packages/proxy/src/shared/messages.ts';
import { settle } from '../fixtures/fake-time.ts';
import { OLD_TLS, ReconciledPool } from '../fixtures/reconciled.ts';
import { configWith, route } from '../fixtures/routes.ts';

const NEW_TLS: TlsMaterial = { cert: 'new', key: 'new', ca: 'new' };
const EXPIRED = { line: 3, key: 'tls.cert_path', file: 'server.crt', message: 'the leaf expired yesterday' };
const DOUBT = { line: 9, key: 'routes[0].prefix', message: 'looks like a glob' };
const keyed = (pem: string): IdentitySeed => {
	const keys = { named: false, keys: [{ kid: undefined, pem, algorithms: DEFAULT_RULES.algorithms }] };
	return { issuers: [{ ...DEFAULT_RULES, issuer: 'i', audience: ['a'], keys, remote: false }] };
};
const OLD_KEY = keyed('old');
const NEW_KEY = keyed('new');
const OLD_ROUTES = [route('/a', 'old:1')];

/** In force before the first reload. */
const AT_START = {
	tls: OLD_TLS,
	identity: OLD_KEY,
	upstreamTls: [],
	reloading: false,
	generation: 1,
	reloads: { success: 0, failure: 0 },
	failures: [],
	needsRestart: undefined,
};

/** The same, with a key that is reloaded. */
function withJwt(config: Config): Config {
	return { ...config, jwt: { ...config.jwt!, reload: true } };
}

/** A reloader over a pool of fake threads; the files are what the test says they are. */
class TestReload extends ReconciledPool {
	readonly journal = new ReloadJournal(() => this.time.wallSeconds());
	readonly reloader: Reloader;
	/** What is in the files now. */
	readConfig: () => Config = () => configWith([route('/a', 'new:1')]);
	readTls: () => TlsMaterial = () => NEW_TLS;
	readIdentity: () => IdentitySeed = () => NEW_KEY;
	keysChanged = false;
	/** Upstreams in the order in which they were probed; they are all healthy unless named here. */
	readonly probed: string[] = [];
	readonly sick = new Set<string>();
	watched: string[] = [];

	constructor() {
		super(
			{ identity: { identity: OLD_KEY, remotes: [] }, routes: OLD_ROUTES },
			{
				prober: {
					prove: async (upstreams) => this.#probe(upstreams),
					watch: (upstreams) => {
						this.watched = Array.from(upstreams, ({ address }) => address.authority);
					},
				},
			},
		);
		this.reloader = new Reloader({
			booted: configWith(OLD_ROUTES),
			loadConfig: async () => this.readConfig(),
			read: {
				tls: async () => ({ spec: this.readTls(), warnings: [EXPIRED] }),
				identity: async () => ({ spec: { identity: this.readIdentity(), remotes: [] }, warnings: [] }),
				routing: async ({ routes }) => ({ spec: { routes, tls: new Map() }, warnings: [] }),
			},
			resources: this.resources,
			keysChangedInVain: async () => this.keysChanged,
			wallSeconds: () => this.time.wallSeconds(),
			configWarnings: () => [DOUBT],
			inForce: this.inForce,
			journal: this.journal,
			log: this.log.logger,
		});
	}

	static async started(): Promise<TestReload> {
		const test = new TestReload();
		await test.serve();
		test.probed.length = 0;
		return test;
	}

	/** What of a reload is in the log. */
	get outcome(): string[] {
		return this.log.lines.filter((line) => / reload/.test(line));
	}

	get circuits(): [authority: string, circuit: number][] {
		return [...this.upstreams.current.endpoints].map(([authority, { breaker }]) => [authority, breaker.circuit]);
	}

	#probe(upstreams: Iterable<Watched>): void {
		for (const { address, breaker } of upstreams) {
			this.probed.push(address.authority);
			breaker.health(!this.sick.has(address.authority), 0);
		}
	}
}

const BOTH_RELOADED = ['info proxy::reload: mTLS config reloaded', 'info proxy::reload: routing table reloaded'];

describe('a reload', () => {
	test('applies TLS material and routes in all workers, as one new generation', async () => {
		const test = await TestReload.started();
		await test.reloader.request();
		assert.deepEqual(test.outcome, BOTH_RELOADED);
		assert.deepEqual(test.log.fields('mTLS config reloaded'), { generation: 2 });
		assert.deepEqual(test.log.fields('routing table reloaded'), { generation: 2 });
		assert.deepEqual(test.inForce, { ...AT_START, tls: NEW_TLS, generation: 2, reloads: { success: 1, failure: 0 } });
		for (const { thread } of test.spawned) {
			assert.deepEqual(thread.types, ['prepare-tls', 'commit', 'prepare-routing', 'commit']);
		}
		assert.deepEqual(test.watched, ['new:1']);
	});

	test('is in the journal part by part: its trigger, its outcome and the reason', async () => {
		const test = await TestReload.started();
		test.readTls = () => {
			throw new Error('no such file');
		};
		await test.reloader.request({ signal: 'SIGHUP' });
		const entries = test.journal.recent.map(({ atSeconds: _, ...entry }) => entry);
		assert.deepEqual(entries, [
			{ part: 'routes', result: 'success', asked: 'SIGHUP', cause: undefined, generation: 2 },
			{ part: 'tls', result: 'failure', asked: 'SIGHUP', cause: 'no such file', generation: 1 },
		]);
		await test.reloader.request({ changed: ['config.toml'] });
		assert.equal(test.journal.recent[0]!.asked, 'files changed');
	});

	test('applies the identity in a separate round if the configuration reloads it', async () => {
		const test = await TestReload.started();
		test.readConfig = () => withJwt({ ...configWith(OLD_ROUTES), reloadsIdentity: true });
		await test.reloader.request();
		assert.deepEqual(test.outcome, [
			'info proxy::reload: mTLS config reloaded',
			'info proxy::reload: identity reloaded',
			'info proxy::reload: routing table reloaded',
		]);
		assert.equal(test.inForce.identity, NEW_KEY);
		test.readIdentity = () => {
			throw new Error('no such key');
		};
		await test.reloader.request();
		assert.deepEqual(test.log.fields('identity reload failed; keeping old'), { cause: 'no such key', generation: 3 });
		assert.deepEqual([test.inForce.identity, test.inForce.reloads], [NEW_KEY, { success: 1, failure: 1 }]);
	});

	test('names changes in files that are only read at the start', async () => {
		const test = await TestReload.started();
		test.keysChanged = true;
		await test.reloader.request();
		assert.deepEqual(
			test.inForce.needsRestart?.settings.map(({ words }) => words),
			['jwt.jwks_path (config.toml:7: jwt.pub has changed)'],
		);
	});

	test('takes over [[tenants]] in that round, also when the last of them has left the file', async () => {
		const test = await TestReload.started();
		const tenants = [{ name: 'a', rate: { rps: 5, burst: 5 }, concurrency: undefined }];
		test.readConfig = () => ({ ...configWith(OLD_ROUTES), tenants, reloadsIdentity: true });
		test.readIdentity = () => ({ ...OLD_KEY, quotas: { tenants } });
		await test.reloader.request();
		assert.deepEqual(test.inForce.identity, { ...OLD_KEY, quotas: { tenants } });
		test.readConfig = () => configWith(OLD_ROUTES);
		test.readIdentity = () => ({ ...OLD_KEY, quotas: { tenants: [] } });
		await test.reloader.request();
		assert.deepEqual(test.inForce.identity, { ...OLD_KEY, quotas: { tenants: [] } });
		assert.deepEqual(test.inForce.reloads, { success: 2, failure: 0 });
		await test.reloader.request();
		assert.equal(test.outcome.filter((line) => line.includes('identity reloaded')).length, 2);
	});

	test('gives each worker its own counters and the same breakers', async () => {
		const test = await TestReload.started();
		await test.reloader.request();
		const [first, second] = [0, 1].map((worker) => {
			const message = test.thread(worker).received.find(({ type }) => type === 'prepare-routing');
			return (message as Extract<ToWorker, { type: 'prepare-routing' }>).routing.endpoints[0]!;
		});
		assert.equal(first!.breaker, second!.breaker);
		assert.notEqual(first!.stats, second!.stats);
	});

	test('proves new upstreams before the switch, so that none of their requests meets an open breaker', async () => {
		const test = await TestReload.started();
		test.readConfig = () => configWith([...OLD_ROUTES, route('/b', 'new:1'), route('/c', 'sick:1')]);
		test.sick.add('sick:1');
		let probedFirst: string[] = [];
		const { postMessage } = test.thread(0);
		test.thread(0).postMessage = (message) => {
			if (message.type === 'prepare-routing') probedFirst = [...test.probed];
			postMessage.call(test.thread(0), message);
		};
		await test.reloader.request();
		assert.deepEqual(probedFirst, ['new:1', 'sick:1']);
		assert.deepEqual(test.circuits, [
			['old:1', CLOSED],
			['new:1', CLOSED],
			['sick:1', OPEN],
		]);
	});

	test('keeps an upstream if one of its rules is unchanged', async () => {
		const test = await TestReload.started();
		test.readConfig = () => configWith([...OLD_ROUTES, route('/more', 'old:1')]);
		await test.reloader.request();
		assert.deepEqual(test.probed, []);
		assert.deepEqual(test.circuits, [['old:1', CLOSED]]);
	});

	test('names the settings that only a restart will change', async () => {
		const test = await TestReload.started();
		const settings = ['health_interval_secs (config.toml:2)', 'tenant_rps (config.toml:1)'];
		test.readConfig = () => configWith(OLD_ROUTES, 'tenant_rps = 7\nhealth_interval_secs = 77\n');
		await test.reloader.request();
		const { keys, ...said } = test.log.fields(
			'needs a restart: settings that the proxy reads only at startup have changed',
		);
		assert.deepEqual([keys, said.settings], [['health_interval_secs', 'tenant_rps'], settings]);
		const since = test.inForce.needsRestart?.sinceSeconds;
		assert.deepEqual([since, test.inForce.reloads], [test.time.wallSeconds(), { success: 1, failure: 0 }]);
		test.time.advance(60_000);
		await test.reloader.request();
		assert.equal(test.inForce.needsRestart?.sinceSeconds, since, 'the first reload that found them');
		test.readConfig = () => configWith(OLD_ROUTES);
		await test.reloader.request();
		assert.equal(test.inForce.needsRestart, undefined, 'the file says again what is in force');
	});

	test('keeps why it has failed, each cause once, until one succeeds', async () => {
		const test = await TestReload.started();
		test.readConfig = () => {
			throw new Error('config.toml:3: tenant_rps: must be a whole number');
		};
		await test.reloader.request();
		assert.deepEqual(test.inForce.failures, ['config.toml:3: tenant_rps: must be a whole number']);
		test.readConfig = () => configWith(OLD_ROUTES);
		await test.reloader.request();
		assert.deepEqual(test.inForce.failures, []);
	});

	test('warns of usable certificates with faults, and of doubtful settings', async () => {
		const test = await TestReload.started();
		await test.reloader.request();
		assert.deepEqual(
			test.log.lines.filter((line) => line.startsWith('warn proxy::reload: config')),
			[
				'warn proxy::reload: config.toml:9: routes[0].prefix: looks like a glob',
				'warn proxy::reload: config.toml:3: tls.cert_path (server.crt): the leaf expired yesterday',
			],
		);
	});
});

describe('a reload that fails', () => {
	test('a file that cannot be read keeps everything, and both messages have the cause', async () => {
		const test = await TestReload.started();
		test.readConfig = () => {
			throw new Error('config.toml:3: routes[0].prefix: must begin with /');
		};
		await test.reloader.request();
		assert.deepEqual(test.outcome, [
			'error proxy::reload: mTLS reload failed; keeping old',
			'error proxy::reload: route reload failed; keeping old table',
		]);
		const fields = { cause: 'config.toml:3: routes[0].prefix: must begin with /', generation: 1 };
		assert.deepEqual(test.log.fields('mTLS reload failed; keeping old'), fields);
		assert.deepEqual(test.log.fields('route reload failed; keeping old table'), fields);
		assert.deepEqual(test.inForce, { ...AT_START, reloads: { success: 0, failure: 1 }, failures: [fields.cause] });
		assert.deepEqual(
			test.spawned.flatMap(({ thread }) => thread.types),
			[],
		);
	});

	test('TLS files that cannot be used keep the old material, and the routes are taken over', async () => {
		const test = await TestReload.started();
		test.readTls = () => {
			throw new Error('the key does not fit');
		};
		await test.reloader.request();
		assert.deepEqual(test.outcome, [
			'error proxy::reload: mTLS reload failed; keeping old',
			'info proxy::reload: routing table reloaded',
		]);
		assert.deepEqual(test.inForce, {
			...AT_START,
			generation: 2,
			reloads: { success: 0, failure: 1 },
			failures: ['the key does not fit'],
		});
	});

	test('routes that one worker refuses stay as they were everywhere, and the TLS material is taken over', async () => {
		const test = await TestReload.started();
		const { upstreams } = test;
		const before = upstreams.current;
		const { postMessage } = test.thread(1);
		test.thread(1).postMessage = (message) => {
			if (message.type === 'prepare-routing') test.thread(1).temper = 'refusing';
			postMessage.call(test.thread(1), message);
		};
		await test.reloader.request();
		assert.deepEqual(test.outcome, [
			'info proxy::reload: mTLS config reloaded',
			'error proxy::reload: route reload failed; keeping old table',
		]);
		assert.deepEqual(test.log.fields('route reload failed; keeping old table'), {
			cause: 'worker 1 refused: not with me',
			generation: 2,
		});
		assert.equal(upstreams.current, before);
		assert.deepEqual(test.watched, ['old:1']);
		assert.equal(test.thread(0).types.at(-1), 'discard');
	});

	test('a worker that dies over it keeps the old material everywhere, its replacement included', async () => {
		const test = await TestReload.started();
		test.thread(0).temper = 'dying';
		await test.reloader.request();
		assert.equal(test.log.fields('mTLS reload failed; keeping old').cause, 'worker 0 died while applying it');
		assert.equal(test.inForce.tls, OLD_TLS);
		assert.equal(test.thread(1).types[1], 'discard');
	});

	test('the next one can succeed', async () => {
		const test = await TestReload.started();
		test.readTls = () => {
			throw new Error('half written');
		};
		await test.reloader.request();
		test.readTls = () => NEW_TLS;
		await test.reloader.request();
		assert.deepEqual(test.inForce, { ...AT_START, tls: NEW_TLS, generation: 3, reloads: { success: 1, failure: 1 } });
	});
});

describe('signals during a reload', () => {
	test('however many, make it run once more', async () => {
		const test = await TestReload.started();
		let reads = 0;
		test.readConfig = () => {
			reads += 1;
			return configWith(OLD_ROUTES);
		};
		const first = test.reloader.request();
		assert.equal(reads, 1, 'the files have been read');
		const others = [1, 2, 3].map(() => test.reloader.request());
		await Promise.all([first, ...others]);
		assert.equal(reads, 2);
		assert.equal(test.inForce.generation, 3);
	});

	test('a signal after the stop begins no reload, and the current one keeps the old state', async () => {
		const test = await TestReload.started();
		test.thread(0).temper = 'silent';
		const reload = test.reloader.request();
		await settle();
		test.reloader.stop();
		test.reconciler.stop();
		const again = test.reloader.request();
		await test.time.advance(10_000);
		await Promise.all([reload, again]);
		assert.equal(test.log.fields('mTLS reload failed; keeping old').cause, 'worker 0 did not answer within 10 s');
		assert.equal(test.log.fields('route reload failed; keeping old table').cause, 'the proxy is shutting down');
		assert.equal(test.outcome.length, 2);
	});
});
