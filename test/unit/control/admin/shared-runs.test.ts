import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SharedRuns } from '../../../../packages/proxy/src/control/admin/scrape.ts';

function runs() {
	const ends: PromiseWithResolvers<number>[] = [];
	const shared = new SharedRuns(() => {
		const end = Promise.withResolvers<number>();
		ends.push(end);
		return end.promise;
	});
	return { shared, ends };
}

describe('a page with concurrent requests', () => {
	test('is rendered once for all requests that arrive during a rendering, and starts after them', async () => {
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

	test('is rendered again if the one before failed', async () => {
		const { shared, ends } = runs();
		const [first, second] = [shared.ask(), shared.ask()];
		ends[0]!.reject(new Error('no'));
		await assert.rejects(first);
		await new Promise(setImmediate);
		ends[1]!.resolve(2);
		assert.equal(await second, 2);
	});
});
