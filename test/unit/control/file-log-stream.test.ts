import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogOutput, FileLogStream } from '../../../packages/proxy/src/control/log-output.ts';

/** A file with room for so many bytes. */
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
