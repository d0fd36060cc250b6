import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import type { LogRecord } from '../../../packages/gate/src/shared/log.ts';
import { createLogOutput } from '../../../packages/proxy/src/control/log-output.ts';

const RECORD: LogRecord = { time: new Date(0), level: 'info', target: 'proxy', message: 'ready' };

class FakeStream extends EventEmitter {
	readonly isTTY: boolean;
	written = '';
	writableLength = 0;

	constructor(isTTY: boolean) {
		super();
		this.isTTY = isTTY;
	}

	#waiting: (() => void)[] = [];

	write(text: string, onWritten?: () => void): void {
		this.written += text;
		if (onWritten) this.#waiting.push(onWritten);
	}

	flush(): void {
		for (const onWritten of this.#waiting.splice(0)) onWritten();
	}
}

test('a record is one line of JSON', () => {
	const stream = new FakeStream(true);
	createLogOutput(stream, 'json', {}).writeRecord({ ...RECORD, message: 'two\nlines' });
	assert.match(stream.written, /^[^\n]+\n$/);
	assert.equal(JSON.parse(stream.written).message, 'two\nlines');
});

for (const [what, isTTY, env, coloured] of [
	['a terminal', true, {}, true],
	['a terminal with NO_COLOR', true, { NO_COLOR: '1' }, false],
	['a terminal with an empty NO_COLOR', true, { NO_COLOR: '' }, true],
	['a file', false, {}, false],
] as const) {
	test(`pretty lines on ${what} have ${coloured ? '' : 'no '}colours`, () => {
		const stream = new FakeStream(isTTY);
		createLogOutput(stream, 'pretty', env).writeRecord(RECORD);
		assert.equal(stream.written.includes('\x1b['), coloured);
	});
}

test('a closed reader is harmless', () => {
	const stream = new FakeStream(false);
	createLogOutput(stream, 'json', {}).writeRecord;
	stream.emit('error', new Error('EPIPE'));
});

test('a reader that does not keep up loses lines, and gets their number', () => {
	const stream = new FakeStream(false);
	const write = createLogOutput(stream, 'json', {}).writeRecord;
	write({ ...RECORD, message: 'before' });
	stream.writableLength = 5 * 1024 * 1024;
	write({ ...RECORD, message: 'lost' });
	write({ ...RECORD, message: 'lost, too' });
	stream.writableLength = 0;
	write({ ...RECORD, message: 'after' });
	write({ ...RECORD, message: 'later' });
	const lines = stream.written
		.trimEnd()
		.split('\n')
		.map((line) => JSON.parse(line));
	assert.deepEqual(
		lines.map(({ level, message, lines }) => [level, message, lines]),
		[
			['info', 'before', undefined],
			['warn', 'log lines are missing here: the reader did not keep up, or a write failed', 2],
			['info', 'after', undefined],
			['info', 'later', undefined],
		],
	);
});

test('lines of an access log are written as they are, and their sender learns when', () => {
	const stream = new FakeStream(false);
	let written = 0;
	createLogOutput(stream, 'pretty', {}).writeLines('{"a":1}\n{"b":2}\n', 0, () => written++);
	assert.equal(stream.written, '{"a":1}\n{"b":2}\n');
	assert.equal(written, 0);
	stream.flush();
	assert.equal(written, 1);
});

test('lines that were dropped earlier are reported before the next ones, like its own', () => {
	const stream = new FakeStream(false);
	const { writeRecord, writeLines } = createLogOutput(stream, 'json', {});
	stream.writableLength = 5 * 1024 * 1024;
	writeRecord({ ...RECORD, message: 'lost' });
	// The sender has a bound of its own.
	writeLines('{"a":1}\n', 3, () => {});
	stream.writableLength = 0;
	writeRecord({ ...RECORD, message: 'after' });
	const lines = stream.written
		.trimEnd()
		.split('\n')
		.map((line) => JSON.parse(line));
	assert.deepEqual(
		lines.map(({ a, message, lines }) => a ?? [message, lines]),
		[['log lines are missing here: the reader did not keep up, or a write failed', 4], 1, ['after', undefined]],
	);
});

test('the end waits for the reader, but not for long, and comes once', (t) => {
	t.mock.timers.enable({ apis: ['setTimeout'] });
	const stream = new FakeStream(false);
	const { whenWritten } = createLogOutput(stream, 'json', {});
	const ends: string[] = [];
	whenWritten(1000, () => ends.push('nothing waits'));
	assert.deepEqual(ends.splice(0), ['nothing waits']);
	stream.writableLength = 1;
	whenWritten(1000, () => ends.push('written'));
	assert.equal(ends.length, 0);
	stream.flush();
	t.mock.timers.tick(1000);
	assert.deepEqual(ends.splice(0), ['written']);
	whenWritten(1000, () => ends.push('too late'));
	t.mock.timers.tick(1000);
	stream.flush();
	assert.deepEqual(ends, ['too late']);
});
