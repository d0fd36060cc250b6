import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { gatherSmallPieces } from '../../../../src/data/body/small-pieces.ts';

type Step = { readonly piece: Buffer } | 'pause' | 'resume' | 'turn';

const STEP: fc.Arbitrary<Step> = fc.oneof(
	{
		weight: 4,
		arbitrary: fc.uint8Array({ minLength: 1, maxLength: 8 }).map((bytes) => ({ piece: Buffer.from(bytes) })),
	},
	{ weight: 1, arbitrary: fc.integer({ min: 4000, max: 20_000 }).map((n) => ({ piece: Buffer.alloc(n, `${n} `) })) },
	fc.constantFrom('pause' as const, 'resume' as const, 'turn' as const),
);

/** As `node:http` makes it: what it is given is pushed, whether it has been asked for or not. */
function emptyBody(): Readable {
	const body = new Readable({ read: () => {} });
	gatherSmallPieces(body);
	return body;
}

describe('small pieces of a body', () => {
	test('are what was given, in their order, however the body is paused and resumed', async () => {
		await fc.assert(
			fc.asyncProperty(fc.array(STEP, { maxLength: 60 }), fc.nat(60), async (steps, readFrom) => {
				const request = emptyBody();
				const given: Buffer[] = [];
				const taken: Buffer[] = [];
				let ended = false;
				const read = () => {
					request.on('data', (piece: Buffer) => taken.push(piece));
					request.on('end', () => {
						ended = true;
					});
				};
				for (const [i, step] of steps.entries()) {
					if (i === readFrom) read();
					if (step === 'turn') await turn();
					else if (typeof step !== 'string') {
						given.push(step.piece);
						request.push(step.piece);
					} else if (i > readFrom) request[step]();
				}
				if (steps.length <= readFrom) read();
				request.push(null);
				request.resume();
				for (let i = 0; !ended && i < 1000; i++) await turn();
				assert.ok(ended, 'the end');
				assert.deepEqual(Buffer.concat(taken), Buffer.concat(given));
			}),
			{ numRuns: 500 },
		);
	});

	test('that nobody takes are kept together, and no more is asked for than the high-water mark', () => {
		const request = emptyBody();
		let pieces = 0;
		while (request.push(Buffer.from('x'))) pieces++;
		assert.equal(pieces + 1, request.readableHighWaterMark);
		const taken: Buffer[] = [];
		request.on('data', (piece: Buffer) => taken.push(piece));
		while (request.read() !== null);
		assert.equal(Buffer.concat(taken).length, request.readableHighWaterMark);
		assert.ok(taken.length <= 4, `${taken.length} pieces`);
	});
});
