import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readJwks } from '../../../../packages/gate/src/identity/key-set.ts';
import type { IdentitySeed } from '../../../../packages/gate/src/identity/trust.ts';
import { FetchError } from '../../../../packages/gate/src/jwks/fetch-keys.ts';
import { type Fetches, KeyRefresher } from '../../../../packages/gate/src/jwks/key-refresher.ts';
import type { RemoteIssuer } from '../../../../packages/gate/src/jwks/remote-issuer.ts';
import type { IdentityFiles } from '../../../../packages/proxy/src/control/files/identity-files.ts';
import { RemoteKeys } from '../../../../packages/proxy/src/control/jwks/remote-keys.ts';
import { RETRY_MS } from '../../../../packages/proxy/src/control/state/reconciler.ts';
import type { ToWorker } from '../../../../packages/proxy/src/shared/messages.ts';
import { jwkOf, jwks, keyFor, seedWith } from '../../../fixtures/issuer-keys.ts';
import { FakeTime, settle } from '../fixtures/fake-time.ts';
import { ReconciledPool } from '../fixtures/reconciled.ts';

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

const FILED = seedWith(setOf('filed'), { issuer: 'filed' });
const FIRST: IdentityFiles = { identity: { issuers: [seedOf('a'), FILED] }, remotes: [remote('a')] };

/** Remote keys over a pool of fake threads; issuers publish what the test says. */
class TestKeys {
	readonly time = new FakeTime();
	readonly published = new Map<string, string | Error>([['a', setOf('one')]]);
	readonly keys: RemoteKeys = new RemoteKeys(
		FIRST.remotes,
		(issuer, fetches) => this.#refresher(issuer, fetches),
		this.time,
		() => this.pool.resources.identity.changed(),
	);
	readonly pool = new ReconciledPool({ identity: FIRST, routes: [] }, { keys: this.keys }, this.time);
	readonly #log = this.pool.log;

	async serve(): Promise<void> {
		const started = this.keys.start(FIRST.remotes, 2_000);
		await settle();
		await this.time.advance(2_000);
		await started;
		await this.pool.serve();
		await settle();
	}

	get inForce(): unknown {
		return kidsIn(this.pool.inForce.identity);
	}

	get all() {
		return [...this.keys.all];
	}

	/** As a reload does. */
	set(...remotes: RemoteIssuer[]): Promise<void> {
		const issuers = [...remotes.map(({ issuer }) => seedOf(issuer)), FILED];
		return this.pool.resources.identity.set({ identity: { issuers }, remotes });
	}

	/** By issuer, the names of the keys that all workers were last told of. */
	get told(): unknown[] {
		return this.pool.spawned.map(({ thread }) => {
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
				log: this.#log.logger,
			},
			fetches,
		);
	}
}

function kidsIn({ issuers }: IdentitySeed) {
	return Object.fromEntries(issuers.map(({ issuer, keys }) => [issuer, keys?.keys.map(({ kid }) => kid)]));
}

describe('keys over the network', () => {
	test('are applied by all workers in one round, and later workers start with them', async () => {
		const test = new TestKeys();
		await test.serve();
		assert.deepEqual(test.inForce, { a: ['one'], filed: ['filed'] });
		test.published.set('a', setOf('one', 'two'));
		await test.time.advance(10_000);
		assert.deepEqual(test.inForce, { a: ['one', 'two'], filed: ['filed'] });
		assert.deepEqual(test.told, [test.inForce, test.inForce]);
		for (const { thread } of test.pool.spawned) assert.deepEqual(thread.types, ['prepare-identity', 'commit']);
		assert.equal(test.keys.awaited.size, 0);
	});

	test('keys that one worker refuses are tried again until all have them', async () => {
		const test = new TestKeys();
		await test.serve();
		test.pool.thread(1).temper = 'refusing';
		test.published.set('a', setOf('two'));
		await test.time.advance(10_000);
		assert.deepEqual(test.inForce, { a: ['one'], filed: ['filed'] });
		assert.match(String(test.pool.log.fields('keys not applied; trying again').cause), /worker 1 refused/);
		test.pool.thread(1).temper = 'obedient';
		await test.time.advance(RETRY_MS);
		assert.deepEqual(test.inForce, { a: ['two'], filed: ['filed'] });
	});

	test('do not hold up the start, which waits for them as long as for probes', async () => {
		const test = new TestKeys();
		test.published.clear();
		await test.serve();
		assert.deepEqual([...test.keys.awaited], ['a']);
		test.published.set('a', setOf('one'));
		await test.time.advance(10_000);
		assert.deepEqual([...test.keys.awaited], []);
		assert.deepEqual(test.inForce, { a: ['one'], filed: ['filed'] });
	});

	test('keys of an issuer that a reload adds are fetched first, and without them nothing changes', async () => {
		const test = new TestKeys();
		await test.serve();
		await assert.rejects(test.set(remote('a'), remote('b')), /^Error: no keys of b: status 500$/);
		assert.deepEqual(
			test.all.map(({ issuer }) => issuer.issuer),
			['a'],
		);
		test.published.set('b', setOf('bee'));
		await test.set(remote('a'), remote('b'));
		assert.deepEqual(test.inForce, { a: ['one'], b: ['bee'], filed: ['filed'] });
		const { length } = test.all;
		test.all[1]!.unknownKey();
		assert.equal(length, 2);
	});

	test('are not fetched again if a reload keeps their issuer, and no more if it removes it', async () => {
		const test = new TestKeys();
		await test.serve();
		const [before] = test.all;
		await test.set(remote('a'));
		assert.equal(test.all[0], before);
		assert.equal(before!.fetches.success, 1);
		test.published.set('a', setOf('one', 'two'));
		await test.set(remote('a', { refreshMs: 5_000 }));
		assert.notEqual(test.all[0], before);
		await test.set();
		await test.time.advance(60_000);
		// Its own fetch, and that of the one that has taken its place: counts go on.
		assert.deepEqual([test.all, before!.fetches.success], [[], 2]);
		assert.equal(test.time.pending, 0);
	});

	test('new keys and a reload never undo each other', async () => {
		const test = new TestKeys();
		await test.serve();
		test.published.set('a', setOf('two'));
		const reload = test.pool.resources.identity.set({
			...FIRST,
			identity: { issuers: [seedOf('a'), seedWith(setOf('new'), { issuer: 'filed' })] },
		});
		await test.time.advance(10_000);
		await reload;
		assert.deepEqual(test.inForce, { a: ['two'], filed: ['new'] });
		assert.deepEqual(test.told, [test.inForce, test.inForce]);
	});
});
