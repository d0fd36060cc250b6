import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import type { LogRecord } from '../../../packages/gate/src/shared/log.ts';
import { createLogOutput, FileLogStream } from '../../../packages/proxy/src/control/log-output.ts';

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
	// The sender has a separate limit.
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

/** A file with room for this number of bytes. */
class SmallDisk {
	content = '';
	room: number;
	/** Bytes that one call takes at most. */
	most = Number.POSITIVE_INFINITY;
	readonly stream = new FileLogStream((bytes, from) => {
		const count = Math.min(this.room, this.most, bytes.length - from);
		if (count === 0) throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
		this.content += bytes.subarray(from, from + count).toString();
		this.room -= count;
		return count;
	});

	constructor(room: number) {
		this.room = room;
	}
}

const LINE = `${'x'.repeat(9)}\n`;

test('a partial write is completed', () => {
	const disk = new SmallDisk(100);
	disk.most = 3;
	const output = createLogOutput(disk.stream, 'json', {});
	let written = 0;
	output.writeLines(LINE.repeat(5), 0, () => written++);
	assert.deepEqual([disk.content, written], [LINE.repeat(5), 1]);
	assert.deepEqual(output.losses, { accessLines: 0, lines: 0, failing: undefined });
});

test('lines that do not fit are counted, one that was cut included, and waiting writers go on', () => {
	const disk = new SmallDisk(25);
	const output = createLogOutput(disk.stream, 'json', {});
	let written = 0;
	output.writeLines(LINE.repeat(5), 0, () => written++);
	assert.deepEqual([output.losses.accessLines, output.losses.lines, written], [3, 3, 1]);
	assert.equal(output.losses.failing?.code, 'ENOSPC');
	output.writeRecord({ time: new Date(0), level: 'info', target: 'proxy', message: 'lost' });
	assert.deepEqual([output.losses.accessLines, output.losses.lines], [3, 4], 'the line that says so is none of them');
});

test('once there is room again, the cut line ends, the log says how many are missing, and goes on', () => {
	const disk = new SmallDisk(25);
	const output = createLogOutput(disk.stream, 'json', {});
	output.writeLines(LINE.repeat(5), 0, () => {});
	disk.room = 10_000;
	output.writeLines(LINE, 0, () => {});
	const [first, second, cut, said, last, end] = disk.content.split('\n');
	assert.deepEqual([first, second, cut, last, end], [LINE.trim(), LINE.trim(), 'xxxxx', LINE.trim(), '']);
	assert.equal(JSON.parse(said!).lines, 3);
	assert.deepEqual(output.losses, { accessLines: 3, lines: 3, failing: undefined });
});

test('a pipe or terminal that reports a failure is counted likewise, and a file only is written by itself', () => {
	const failing = {
		write: (_: string, then?: (failure?: Error) => void) => then?.(Object.assign(new Error('x'), { code: 'EPIPE' })),
		on: () => {},
		writableLength: 0,
	};
	const output = createLogOutput(failing, 'json', {});
	output.writeLines(LINE.repeat(2), 0, () => {});
	assert.deepEqual([output.losses.accessLines, output.losses.failing?.code], [2, 'EPIPE']);
});
