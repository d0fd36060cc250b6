import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RemoteKeys } from '../../../../src/control/jwks/remote-keys.ts';
import { switchIdentity } from '../../../../src/control/reload/reload.ts';
import { readJwks } from '../../../../src/identity/key-set.ts';
import type { IdentitySeed } from '../../../../src/identity/trust.ts';
import { FetchError } from '../../../../src/shared/jwks/fetch-keys.ts';
import { type Fetches, KeyRefresher } from '../../../../src/shared/jwks/key-refresher.ts';
import type { RemoteIssuer } from '../../../../src/shared/jwks/remote-issuer.ts';
import type { ToWorker } from '../../../../src/shared/messages.ts';
import { jwkOf, jwks, keyFor, seedWith } from '../../../fixtures/issuer-keys.ts';
import { settle } from '../fixtures/fake-time.ts';
import { TestPool } from '../fixtures/pool.ts';

const pair = keyFor('RS256');
const setOf = (...kids: string[]) => jwks(...kids.map((kid) => jwkOf(pair, { kid })));
const remote = (name: string, changes: Partial<RemoteIssuer> = {}): RemoteIssuer => ({
	issuer: name,
	url: `https://${name}.test/jwks.json`,
	ca: undefined,
	algorithms: ['RS256'],
	refreshMs: 10_000,
	maxStaleMs: 86_400_000,
	...changes,
});
const seedOf = (issuer: string) => ({ ...seedWith(setOf('x'), { issuer }), keys: undefined, remote: true });

/** Remote keys over a pool of fake threads; issuers publish what the test says. */
class TestKeys extends TestPool {
	inForce: IdentitySeed = { issuers: [seedOf('a'), seedWith(setOf('filed'), { issuer: 'filed' })] };
	readonly published = new Map<string, string | Error>([['a', setOf('one')]]);
	readonly keys = new RemoteKeys([remote('a')], {
		createRefresher: (issuer, fetches) => this.#refresher(issuer, fetches),
		takeOver: () =>
			switchIdentity(
				this.pool,
				() => this.keys.compose(this.inForce),
				(identity) => {
					this.inForce = identity;
					this.keys.inForce(identity);
				},
			),
		timers: this.time,
		log: this.log.logger,
	});

	constructor() {
		super(2);
	}

	async serve(): Promise<void> {
		const started = this.keys.start(2_000);
		await settle();
		await this.time.advance(2_000);
		await started;
		await this.pool.start();
		this.keys.serve();
		await settle();
	}

	/** By issuer, the names of the keys that all workers were last told of. */
	get told(): unknown[] {
		return this.spawned.map(({ thread }) => {
			const last = thread.received.findLast((message) => message.type === 'prepare-identity');
			return last && kidsIn((last as Extract<ToWorker, { type: 'prepare-identity' }>).identity);
		});
	}

	#refresher(issuer: RemoteIssuer, fetches: Fetches): KeyRefresher {
		return new KeyRefresher(
			issuer,
			{
				fetch: async ({ algorithms }) => {
					const text = this.published.get(issuer.issuer) ?? new FetchError('status 500');
					if (text instanceof Error) throw text;
					return { ...readJwks(text, algorithms), text, maxAgeMs: undefined };
				},
				store: undefined,
				after: this.time.after,
				clock: this.time,
				random: () => 1,
				log: this.log.logger,
			},
			fetches,
		);
	}
}

function kidsIn({ issuers }: IdentitySeed) {
	return Object.fromEntries(issuers.map(({ issuer, keys }) => [issuer, keys?.keys.map(({ kid }) => kid)]));
}

describe('keys over the network', () => {
	test('are taken over by all workers in one round, and workers that come later begin with them', async () => {
		const test = new TestKeys();
		await test.serve();
		assert.deepEqual(test.told[0], { a: ['one'], filed: ['filed'] });
		assert.deepEqual(test.told[1], test.told[0]);
		test.published.set('a', setOf('one', 'two'));
		await test.time.advance(10_000);
		assert.deepEqual(test.told[0], { a: ['one', 'two'], filed: ['filed'] });
		assert.deepEqual([test.told[1], kidsIn(test.inForce)], [test.told[0], test.told[0]]);
		for (const { thread } of test.spawned) {
			assert.deepEqual(thread.types, ['prepare-identity', 'commit', 'prepare-identity', 'commit']);
		}
		assert.equal(test.keys.awaited.size, 0);
	});

	test('that one worker refuses are tried again until all have them', async () => {
		const test = new TestKeys();
		await test.serve();
		test.thread(1).temper = 'refusing';
		test.published.set('a', setOf('two'));
		await test.time.advance(10_000);
		assert.deepEqual(kidsIn(test.inForce).a, ['one']);
		assert.match(String(test.log.fields('keys not taken over; trying again').cause), /worker 1 refused/);
		test.thread(1).temper = 'obedient';
		await test.time.advance(1_000);
		assert.deepEqual(kidsIn(test.inForce).a, ['two']);
	});

	test('do not hold up the start, which waits for them as long as for probes', async () => {
		const test = new TestKeys();
		test.published.clear();
		await test.serve();
		assert.deepEqual([...test.keys.awaited], ['a']);
		test.published.set('a', setOf('one'));
		await test.time.advance(10_000);
		assert.deepEqual([...test.keys.awaited], []);
		assert.deepEqual(kidsIn(test.inForce).a, ['one']);
	});

	test('of an issuer that a reload brings are asked for first, and without them nothing changes', async () => {
		const test = new TestKeys();
		await test.serve();
		await assert.rejects(test.keys.plan([remote('a'), remote('b')]), /^Error: no keys of b: status 500$/);
		assert.deepEqual(
			test.keys.all.map(({ issuer }) => issuer.issuer),
			['a'],
		);
		test.published.set('b', setOf('bee'));
		const plan = await test.keys.plan([remote('a'), remote('b')]);
		assert.deepEqual(kidsIn(plan.compose({ issuers: [seedOf('a'), seedOf('b')] })), { a: ['one'], b: ['bee'] });
		plan.apply();
		const { length } = test.keys.all;
		test.keys.all[1]!.unknownKey();
		assert.equal(length, 2);
	});

	test('are not asked for anew where a reload has not changed their issuer, and no more where it has gone', async () => {
		const test = new TestKeys();
		await test.serve();
		const [before] = test.keys.all;
		(await test.keys.plan([remote('a')])).apply();
		assert.equal(test.keys.all[0], before);
		assert.equal(before!.fetches.success, 1);
		test.published.set('a', setOf('one', 'two'));
		(await test.keys.plan([remote('a', { refreshMs: 5_000 })])).apply();
		assert.notEqual(test.keys.all[0], before);
		(await test.keys.plan([])).apply();
		await test.time.advance(60_000);
		// Its own fetch, and that of the one that has taken its place: counts go on.
		assert.deepEqual([test.keys.all, before!.fetches.success], [[], 2]);
		assert.equal(test.time.pending, 0);
	});

	test('and a reload take their turns: neither takes over what the other has replaced', async () => {
		const test = new TestKeys();
		await test.serve();
		test.published.set('a', setOf('two'));
		const reload = switchIdentity(
			test.pool,
			() => test.keys.compose({ issuers: [seedOf('a'), seedWith(setOf('new'), { issuer: 'filed' })] }),
			(identity) => {
				test.inForce = identity;
			},
		);
		await test.time.advance(10_000);
		await reload;
		assert.deepEqual(kidsIn(test.inForce), { a: ['two'], filed: ['new'] });
		assert.deepEqual(test.told, [kidsIn(test.inForce), kidsIn(test.inForce)]);
	});
});
