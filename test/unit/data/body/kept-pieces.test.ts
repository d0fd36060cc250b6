import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { KeptPieces } from '../../../../packages/proxy/src/data/body/kept-pieces.ts';

const PIECE: fc.Arbitrary<Buffer> = fc.oneof(
	{ weight: 4, arbitrary: fc.uint8Array({ minLength: 1, maxLength: 8 }).map((bytes) => Buffer.from(bytes)) },
	{ weight: 1, arbitrary: fc.integer({ min: 4000, max: 20_000 }).map((n) => Buffer.alloc(n, `${n} `)) },
);

describe('pieces of a body that wait', () => {
	it('are what was given, in their order, however they are taken', () => {
		const steps = fc.array(fc.oneof({ weight: 3, arbitrary: PIECE }, fc.constant('take' as const)), { maxLength: 80 });
		fc.assert(
			fc.property(steps, (steps) => {
				const kept = new KeptPieces();
				const given: Buffer[] = [];
				const taken: Buffer[] = [];
				const take = () => {
					const piece = kept.shift();
					if (piece === undefined) return false;
					assert.ok(piece.length > 0);
					taken.push(piece);
					return true;
				};
				for (const step of steps) {
					if (step === 'take') take();
					else {
						given.push(Buffer.from(step));
						const read = Buffer.from(step);
						kept.add(read);
						// It is the giver's memory.
						read.fill(0);
					}
					assert.equal(kept.length, Buffer.concat(given).length - Buffer.concat(taken).length);
				}
				while (take());
				assert.deepEqual(Buffer.concat(taken), Buffer.concat(given));
				assert.equal(kept.length, 0);
			}),
			{ numRuns: 500 },
		);
	});

	it('do not touch those of other bodies, with which small ones share their memory', () => {
		const steps = fc.array(fc.tuple(fc.nat(9), PIECE), { maxLength: 200 });
		fc.assert(
			fc.property(steps, (steps) => {
				const bodies = Array.from({ length: 10 }, () => ({ kept: new KeptPieces(), given: [] as Buffer[] }));
				for (const [i, piece] of steps) {
					const read = Buffer.from(piece);
					bodies[i]!.kept.add(read);
					read.fill(0);
					bodies[i]!.given.push(piece);
				}
				for (const { kept, given } of bodies) {
					const taken: Buffer[] = [];
					for (let piece = kept.shift(); piece !== undefined; piece = kept.shift()) taken.push(piece);
					assert.deepEqual(Buffer.concat(taken), Buffer.concat(given));
				}
			}),
		);
	});

	it('make no ArrayBuffer for each small body', () => {
		const buffers = new Set<ArrayBufferLike>();
		for (let i = 0; i < 1000; i++) {
			const kept = new KeptPieces();
			kept.add(Buffer.alloc(100));
			buffers.add(kept.shift()!.buffer);
		}
		assert.ok(buffers.size <= 30, `${buffers.size}`);
	});

	it('are put together if they are small, and stay pieces if they are large', () => {
		const kept = new KeptPieces();
		for (let i = 0; i < 65_536; i++) kept.add(Buffer.from('x'));
		kept.add(Buffer.alloc(4096));
		assert.equal(kept.length, 65_536 + 4096);
		const lengths: number[] = [];
		for (let piece = kept.shift(); piece !== undefined; piece = kept.shift()) lengths.push(piece.length);
		assert.deepEqual(lengths, [16_384, 16_384, 16_384, 16_384, 4096]);
	});
});
