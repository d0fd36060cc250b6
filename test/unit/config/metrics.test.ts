import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { tableOf } from './table.ts';

const { parse, problemOf } = tableOf('metrics');

describe('[metrics]', () => {
	it('accepts buckets in seconds', () => {
		const { metrics } = parse('buckets = [0.5, 1, 2.5]\ngate_buckets = [0.0001]');
		assert.deepEqual(metrics, { buckets: [0.5, 1, 2.5], gateBuckets: [0.0001] });
	});

	for (const [lines, message] of [
		['buckets = []', /metrics\.buckets.* must be a list of 1 to 40 numbers/s],
		['buckets = 1', /metrics\.buckets.* must be a list/s],
		['buckets = [1, 1]', /metrics\.buckets.* must ascend.*sort the list/s],
		['gate_buckets = [2, 1]', /metrics\.gate_buckets.* must ascend/s],
		['buckets = [0]', /metrics\.buckets\[0\].* above 0/s],
		['buckets = [inf]', /metrics\.buckets\[0\].* seconds above 0/s],
		['buckets = ["1"]', /metrics\.buckets\[0\].* seconds above 0/s],
		['buckets = [4000]', /metrics\.buckets\[0\].* at most 3600/s],
		[`buckets = [${Array.from({ length: 41 }, (_, i) => i + 1)}]`, /metrics\.buckets.* 1 to 40/s],
		['bucket = [1]', /bucket.*buckets/s],
	] as const) {
		it(`says what is wrong with ${lines.slice(0, 40)}`, () => assert.match(problemOf(lines), message));
	}
});
