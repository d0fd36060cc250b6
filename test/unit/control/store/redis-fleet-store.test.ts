import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { StoreScript } from '../../../../packages/proxy/src/control/store/client.ts';
import { StoreFailure } from '../../../../packages/proxy/src/control/store/failure.ts';
import {
	REGISTRY_SCRIPT,
	REPORT_SCRIPT,
	RedisFleetStore,
	SETTLE_SCRIPT,
} from '../../../../packages/proxy/src/control/store/redis-fleet-store.ts';

function answering(answer: unknown) {
	const runs: { script: StoreScript; keys: readonly string[]; args: readonly string[] }[] = [];
	const client = {
		run: async (script: StoreScript, keys: readonly string[], args: readonly string[]) => {
			runs.push({ script, keys, args });
			return answer;
		},
		malformed: () => new StoreFailure('malformed'),
	};
	return { runs, store: new RedisFleetStore(client, 'proxy', 'a'.repeat(16)) };
}

const SPENDING = { key: 0x41n, costMicros: 1_000, aheadMicros: -5 };

describe('the limits in a Redis', () => {
	it('have keys with the number of their layout, and a tag by which a Cluster keeps what belongs together', async () => {
		const { runs, store } = answering([7, null]);
		assert.deepEqual(await store.settle([SPENDING, { ...SPENDING, key: -1n }]), [7, undefined]);
		assert.deepEqual(
			await store.report([
				{ key: 0x41n, underWay: 3 },
				{ key: -1n, underWay: 0 },
			]),
			[7, undefined],
		);
		await assert.rejects(store.register(false, 201.5), { reason: 'malformed' });
		assert.deepEqual(
			runs.map(({ script, keys }) => [script, keys]),
			[
				[SETTLE_SCRIPT, ['proxy:2:{1}:0000000000000041', 'proxy:2:{63}:ffffffffffffffff']],
				[REPORT_SCRIPT, ['proxy:2:{1}:s0000000000000041', 'proxy:2:{63}:sffffffffffffffff']],
				[REGISTRY_SCRIPT, ['proxy:2:{0}:replicas', 'proxy:2:{0}:delays']],
			],
		);
		assert.deepEqual(runs[2]!.args, ['a'.repeat(16), '0', '202']);
	});

	it('believe no answer that cannot be true', async () => {
		for (const answer of ['OK', null, [], [1, 2], [-1], [0.5], ['1'], [Number.NaN], [2 ** 60]]) {
			const { store } = answering(answer);
			await assert.rejects(store.settle([SPENDING]), { reason: 'malformed' }, JSON.stringify(answer));
		}
		for (const answer of [[0, 5], [null, 5], [3], [3, -1]]) {
			await assert.rejects(answering(answer).store.register(false, 0), { reason: 'malformed' }, JSON.stringify(answer));
		}
	});
});
