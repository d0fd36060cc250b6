import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FLAG, FRAME, FRAME_HEAD, frameHead } from '../../../packages/proxy/src/http2/frame-format.ts';
import { Output } from '../../../packages/proxy/src/http2/output.ts';
import { SLABS } from '../../../packages/proxy/src/shared/slabs.ts';

const LARGE = 5000;

function createOutput(): Output {
	return new Output(
		() => {},
		() => {},
	);
}

/** DATA frames as `[stream, length, flags]`. */
function frames(output: Output): [stream: number, length: number, flags: number][] {
	const taken = output.take();
	const bytes = typeof taken === 'string' ? Buffer.from(taken, 'latin1') : Buffer.from(taken.bytes);
	if (typeof taken !== 'string') SLABS.release(taken.slab);
	const all: [number, number, number][] = [];
	for (let at = 0; at < bytes.length; at += FRAME_HEAD + bytes.readUIntBE(at, 3)) {
		all.push([bytes.readUInt32BE(at + 5), bytes.readUIntBE(at, 3), bytes[at + 4]!]);
	}
	return all;
}

describe('what an HTTP/2 connection is about to send', () => {
	it('does not touch the end of one stream when another sends a little after it', () => {
		const output = createOutput();
		output.writeData(1, Buffer.alloc(LARGE, 'a'), true);
		output.writeData(3, 'little', false);
		assert.deepEqual(frames(output), [
			[1, LARGE, FLAG.END_STREAM],
			[3, 6, 0],
		]);
	});

	it('ends a stream with its last bytes, after the large end of another one', () => {
		const output = createOutput();
		output.writeData(1, Buffer.alloc(LARGE, 'a'), true);
		output.writeData(3, 'little', false);
		output.writeData(3, '', true);
		output.write(frameHead(0, FRAME.DATA, 0, 5));
		assert.deepEqual(frames(output), [
			[1, LARGE, FLAG.END_STREAM],
			[3, 6, FLAG.END_STREAM],
			[5, 0, 0],
		]);
	});

	it('starts a new buffer after a large end', () => {
		const output = createOutput();
		output.writeData(1, Buffer.alloc(LARGE, 'a'), true);
		frames(output);
		output.writeData(3, 'little', false);
		assert.deepEqual(frames(output), [[3, 6, 0]]);
	});
});
