import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readJwks } from '../../../packages/gate/src/identity/key-set.ts';
import { FetchError, type FetchedKeys } from '../../../packages/gate/src/jwks/fetch-keys.ts';
import { KeyRefresher, type KeyStore } from '../../../packages/gate/src/jwks/key-refresher.ts';
import type { RemoteIssuer } from '../../../packages/gate/src/jwks/remote-issuer.ts';
import { jwkOf, jwks, keyFor } from '../../fixtures/issuer-keys.ts';
import { FakeTime } from '../control/fixtures/fake-time.ts';
import { RecordedLog } from '../control/fixtures/recorded-log.ts';

const [first, second] = [keyFor('RS256'), keyFor('RS256')];
const ONE = jwks(jwkOf(first, { kid: 'one' }));
const BOTH = jwks(jwkOf(first, { kid: 'one' }), jwkOf(second, { kid: 'two' }));
const HOUR = 3_600_000;

const ISSUER: RemoteIssuer = {
	issuer: 'https://issuer.test',
	url: 'https://issuer.test/jwks.json',
	ca: undefined,
	algorithms: ['RS256'],
	refreshMs: 300_000,
	maxStaleMs: 24 * HOUR,
};

/** A refresher whose issuer and clock are the test's. */
class Fetched {
	readonly time = new FakeTime();
	readonly log = new RecordedLog();
	/** When it was asked, in ms. */
	readonly asked: number[] = [];
	readonly kept = new Map<string, { text: string; at: number }>();
	/** Whether it was asked with the set of before, each time. */
	readonly conditional: boolean[] = [];
	/** What `Cache-Control` says. */
	maxAgeMs: number | undefined;
	readonly changes: (readonly string[] | undefined)[] = [];
	/** What the issuer publishes, or why it does not. */
	published: string | Error | Promise<string> = ONE;
	readonly refresher: KeyRefresher;

	constructor({ store = false, issuer = ISSUER }: { store?: boolean; issuer?: RemoteIssuer } = {}) {
		const keyStore: KeyStore = {
			load: async ({ issuer: name }, now) => {
				const kept = this.kept.get(name);
				return kept && { text: kept.text, ageMs: (now - kept.at) * 1000, file: 'kept.json' };
			},
			save: async ({ issuer: name }, text, at) => void this.kept.set(name, { text, at }),
		};
		this.refresher = new KeyRefresher(issuer, {
			fetch: (_issuer, _abandoned, last) => this.#fetch(last),
			store: store ? keyStore : undefined,
			after: this.time.after,
			clock: this.time,
			random: () => 1,
			log: this.log.logger,
		});
	}

	start(): void {
		this.refresher.start(() => this.changes.push(this.kids));
	}

	get kids(): readonly string[] | undefined {
		return this.refresher.value?.keys.map(({ kid = '' }) => kid);
	}

	async #fetch(last: FetchedKeys | undefined): Promise<FetchedKeys> {
		this.asked.push(this.time.now());
		this.conditional.push(last !== undefined);
		const text = await this.published;
		if (text instanceof Error) throw text;
		return { ...readJwks(text, ['RS256']), text, maxAgeMs: this.maxAgeMs };
	}
}

