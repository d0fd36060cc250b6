import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Drain } from '../../../src/control/drain.ts';
import { FakeTime, settle } from './fixtures/fake-time.ts';
import { RecordedLog } from './fixtures/recorded-log.ts';

function testDrain() {
	const time = new FakeTime();
	const log = new RecordedLog();
	const workers = Promise.withResolvers<void>();
	const exits: number[] = [];
	const drain = new Drain({
		drainWorkers: () => workers.promise,
		limitMs: 25_000,
		timers: time,
		log: log.logger,
		exit: (code) => exits.push(code),
	});
	return { drain, time, log, workers, exits };
}

describe('the drain', () => {
	test('ends with 0 when the workers have ended their last request', async () => {
		const { drain, workers, exits, log } = testDrain();
		drain.signal('SIGTERM');
		await settle();
		assert.deepEqual(exits, []);
		workers.resolve();
		await settle();
		assert.deepEqual(exits, [0]);
		assert.deepEqual(log.fields('draining'), { signal: 'SIGTERM', limit_ms: 25_000 });
		assert.equal(log.lines.at(-1), 'info proxy: drained');
	});

	test('ends with 0 at the limit, whoever is still connected', async () => {
		const { drain, time, exits, log } = testDrain();
		drain.signal('SIGINT');
		await time.advance(24_999);
		assert.deepEqual(exits, []);
		await time.advance(1);
		assert.deepEqual(exits, [0]);
		assert.match(log.lines.at(-1)!, /^warn proxy: drain limit reached/);
	});

	test('ends at once with 1 at the second signal, whichever it is', async () => {
		const { drain, exits } = testDrain();
		drain.signal('SIGTERM');
		drain.signal('SIGINT');
		assert.deepEqual(exits, [1]);
	});
});
