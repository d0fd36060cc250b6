import type { KnownLiterals } from '../../http2/hpack-decoder.ts';
import type { TableEntry } from '../../http2/hpack-table.ts';

/**
 * Fields with long values, mostly tokens, by their encoded bytes: one pool for all connections of a thread. Clients never index
 * `authorization`, or evict it from a small table, so each request repeats its bytes. Bytes found here are not decoded again. The
 * pool holds the meaning of bytes, never a verdict.
 *
 * Each hash has two places, and the newer field takes the first. Above its limit of bytes, the pool is emptied.
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
		// Not from Node's pool of small buffers, where it would keep the memory of its neighbours alive.
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

/** Hashes the end of a token, which is its signature, and so differs. The last byte is left out: in a Huffman code it is partly padding. */
function placeOf(bytes: Buffer, from: number, to: number): number {
	const end = bytes.readUInt32LE(to - 5);
	const middle = bytes.readUInt32LE((from + to) >>> 1);
	return (Math.imul(end ^ middle ^ (to - from), 0x9e3779b1) >>> PLACE_SHIFT) << 1;
}

function sizeOf(literal: Literal<TableEntry> | undefined): number {
	return literal === undefined ? 0 : literal.coded.length + literal.field.value.length;
}

/** Limit of the bytes of encoded values and their texts, for each thread. */
const MAX_BYTES = 16 * 1024 * 1024;
/** A power of two, and more than the token cache holds (`CACHE_CAPACITY`). */
const PLACES = 16_384 * 2;
/** Reduces 32 bits to the index of a pair of places. */
const PLACE_SHIFT = 32 - 14;
