import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import {
	drawFleet,
	FLEET_CASES,
	FLEET_CHART,
	FLEET_PAGE,
	readFleetResults,
	simulate,
	withRows,
} from '../../../bench/fleet.ts';

describe('the simulation of a fleet', () => {
	it('keeps the promise in a small case, and gives the same figures again', () => {
		const small = { replicas: 4, tenants: 12, rps: 40 };
		const result = simulate(small, 0.5);
		assert.deepEqual(simulate(small, 0.5), result);
		assert.ok(result.mostPercent <= 100 && result.mostAfterPercent <= 100, JSON.stringify(result));
		assert.ok(result.leastPercent >= 99.5 && result.overPercent >= 95, JSON.stringify(result));
		assert.ok(result.recoveryMs <= 2_000, JSON.stringify(result));
	});

	it('is what the page and the chart show', () => {
		const results = readFleetResults();
		assert.deepEqual(
			results.map(({ replicas, tenants, rps }) => ({ replicas, tenants, rps })),
			FLEET_CASES,
			'npm run fleet makes it anew',
		);
		assert.equal(readFileSync(FLEET_CHART, 'utf8'), drawFleet(results), 'node bench/fleet.ts --draw draws it anew');
		const page = readFileSync(FLEET_PAGE, 'utf8');
		assert.equal(page, withRows(page, results), 'node bench/fleet.ts --draw writes it anew');
	});

	it('has kept the promise in all cases', () => {
		for (const result of readFleetResults()) {
			assert.ok(result.mostPercent <= 100 && result.mostAfterPercent <= 100, JSON.stringify(result));
			assert.ok(
				result.leastPercent >= 99.5 && result.overPercent >= 95 && result.overPercent <= 107,
				JSON.stringify(result),
			);
		}
	});
});
