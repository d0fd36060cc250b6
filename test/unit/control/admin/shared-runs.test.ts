import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SharedRuns } from '../../../../packages/proxy/src/control/admin/shared-runs.ts';

function runs() {
	const ends: PromiseWithResolvers<number>[] = [];
	const shared = new SharedRuns(() => {
		const end = Promise.withResolvers<number>();
		ends.push(end);
		return end.promise;
	});
	return { shared, ends };
}

describe('a page that many ask for', () => {
	test('is made once for all who ask while another one is being made, and begun after they asked', async () => {
		const { shared, ends } = runs();
		const first = shared.ask();
		const others = [shared.ask(), shared.ask(), shared.ask()];
		assert.equal(ends.length, 1);
		ends[0]!.resolve(1);
		assert.equal(await first, 1);
		await new Promise(setImmediate);
		assert.equal(ends.length, 2);
		ends[1]!.resolve(2);
		assert.deepEqual(await Promise.all(others), [2, 2, 2]);
		const last = shared.ask();
		assert.equal(ends.length, 3);
		ends[2]!.resolve(3);
		assert.equal(await last, 3);
	});

	test('is made anew where the one before has failed', async () => {
		const { shared, ends } = runs();
		const [first, second] = [shared.ask(), shared.ask()];
		ends[0]!.reject(new Error('no'));
		await assert.rejects(first);
		await new Promise(setImmediate);
		ends[1]!.resolve(2);
		assert.equal(await second, 2);
	});
});
