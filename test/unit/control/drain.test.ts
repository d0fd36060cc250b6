import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Drain } from '../../../packages/proxy/src/control/drain.ts';
import { FakeTime, settle } from './fixtures/fake-time.ts';
import { RecordedLog } from './fixtures/recorded-log.ts';

function testDrain(delayMs = 0) {
	const time = new FakeTime();
	const log = new RecordedLog();
	const workers = Promise.withResolvers<void>();
	const exits: number[] = [];
	let drains = 0;
	let cuts = 0;
	const drain = new Drain({
		drainWorkers: () => {
			drains++;
			return workers.promise;
		},
		cutWorkers: () => {
			cuts++;
		},
		delayMs,
		limitMs: 25_000,
		timers: time,
		log: log.logger,
		exit: (code) => exits.push(code),
	});
	return { drain, time, log, workers, exits, drained: () => drains, cuts: () => cuts };
}

describe('the drain', () => {
	test('exits with 0 after the last request of the workers', async () => {
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

	test('has the workers end the requests that are left at the limit, and exits with 0 when they have', async () => {
		const { drain, time, workers, exits, log, cuts } = testDrain();
		drain.signal('SIGINT');
		await time.advance(24_999);
		assert.equal(cuts(), 0);
		await time.advance(1);
		assert.equal(cuts(), 1);
		assert.match(log.lines.at(-1)!, /^warn proxy: drain limit reached/);
		assert.deepEqual(exits, []);
		workers.resolve();
		await settle();
		assert.deepEqual(exits, [0]);
	});

	test('exits with 0 a second after the limit if a worker does not end', async () => {
		const { drain, time, exits } = testDrain();
		drain.signal('SIGTERM');
		await time.advance(25_999);
		assert.deepEqual(exits, []);
		await time.advance(1);
		assert.deepEqual(exits, [0]);
	});

	test('ends at once with 1 at the second signal, whichever it is', async () => {
		const { drain, exits } = testDrain();
		drain.signal('SIGTERM');
		drain.signal('SIGINT');
		assert.deepEqual(exits, [1]);
	});
});

describe('the shutdown delay', () => {
	test('precedes the drain, which then has its full time', async () => {
		const { drain, time, log, drained, cuts } = testDrain(5_000);
		drain.signal('SIGTERM');
		await time.advance(4_999);
		assert.deepEqual(log.lines, ['info proxy: not ready any more; still serving until the drain']);
		assert.deepEqual(log.fields('not ready any more; still serving until the drain'), {
			signal: 'SIGTERM',
			delay_ms: 5_000,
		});
		assert.equal(drained(), 0, 'no worker has been told');
		await time.advance(1);
		assert.equal(drained(), 1);
		assert.deepEqual(log.fields('draining'), { signal: 'SIGTERM', limit_ms: 25_000 });
		await time.advance(24_999);
		assert.equal(cuts(), 0);
		await time.advance(1);
		assert.equal(cuts(), 1);
	});

	test('ends with the process, with 1, at the second signal', async () => {
		const { drain, time, exits, log, drained } = testDrain(5_000);
		drain.signal('SIGTERM');
		await time.advance(1_000);
		drain.signal('SIGTERM');
		assert.deepEqual(exits, [1]);
		assert.equal(log.lines.at(-1), 'warn proxy: second signal during the shutdown delay; exiting at once');
		assert.equal(drained(), 0);
	});

	test('a shutdown delay of 0 is off: the drain begins with the signal', () => {
		const { drain, time, drained } = testDrain(0);
		drain.signal('SIGTERM');
		assert.equal(drained(), 1);
		assert.equal(time.pending, 1, 'the limit of the drain, and no other timer');
	});
});