describe('the keys of an issuer', () => {
	it('exist after the first fetch, and follow changes of the issuer, with a line for every fetch', async () => {
		const test = new Fetched();
		test.start();
		assert.equal(await test.refresher.firstAttempt, undefined);
		assert.deepEqual([test.kids, test.asked], [['one'], [0]]);
		await test.time.advance(300_000);
		test.published = BOTH;
		await test.time.advance(300_000);
		test.published = ONE;
		await test.time.advance(300_000);
		assert.deepEqual(test.asked, [0, 300_000, 600_000, 900_000]);
		assert.deepEqual(test.changes, [['one'], ['one', 'two'], ['one']]);
		assert.deepEqual(test.log.lines, [
			'info proxy::jwks: keys fetched, changed',
			'debug proxy::jwks: keys fetched, unchanged',
			'info proxy::jwks: keys fetched, changed',
			'info proxy::jwks: keys fetched, changed',
		]);
		assert.deepEqual(test.refresher.fetches, { success: 4, failure: 0 });
	});

	it('stay unchanged through an outage of an hour, with few fetches', async () => {
		const test = new Fetched();
		test.start();
		await test.time.advance(299_000);
		test.published = new FetchError('status 500');
		await test.time.advance(HOUR);
		assert.deepEqual([test.kids, test.changes], [['one'], [['one']]]);
		assert.ok(test.asked.length < 70, `asked ${test.asked.length} times`);
		const { cause, age_s: age } = test.log.fields('keys not fetched; keeping old');
		assert.deepEqual([cause, (age as number) > 3500], ['status 500', true]);
		test.published = ONE;
		await test.time.advance(60_000);
		const { failures } = test.log.fields('keys fetched again, unchanged');
		assert.ok((failures as number) > 50);
		test.published = BOTH;
		await test.time.advance(300_000);
		assert.deepEqual(test.kids, ['one', 'two']);
		assert.ok(test.refresher.ageMs! <= 300_000);
	});

	it('are dropped when they are older than max_stale_secs, and come back with the issuer', async () => {
		const test = new Fetched({ issuer: { ...ISSUER, maxStaleMs: HOUR } });
		test.start();
		await test.time.advance(1);
		test.published = new FetchError('status 500');
		await test.time.advance(HOUR - 2);
		assert.deepEqual(test.kids, ['one']);
		await test.time.advance(2);
		assert.deepEqual([test.kids, test.changes], [undefined, [['one'], undefined]]);
		assert.match(test.log.lines.at(-1)!, /^error proxy::jwks: keys are older than max_stale_secs/);
		test.published = ONE;
		await test.time.advance(60_000);
		assert.deepEqual(test.changes, [['one'], undefined, ['one']]);
	});

	it('are fetched early if a token names an unknown key: once in 10 s, whatever strangers do', async () => {
		const test = new Fetched();
		test.start();
		await test.time.advance(20_000);
		for (let i = 0; i < 600; i++) {
			test.refresher.unknownKey();
			await test.time.advance(100);
		}
		assert.deepEqual(test.asked.slice(1, 4), [20_001, 30_001, 40_001]);
		assert.ok(test.asked.length <= 8, `asked ${test.asked.length} times in a minute`);
	});

	it('stay with refresh_secs = 2 and max_stale_secs = 5 while the issuer answers with max-age=60', async () => {
		const test = new Fetched({ issuer: { ...ISSUER, refreshMs: 2_000, maxStaleMs: 5_000 } });
		test.maxAgeMs = 60_000;
		test.start();
		await test.time.advance(60_000);
		assert.deepEqual([test.kids, test.changes], [['one'], [['one']]]);
		assert.deepEqual(test.asked.slice(0, 3), [0, 2_500, 5_000]);
	});

	it('are asked for with the last set, and without it after a failure', async () => {
		const test = new Fetched();
		test.start();
		await test.time.advance(300_000);
		test.published = new FetchError('status 412');
		await test.time.advance(300_000);
		test.published = ONE;
		await test.time.advance(1_000);
		assert.deepEqual(test.conditional, [false, true, true, false]);
	});

	it('survive a restart in state_dir with their age, and are fetched at once', async () => {
		const test = new Fetched({ store: true });
		test.kept.set(ISSUER.issuer, { text: ONE, at: test.time.wallSeconds() - 3600 });
		test.published = new FetchError('status 500');
		test.start();
		assert.equal(await test.refresher.firstAttempt, undefined);
		await test.time.advance(10);
		assert.deepEqual([test.kids, test.asked, test.refresher.ageMs], [['one'], [0], HOUR + 10]);
		await test.time.advance(23 * HOUR - 11);
		assert.deepEqual(test.kids, ['one']);
		await test.time.advance(1);
		assert.equal(test.kids, undefined);
		test.published = BOTH;
		await test.time.advance(60_000);
		assert.equal(test.kept.get(ISSUER.issuer)!.text, BOTH);
	});

	it('from state_dir are not used if they are too old or unreadable', async () => {
		for (const [text, age] of [
			[ONE, 24 * 3600],
			['{}', 1],
			[jwks(jwkOf(keyFor('ES256'))), 1],
		] as const) {
			const test = new Fetched({ store: true });
			test.kept.set(ISSUER.issuer, { text, at: test.time.wallSeconds() - age });
			test.published = new FetchError('status 500');
			test.start();
			assert.equal(await test.refresher.firstAttempt, 'status 500');
			assert.equal(test.kids, undefined);
			const unusable = test.log.records.filter(({ message }) => /cannot be used/.test(message));
			assert.deepEqual(
				unusable.map(({ level, fields }) => [level, fields?.file]),
				age === 1 ? [['warn', 'kept.json']] : [],
			);
			test.refresher.stop();
		}
	});

	it('do not change after the stop', async () => {
		const test = new Fetched();
		const answer = Promise.withResolvers<string>();
		test.published = answer.promise;
		test.start();
		await test.time.advance(1);
		test.refresher.stop();
		answer.resolve(ONE);
		await test.time.advance(HOUR);
		assert.deepEqual([test.kids, test.changes, test.asked, test.time.pending], [undefined, [], [0], 0]);
	});
});
