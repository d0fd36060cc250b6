import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RELOADED_PARTS, ReloadJournal } from '../../../../packages/proxy/src/control/reload/journal.ts';

const FAILED = { part: 'tls', result: 'failure', asked: 'SIGHUP', cause: 'no such file', generation: 1 } as const;

describe('the journal of reloads', () => {
	test('counts the start as the moment at which all was taken over', () => {
		const journal = new ReloadJournal(() => 5);
		for (const part of RELOADED_PARTS) {
			assert.deepEqual([journal.last(part, 'success'), journal.last(part, 'failure')], [5, undefined]);
		}
		assert.deepEqual(journal.recent, []);
	});

	test('has for each part the last success, and the last failure with its cause', () => {
		let now = 5;
		const journal = new ReloadJournal(() => now);
		now = 6;
		journal.add(FAILED);
		now = 7;
		journal.add({ ...FAILED, part: 'routes', result: 'success', cause: undefined, generation: 2 });
		assert.deepEqual([journal.last('tls', 'success'), journal.last('tls', 'failure')], [5, 6]);
		assert.deepEqual([journal.last('routes', 'success'), journal.last('routes', 'failure')], [7, undefined]);
		assert.deepEqual(journal.recent[1], { ...FAILED, atSeconds: 6 });
		assert.equal(journal.recent[0]!.part, 'routes');
	});

	test('keeps thirty entries', () => {
		const journal = new ReloadJournal(() => 0);
		for (let i = 0; i < 40; i++) journal.add({ ...FAILED, generation: i });
		assert.deepEqual([journal.recent.length, journal.recent[0]!.generation], [30, 39]);
	});
});
