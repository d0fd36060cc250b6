import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
	EARLY_MS,
	EARLY_WITHOUT_KEYS_MS,
	KeyRefresh,
	refreshDoubt,
} from '../../../packages/gate/src/identity/key-refresh.ts';

const RULES = { refreshMs: 300_000, maxStaleMs: 86_400_000 };
const HOUR = 3_600_000;
/** Without jitter. */
const whole = () => 1;

/** One whose first fetch has succeeded at 0. */
function fetched(maxAgeMs?: number, rules = RULES): KeyRefresh {
	const refresh = new KeyRefresh(rules, 0, whole);
	refresh.started(0);
	refresh.succeeded(0, maxAgeMs);
	return refresh;
}

describe('keys from the network', () => {
	it('are fetched at once, and then every refresh_secs', () => {
		const refresh = new KeyRefresh(RULES, 5, whole);
		assert.deepEqual([refresh.isDue(5), refresh.ageAt(5)], [true, undefined]);
		refresh.started(5);
		assert.deepEqual([refresh.isDue(9), refresh.nextAt], [false, Number.POSITIVE_INFINITY]);
		refresh.succeeded(10, undefined);
		assert.deepEqual([refresh.nextAt, refresh.isDue(300_009), refresh.isDue(300_010)], [300_010, false, true]);
	});

	it('are fetched as Cache-Control says, from 10 s to an hour', () => {
		const cases = [
			[1, 10_000],
			[60_000, 60_000],
			[HOUR, HOUR],
			[24 * HOUR, HOUR],
		] as const;
		for (const [maxAge, next] of cases) assert.equal(fetched(maxAge).nextAt, next);
		assert.equal(
			fetched(1, { ...RULES, refreshMs: 2_000 }).nextAt,
			2_000,
			'never more often than refresh_secs asks for',
		);
		assert.equal(fetched(9 * HOUR, { ...RULES, refreshMs: 2 * HOUR }).nextAt, 2 * HOUR);
	});

	it('are fetched before they become stale, whatever Cache-Control says and however fetches end', () => {
		assert.equal(fetched(60_000, { refreshMs: 2_000, maxStaleMs: 5_000 }).nextAt, 2_500);
		assert.equal(fetched(undefined, { refreshMs: 300_000, maxStaleMs: 300_000 }).nextAt, 150_000);
		const duration = fc.integer({ min: 1, max: 100_000_000 });
		const step = fc.record({ maxAgeMs: fc.option(duration, { nil: undefined }), good: fc.boolean() });
		const jitter = fc.double({ min: 0, max: 1, noNaN: true });
		fc.assert(
			fc.property(duration, duration, jitter, fc.array(step), (one, other, random, steps) => {
				const rules = { refreshMs: Math.min(one, other), maxStaleMs: Math.max(one, other) };
				const refresh = new KeyRefresh(rules, 0, () => random);
				refresh.started(0);
				refresh.succeeded(0, steps[0]?.maxAgeMs);
				let [now, staleAt] = [0, rules.maxStaleMs];
				for (const { maxAgeMs, good } of steps) {
					// The last second has no place for another fetch.
					assert.ok(refresh.nextAt < staleAt || staleAt - now <= 1_000, `due ${refresh.nextAt}, stale ${staleAt}`);
					now = refresh.nextAt;
					if (!refresh.isDue(now)) return;
					refresh.started(now);
					if (good) {
						refresh.succeeded(now, maxAgeMs);
						staleAt = now + rules.maxStaleMs;
					} else refresh.failed(now);
				}
			}),
		);
	});

	it('are fetched at once if a token arrives and there are none, at most once a second', () => {
		const refresh = fetched(undefined, { refreshMs: 30_000, maxStaleMs: 60_000 });
		for (let now = refresh.nextAt; !refresh.isStale(now); now = refresh.nextAt) {
			refresh.started(now);
			refresh.failed(now);
		}
		refresh.dropped();
		refresh.started(100_000);
		for (let i = 0; i < 9; i++) refresh.failed(100_000);
		assert.equal(refresh.nextAt, 160_000);
		refresh.unknownKey();
		assert.equal(refresh.nextAt, 100_000 + EARLY_WITHOUT_KEYS_MS);
	});

	it('are fetched at different times by different replicas', () => {
		const refresh = new KeyRefresh(RULES, 0, () => 0);
		refresh.started(0);
		refresh.succeeded(0, undefined);
		assert.equal(refresh.nextAt, 270_000);
		refresh.started(refresh.nextAt);
		refresh.failed(270_000);
		assert.equal(refresh.nextAt, 270_500);
	});

	it('are fetched early for an unknown key, at most once in 10 s', () => {
		const refresh = fetched();
		refresh.unknownKey();
		refresh.unknownKey();
		assert.equal(refresh.nextAt, EARLY_MS);
		refresh.started(EARLY_MS);
		refresh.succeeded(EARLY_MS + 50, undefined);
		assert.equal(refresh.nextAt, EARLY_MS + 50 + 300_000);
		refresh.unknownKey();
		assert.equal(refresh.nextAt, 2 * EARLY_MS);
	});

	it('are fetched once more if a key was missed during a fetch, whose answer may be older than the key', () => {
		const refresh = new KeyRefresh(RULES, 0, whole);
		refresh.started(0);
		refresh.unknownKey();
		refresh.succeeded(3_000, undefined);
		assert.equal(refresh.nextAt, EARLY_MS);
	});

	it('are fetched with growing pauses while the issuer fails, also for unknown kids', () => {
		const refresh = fetched();
		const pauses: number[] = [];
		let now = refresh.nextAt;
		for (let i = 0; i < 9; i++) {
			refresh.started(now);
			refresh.failed(now);
			refresh.unknownKey();
			pauses.push(refresh.nextAt - now);
			now = refresh.nextAt;
		}
		assert.deepEqual(
			pauses,
			[1, 2, 4, 8, 16, 32, 60, 60, 60].map((seconds) => seconds * 1000),
		);
		assert.equal(refresh.failures, 9);
		refresh.started(now);
		refresh.succeeded(now, undefined);
		assert.deepEqual([refresh.failures, refresh.nextAt - now], [0, 300_000]);
	});

	it('are used up to max_stale_secs, also those from before a restart', () => {
		const refresh = fetched();
		refresh.started(300_000);
		assert.equal(refresh.nextAt, RULES.maxStaleMs, 'also while a fetch is under way');
		refresh.failed(310_000);
		assert.deepEqual([refresh.isStale(RULES.maxStaleMs - 1), refresh.isStale(RULES.maxStaleMs)], [false, true]);
		refresh.dropped();
		assert.deepEqual([refresh.isStale(RULES.maxStaleMs), refresh.ageAt(0)], [false, undefined]);
		const restored = new KeyRefresh(RULES, 0, whole);
		restored.restored(0, 86_399_000);
		assert.deepEqual([restored.isDue(0), restored.isStale(999), restored.isStale(1_000)], [true, false, true]);
	});

	it('are never fetched twice within 10 s for unknown keys, however the fetches end', () => {
		const step = fc.record({ wait: fc.nat(40_000), takes: fc.nat(10_000), good: fc.boolean(), unknown: fc.nat(3) });
		fc.assert(
			fc.property(fc.array(step, { maxLength: 60 }), fc.double({ min: 0, max: 1, noNaN: true }), (steps, jitter) => {
				const refresh = new KeyRefresh(RULES, 0, () => jitter);
				let now = 0;
				let last = Number.NEGATIVE_INFINITY;
				let good = false;
				for (const { wait, takes, good: succeeds, unknown } of steps) {
					now += wait;
					for (let i = 0; i < unknown; i++) refresh.unknownKey();
					if (!refresh.isDue(now)) continue;
					if (good) assert.ok(now - last >= EARLY_MS, `${now - last} ms apart`);
					last = now;
					refresh.started(now);
					assert.equal(refresh.isDue(now), false);
					now += takes;
					if (succeeds) refresh.succeeded(now, undefined);
					else refresh.failed(now);
					good = succeeds;
				}
			}),
		);
	});
});

describe('refreshDoubt', () => {
	it('warns if one failed fetch of 10 s can leave no keys, or a fetch must come before refresh_secs', () => {
		for (const [refreshMs, maxStaleMs] of [
			[2_000, 5_000],
			[2_000, 11_999],
			[300_000, 300_000],
			[300_000, 599_999],
		] as const) {
			assert.match(refreshDoubt({ refreshMs, maxStaleMs }) ?? '', /can leave the proxy without keys/);
		}
		assert.match(
			refreshDoubt({ refreshMs: 2_000, maxStaleMs: 5_000 })!,
			/^is 5 with refresh_secs of 2: .* at least 12,/,
		);
		for (const [refreshMs, maxStaleMs] of [
			[2_000, 12_000],
			[300_000, 600_000],
			[300_000, 86_400_000],
		] as const) {
			assert.equal(refreshDoubt({ refreshMs, maxStaleMs }), undefined);
		}
	});
});
