import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { StoreScript } from '../../../../src/control/store/connection.ts';
import type { LeaseBatch, LeaseCall } from '../../../../src/control/store/contract.ts';
import { StoreFailure } from '../../../../src/control/store/failure.ts';
import { RedisLeaseStore } from '../../../../src/control/store/redis-lease-store.ts';
import { REGISTRY_SCRIPT } from '../../../../src/control/store/scripts.ts';

const CALL: LeaseCall = {
	key: '0123456789abcdef',
	rps: 5,
	capacity: 9,
	term: 2,
	known: true,
	held: -1,
	spent: 4,
	want: 3,
};
const batch = (calls: readonly LeaseCall[]): LeaseBatch => ({
	replica: 'f'.repeat(16),
	seq: 7,
	leaving: false,
	bornMs: 0,
	calls,
});

/** @param ledgers what the ledgers' script answers. */
function build(ledgers: (calls: number) => unknown, registry: unknown = [1_000, 2, 900]) {
	const asked: { script: StoreScript; keys: readonly string[]; args: readonly string[] }[] = [];
	const store = new RedisLeaseStore(
		{
			run: async (script, keys, args) => {
				asked.push({ script, keys, args });
				return script === REGISTRY_SCRIPT ? registry : ledgers(keys.length);
			},
			malformed: () => new StoreFailure('malformed'),
		},
		'edge',
	);
	return { store, asked };
}

describe('the ledgers in Redis', () => {
	it('are asked after the registry, with its birth where none is known', async () => {
		const { store, asked } = build(() => [3, -2]);
		assert.deepEqual(await store.lease(batch([CALL])), {
			nowMs: 1_000,
			replicas: 2,
			bornMs: 900,
			grants: [{ granted: 3, left: -2 }],
		});
		assert.deepEqual(asked[0]?.keys, ['edge:{registry}:replicas', 'edge:{registry}:born']);
		assert.deepEqual(asked[1]?.keys, ['edge:{47}:0123456789abcdef']);
		assert.deepEqual(asked[1]?.args, ['f'.repeat(16), '7', '900', '5', '9', '2', '1', '-1', '4', '3']);
	});

	it('have the rate and the slots of a tenant at one place, and no script has keys of two', async () => {
		const { store, asked } = build((calls) => Array(calls * 2).fill(0));
		const calls = Array.from({ length: 1_000 }, (_, i) => {
			const key = (i >> 1).toString(16).padStart(16, '0');
			return { ...CALL, key: i % 2 === 0 ? key : `s${key}` };
		});
		await store.lease(batch(calls));
		const tagOf = (key: string) => /\{(\w+)\}/.exec(key)?.[1];
		for (const { keys } of asked.slice(1)) assert.equal(new Set(keys.map(tagOf)).size, 1);
		assert.equal(asked.length, 1 + 64);
	});

	for (const [what, ledgers, registry] of [
		['more than was asked for', [4, 0], undefined],
		['less than nothing', [-1, 0], undefined],
		['no number', ['3', 0], undefined],
		['half a number', [1.5, 0], undefined],
		['too few', [3], undefined],
		['too many', [3, 0, 3, 0], undefined],
		['nothing', null, undefined],
		['no replica, not even the one that asks', [3, 0], [1_000, 0, 900]],
		['no birth', [3, 0], [1_000, 2]],
		['a time of its own making', [3, 0], [Number.NaN, 2, 900]],
	] as const) {
		it(`are not believed when they say ${what}`, async () => {
			const { store } = build(() => ledgers, registry);
			await assert.rejects(store.lease(batch([CALL])), { reason: 'malformed' });
		});
	}
});
