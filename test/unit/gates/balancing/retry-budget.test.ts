import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { FLOOR, RetryBudget, SHARE } from '../../../../packages/proxy/src/gates/balancing/retry-budget.ts';

/** As many as the budget allows at this moment. */
function spend(budget: RetryBudget, now: number): number {
	let retries = 0;
	for (; budget.allows(now); retries++) budget.retry(now);
	return retries;
}

describe('the budget of retries', () => {
	test('is a fifth of the requests, and ten for an idle service', () => {
		assert.equal(spend(new RetryBudget(), 0), FLOOR);
		const budget = new RetryBudget();
		for (let i = 0; i < 1_000; i++) budget.request(i);
		assert.equal(spend(budget, 1_000), FLOOR + 1_000 * SHARE);
		assert.deepEqual([FLOOR, SHARE], [10, 0.2]);
	});

	test('is that of the last ten seconds', () => {
		const budget = new RetryBudget();
		for (let i = 0; i < 100; i++) budget.request(500);
		assert.equal(spend(budget, 9_999), FLOOR + 20);
		assert.equal(budget.allows(10_000), false, 'what was asked is forgotten first');
		assert.equal(spend(budget, 18_999), 0);
		assert.equal(spend(budget, 19_000), FLOOR);
		assert.equal(spend(budget, 1e9), FLOOR);
	});

	test('applies to any ten seconds', () => {
		const event = fc.record({ after: fc.nat(3_000), retries: fc.boolean() });
		fc.assert(
			fc.property(fc.array(event, { maxLength: 300 }), (events) => {
				const budget = new RetryBudget();
				const asked: number[] = [];
				const sent: number[] = [];
				let now = 0;
				for (const { after, retries } of events) {
					now += after;
					if (!retries) {
						budget.request(now);
						asked.push(now);
					} else if (budget.allows(now)) {
						budget.retry(now);
						sent.push(now);
					}
				}
				for (const end of sent) {
					const within = (times: readonly number[], ms: number) =>
						times.filter((at) => at > end - ms && at <= end).length;
					// It counts whole seconds, of which the first may have been cut off.
					assert.ok(within(sent, 9_000) <= FLOOR + SHARE * within(asked, 10_000));
				}
			}),
		);
	});
});
