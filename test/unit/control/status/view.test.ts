import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { pageOf, parseView, queryOf } from '../../../../packages/proxy/src/control/status/view.ts';

describe('a view', () => {
	test('is read from the query of an address, and written as one', () => {
		const view = parseView('filter=api%20x&show=trouble&page=3&rows=50');
		assert.deepEqual(view, { filter: 'api x', troubled: true, page: 3, rows: 50 });
		assert.deepEqual(parseView(queryOf(view).slice(1)), view);
		assert.equal(queryOf(parseView('')), '?');
	});

	test('has bounds, whatever is asked for', () => {
		for (const page of ['0', '-1', '1e9', 'x', '', '1.5', '9999999999'])
			assert.equal(parseView(`page=${page}`).page, 1, page);
		assert.equal(parseView('page=999999999').page, 100_000);
		assert.equal(parseView('rows=100000').rows, 200);
		assert.equal(parseView(`filter=${'x'.repeat(5_000)}`).filter.length, 100);
	});

	test('is a page of what matches; one beyond the last is the last', () => {
		const matching = Array.from({ length: 30 }, (_, i) => 2 * i);
		assert.deepEqual(pageOf(matching, parseView('page=9&rows=10')), {
			matching: 30,
			page: 3,
			pages: 3,
			items: [40, 42, 44, 46, 48, 50, 52, 54, 56, 58],
		});
		assert.deepEqual(pageOf([], parseView('')), { matching: 0, page: 1, pages: 1, items: [] });
	});
});
