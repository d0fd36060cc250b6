import type { KnownLiterals } from '../../http2/hpack-decoder.ts';
import type { TableEntry } from '../../http2/hpack-table.ts';

/**
 * Fields with long values, above all tokens, by their coded bytes: one pool for all connections of a thread. Clients never index
 * `authorization`, or crowd it out of a small table, so its bytes come again with each request. Found here, they are not decoded.
 * The pool remembers what bytes mean, never a verdict.
 *
 * Two places for each hash; the newer field takes the first. Over its limit of bytes the pool starts empty again.
 */
export class LiteralPool<Field extends TableEntry> implements KnownLiterals<Field> {
	readonly #literals: (Literal<Field> | undefined)[] = [];
	#bytes = 0;

	find(name: string, bytes: Buffer, from: number, to: number): Field | undefined {
		const place = placeOf(bytes, from, to);
		const first = this.#literals[place];
		if (first === undefined) return undefined;
		if (isLiteral(first, name, bytes, from, to)) return first.field;
		const second = this.#literals[place + 1];
		return second !== undefined && isLiteral(second, name, bytes, from, to) ? second.field : undefined;
	}

	add(field: Field, bytes: Buffer, from: number, to: number): void {
		// Memory of its own: in Node's pool of small buffers it would keep its neighbours' memory.
		const coded = Buffer.allocUnsafeSlow(to - from);
		bytes.copy(coded, 0, from, to);
		const literal = { field, coded };
		const place = placeOf(bytes, from, to);
		this.#bytes += sizeOf(literal) - sizeOf(this.#literals[place + 1]);
		if (this.#literals.length === 0 || this.#bytes > MAX_BYTES) {
			this.#literals.length = 0;
			for (let i = 0; i < PLACES; i++) this.#literals.push(undefined);
			this.#bytes = sizeOf(literal);
		}
		this.#literals[place + 1] = this.#literals[place];
		this.#literals[place] = literal;
	}
}

interface Literal<Field> {
	readonly field: Field;
	readonly coded: Buffer;
}

function isLiteral(
	{ field, coded }: Literal<TableEntry>,
	name: string,
	bytes: Buffer,
	from: number,
	to: number,
): boolean {
	return coded.length === to - from && field.name === name && bytes.compare(coded, 0, coded.length, from, to) === 0;
}

/** Tokens end in their signatures, which differ. The last byte of a Huffman code is partly padding. */
function placeOf(bytes: Buffer, from: number, to: number): number {
	const end = bytes.readUInt32LE(to - 5);
	const middle = bytes.readUInt32LE((from + to) >>> 1);
	return (Math.imul(end ^ middle ^ (to - from), 0x9e3779b1) >>> PLACE_SHIFT) << 1;
}

function sizeOf(literal: Literal<TableEntry> | undefined): number {
	return literal === undefined ? 0 : literal.coded.length + literal.field.value.length;
}

/** Most bytes of coded values and their texts, of a thread. */
const MAX_BYTES = 16 * 1024 * 1024;
/** A power of two, and more than the tokens that are remembered (`CACHE_CAPACITY`). */
const PLACES = 16_384 * 2;
/** Leaves of 32 bits those of a pair of places. */
const PLACE_SHIFT = 32 - 14;
