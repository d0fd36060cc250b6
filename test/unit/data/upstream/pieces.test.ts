import { equal } from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Pieces } from '../../../../src/data/upstream/pieces.ts';

const text = (pieces: Pieces) => String(pieces.take());

describe('the pieces of one read', () => {
	it('are nothing at first, and after each take', () => {
		const pieces = new Pieces(8);
		equal(pieces.take(), undefined);
		pieces.add(Buffer.from('a'));
		equal(text(pieces), 'a');
		equal(pieces.take(), undefined);
	});

	it('are handed on uncopied where there is but one', () => {
		const pieces = new Pieces(8);
		const piece = Buffer.from('abc');
		pieces.add(piece);
		equal(pieces.take(), piece);
	});

	it('are put together in their order, up to the capacity', () => {
		const pieces = new Pieces(8);
		for (const round of ['abcdefgh', '12345678']) {
			for (const piece of ['', round.slice(0, 1), '', round.slice(1, 3), round.slice(3)])
				pieces.add(Buffer.from(piece));
			equal(text(pieces), round);
		}
	});

	it('do not mix with those of the read before', () => {
		const pieces = new Pieces(8);
		pieces.add(Buffer.from('ab'));
		pieces.add(Buffer.from('cd'));
		pieces.take();
		pieces.add(Buffer.from('e'));
		equal(text(pieces), 'e');
		pieces.add(Buffer.from('f'));
		pieces.add(Buffer.from('g'));
		equal(text(pieces), 'fg');
	});
});
