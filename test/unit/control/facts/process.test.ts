import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { loopFact } from '../../../../packages/proxy/src/control/facts/process.ts';

const READING = { sampledAt: 1000, utilization: 0.1, activeMs: 1, idleMs: 9, delayP50: 1, delayP99: 2, delayMax: 3 };

describe("the facts of a worker's event loop", () => {
	test('are those of its last sample', () => {
		assert.deepEqual(loopFact(READING, 1250), { utilization: 0.1, delayP50: 1, delayP99: 2, delayMax: 3 });
	});

	test('is stuck if the next sample is overdue', () => {
		assert.deepEqual(loopFact(READING, 3500), { utilization: 1, delayP50: 1, delayP99: 2000, delayMax: 2000 });
	});

	test('is nothing before the first sample, and while there is no thread', () => {
		assert.equal(loopFact({ ...READING, sampledAt: 0 }, 1250), undefined);
	});
});
