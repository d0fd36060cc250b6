import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { FrameReader, type FrameSink } from '../../../packages/proxy/src/http2/frame-reader.ts';
import { frame } from '../../fixtures/h2-frames.ts';

const UNKNOWN = 0x42;

/** Reads frames, none of which is DATA. */
class Frames implements FrameSink {
	readonly isOverdrawn = false;
	readonly payloads: string[] = [];
	/** Memory of each frame. */
	readonly memory: ArrayBufferLike[] = [];
	readonly #reader = new FrameReader();

	push(bytes: Buffer): void {
		assert.equal(this.#reader.push(bytes, this), bytes.length);
	}
	onDataHead(): void {}
	onDataBytes(): void {}
	onDataEnd(): void {}
	onFrame(_type: number, _flags: number, _streamId: number, bytes: Buffer, from: number, to: number): void {
		this.payloads.push(bytes.toString('latin1', from, to));
		this.memory.push(bytes.buffer);
	}
}

describe('frames that reads have cut', () => {
	it('arrive whole, whatever other connections send in between', () => {
		const length = fc.constantFrom(0, 1, 54, 55, 56, 200, 16_384);
		const piece = fc.record({ connection: fc.nat(4), bytes: fc.constantFrom(1, 8, 9, 60, 300, 10_000, 40_000) });
		fc.assert(
			fc.property(
				fc.array(length, { minLength: 1, maxLength: 6 }),
				fc.array(piece, { maxLength: 60 }),
				(lengths, pieces) => {
					const connections = Array.from({ length: 5 }, (_, i) => {
						const payloads = lengths.map((length, n) => String.fromCharCode(97 + i * 5 + (n % 5)).repeat(length));
						const bytes = Buffer.concat(payloads.map((payload) => frame(UNKNOWN, 0, 0, Buffer.from(payload))));
						return { payloads, bytes, at: 0, frames: new Frames() };
					});
					const send = (connection: (typeof connections)[number], count: number) => {
						const from = connection.at;
						connection.at = Math.min(connection.bytes.length, from + count);
						connection.frames.push(connection.bytes.subarray(from, connection.at));
					};
					for (const { connection, bytes } of pieces) send(connections[connection]!, bytes);
					for (const connection of connections) {
						send(connection, connection.bytes.length);
						assert.deepEqual(connection.frames.payloads, connection.payloads);
					}
				},
			),
		);
	});

	it('are put together in the same memory, one after the other, whichever connection they come from', () => {
		const bytes = frame(UNKNOWN, 0, 0, Buffer.alloc(16_384));
		const cut = () => {
			const frames = new Frames();
			frames.push(bytes.subarray(0, 5000));
			frames.push(bytes.subarray(5000));
			return frames.memory[0];
		};
		const first = cut();
		assert.equal(cut(), first);
		assert.equal(cut(), first);
	});

	it('of a few kilobytes get a buffer of about their size, if there is no other', () => {
		const readers = Array.from({ length: 20 }, () => new Frames());
		const bytes = frame(UNKNOWN, 0, 0, Buffer.alloc(2_500));
		for (const frames of readers) frames.push(bytes.subarray(0, 2_400));
		const last = readers.at(-1)!;
		last.push(bytes.subarray(2_400));
		assert.ok(last.memory[0]!.byteLength <= 2 * bytes.length);
	});
});
