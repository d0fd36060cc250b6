import type { KnownLiterals } from '../../http2/hpack-decoder.ts';
import type { TableEntry } from '../../http2/hpack-table.ts';

/**
 * Fields with long values, mostly tokens, by their encoded bytes: one pool for all connections of a thread. Clients never index
 * `authorization`, or evict it from a small table, so each request repeats its bytes. Bytes found here are not decoded again. The
 * pool holds the meaning of bytes, never a verdict.
 *
 * Each hash has two places, and the newer field takes the first. The bytes are copied into chunks. When all chunks are full, the
 * oldest is used again and its fields are forgotten, so a full pool needs no more memory for new bytes.
 */
export class LiteralPool<Field extends TableEntry> implements KnownLiterals<Field> {
	/** Empty until the first field comes. */
	readonly #places: (Literal<Field> | undefined)[] = [];
	readonly #chunks: Chunk<Field>[] = [];
	/** Index of the chunk that is being filled. */
	#current = -1;

	find(name: string, bytes: Buffer, from: number, to: number): Field | undefined {
		const place = placeOf(bytes, from, to);
		const first = this.#places[place];
		if (first !== undefined && isLiteral(first, name, bytes, from, to)) return first.field;
		const second = this.#places[place + 1];
		return second !== undefined && isLiteral(second, name, bytes, from, to) ? second.field : undefined;
	}

	/** @param to at most `CHUNK_BYTES` after `from`. */
	add(field: Field, bytes: Buffer, from: number, to: number): void {
		const chunk = this.#chunkFor(to - from);
		const place = placeOf(bytes, from, to);
		const start = chunk.length;
		chunk.length += bytes.copy(chunk.bytes, start, from, to);
		const literal = { field, place, chunk: chunk.bytes, from: start, to: chunk.length };
		chunk.literals.push(literal);
		this.#places[place + 1] = this.#places[place];
		this.#places[place] = literal;
	}

	#chunkFor(length: number): Chunk<Field> {
		const current = this.#chunks[this.#current];
		if (current !== undefined && current.length + length <= CHUNK_BYTES) return current;
		if (current === undefined) for (let i = 0; i < PLACES; i++) this.#places.push(undefined);
		this.#current = (this.#current + 1) % CHUNKS;
		const next = this.#chunks[this.#current] ?? { bytes: Buffer.allocUnsafeSlow(CHUNK_BYTES), length: 0, literals: [] };
		this.#chunks[this.#current] = next;
		for (const literal of next.literals) this.#forget(literal);
		next.literals.length = 0;
		next.length = 0;
		return next;
	}

	#forget(literal: Literal<Field>): void {
		const { place } = literal;
		if (this.#places[place] === literal) this.#places[place] = undefined;
		else if (this.#places[place + 1] === literal) this.#places[place + 1] = undefined;
	}
}

interface Literal<Field> {
	readonly field: Field;
	/** The first of its hash's two places. */
	readonly place: number;
	/** Memory with its encoded bytes and those of other literals. */
	readonly chunk: Buffer;
	readonly from: number;
	readonly to: number;
}

interface Chunk<Field> {
	readonly bytes: Buffer;
	/** Bytes that are taken. */
	length: number;
	readonly literals: Literal<Field>[];
}

function isLiteral(literal: Literal<TableEntry>, name: string, bytes: Buffer, from: number, to: number): boolean {
	const { field, chunk } = literal;
	if (literal.to - literal.from !== to - from || field.name !== name) return false;
	return bytes.compare(chunk, literal.from, literal.to, from, to) === 0;
}

/** Hashes the end of a token, which is its signature, and so differs. The last byte is left out: in a Huffman code it is partly padding. */
function placeOf(bytes: Buffer, from: number, to: number): number {
	const end = bytes.readUInt32LE(to - 5);
	const middle = bytes.readUInt32LE((from + to) >>> 1);
	return (Math.imul(end ^ middle ^ (to - from), 0x9e3779b1) >>> PLACE_SHIFT) << 1;
}

/** Memory of a chunk; longer than all encoded values that are remembered. */
const CHUNK_BYTES = 65_536;
/** 6 MiB of chunks in each thread. Text is at most 1.6 times as long as its encoding, so all texts are below 10 MiB. */
const CHUNKS = 96;
/** A power of two, and more than the token cache holds (`CACHE_CAPACITY`). */
const PLACES = 16_384 * 2;
/** Reduces 32 bits to the index of a pair of places. */
const PLACE_SHIFT = 32 - 14;
