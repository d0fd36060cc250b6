import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { FLAG } from '../../../packages/proxy/src/http2/frame-format.ts';
import { HeaderBlockReader } from '../../../packages/proxy/src/http2/header-block-reader.ts';

const MAX_HEADER_BYTES = 16_384;
const END = FLAG.END_HEADERS;

/** A block that comes in frames of these lengths, each filled with one letter. */
class Sender {
	readonly reader = new HeaderBlockReader(MAX_HEADER_BYTES);
	readonly #frames: readonly Buffer[];
	#sent = 0;
	/** Its block, once it is complete. */
	block: string | undefined;

	constructor(lengths: readonly number[], letter: number) {
		this.#frames = lengths.map((length, i) => Buffer.alloc(length, letter + i));
	}

	get whole(): string {
		return Buffer.concat(this.#frames).toString();
	}

	/** @returns the memory of the block, if it is complete now. */
	send(): ArrayBufferLike | undefined {
		const bytes = this.#frames[this.#sent];
		if (bytes === undefined) return undefined;
		const flags = this.#sent === this.#frames.length - 1 ? END : 0;
		const isComplete =
			this.#sent++ === 0
				? this.reader.begin(flags, 1, bytes, 0, bytes.length)
				: this.reader.goOn(flags, 1, bytes, 0, bytes.length);
		if (!isComplete) return undefined;
		const { bytes: block, from, to } = this.reader;
		this.block = block.toString('latin1', from, to);
		this.reader.forget();
		return block.buffer;
	}
}

describe('a header block in several frames', () => {
	it('arrives whole, whatever blocks other connections send in between', () => {
		const lengths = fc.array(fc.constantFrom(0, 1, 300, 16_384), { minLength: 1, maxLength: 9 });
		fc.assert(
			fc.property(fc.array(lengths, { minLength: 1, maxLength: 5 }), fc.array(fc.nat(4)), (blocks, order) => {
				const senders = blocks.map((block, i) => new Sender(block, 65 + 10 * i));
				for (const i of order) senders[i % senders.length]!.send();
				for (const sender of senders) {
					while (sender.block === undefined) sender.send();
					assert.equal(sender.block, sender.whole);
				}
			}),
		);
	});

	it('is put together in the same memory as the one before, whichever connection that came from', () => {
		const memory = () => {
			const sender = new Sender(new Array(9).fill(16_384), 65);
			for (;;) {
				const complete = sender.send();
				if (complete !== undefined) return complete;
			}
		};
		const first = memory();
		assert.equal(memory(), first);
		assert.equal(memory(), first);
	});
});
