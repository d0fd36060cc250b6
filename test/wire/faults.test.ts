/**
 * The short form of `npm run faults`: every kind of failure that the bad upstream knows, a few times each, over both
 * protocols. A client gets its own answer, whole, or is told that there is none.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { FAULT_KINDS } from '../load/fault-kinds.ts';
import { FaultRun } from '../load/fault-run.ts';
import { faultsLeft, processLeft } from '../load/leftovers.ts';

const REQUESTS = 500;
/** So that those that are rare in a long run have their turn in a short one. */
const KINDS = FAULT_KINDS.map((kind) => ({ ...kind, weight: 1 }));

test('whatever an upstream does, no answer is silently truncated, duplicated, mixed up or withheld', async () => {
	// The slow kinds take the time of this test; probes every 50 ms would only cost CPU, more than all requests together.
	await using run = await FaultRun.start({ mode: BODY_MODE, seed: 1, kinds: KINDS, talkers: 4, probeSeconds: 0.5 });
	const { ledger } = run;
	const before = processLeft(run.proxy);
	await run.send(() => ledger.played >= REQUESTS || ledger.violationCount > 50);
	await run.closeClients();
	assert.deepEqual(ledger.violations, []);
	assert.deepEqual(await faultsLeft(run, before), []);
	assert.deepEqual(
		KINDS.map(({ name }) => name).filter((name) => !ledger.counts.has(name)),
		[],
		'kinds that had no turn',
	);
});
