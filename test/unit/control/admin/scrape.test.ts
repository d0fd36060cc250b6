import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { formatFor, SharedRuns } from '../../../../packages/proxy/src/control/admin/scrape.ts';

/** As Prometheus 2 and 3 send it. */
const PROMETHEUS =
	'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1';

describe('the format of the page', () => {
	for (const [accept, format] of [
		[undefined, 'text'],
		['*/*', 'text'],
		['text/plain', 'text'],
		['application/openmetrics-text', 'openmetrics'],
		['Application/OpenMetrics-Text; Version="1.0.0"; charset=utf-8', 'openmetrics'],
		[PROMETHEUS, 'openmetrics'],
		['application/openmetrics-text; version=0.0.1, text/plain;q=0.5', 'text'],
		['application/openmetrics-text;q=0.4,text/plain;version=0.0.4;q=0.5', 'text'],
		['application/openmetrics-text;q=0', 'text'],
		['application/openmetrics-text;q=x', 'text'],
		['text/html,;;=,', 'text'],
	] as const) {
		test(`is ${format} for ${accept ?? 'no Accept'}`, () => assert.equal(formatFor(accept), format));
	}
});

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
