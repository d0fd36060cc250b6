import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createLogger, type LogRecord, parseLogFilter } from '../../../packages/gate/src/shared/log.ts';
import { LINES, PERIOD_MS, RateLimitedLog } from '../../../packages/gate/src/shared/rate-limited-log.ts';

function recorded() {
	const records: LogRecord[] = [];
	let now = 0;
	const log = createLogger(
		parseLogFilter('info'),
		(record) => records.push(record),
		() => new Date(0),
	);
	const limited = new RateLimitedLog(log, { now: () => now, wallSeconds: () => 0 });
	const write = (kind: string) => limited.write('info', 'proxy::test', 'refused', kind, () => ({ kind }));
	return { records, write, advance: (ms: number) => (now += ms) };
}

describe('lines that strangers can provoke', () => {
	it('are written up to the limit in one period', () => {
		const { records, write } = recorded();
		for (let i = 0; i < 1000; i++) write('aud');
		assert.equal(records.length, LINES);
	});

	it('of one kind do not count for another kind', () => {
		const { records, write } = recorded();
		for (let i = 0; i < 1000; i++) write('aud');
		write('iss');
		assert.deepEqual(records.at(-1)?.fields, { kind: 'iss', suppressed: undefined });
	});

	it('report once, in the next period, how many were suppressed', () => {
		const { records, write, advance } = recorded();
		for (let i = 0; i < LINES + 7; i++) write('aud');
		advance(PERIOD_MS);
		write('aud');
		write('aud');
		assert.deepEqual(
			records.slice(LINES).map(({ fields }) => fields?.suppressed),
			[7, undefined],
		);
	});
});
