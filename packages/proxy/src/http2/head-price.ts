/** The price of a header block, in tokens: about a microsecond of a worker each. */

/** Tokens for a head and its message. The block is always decoded, to keep the tables in step (RFC 7541 section 2.2). */
const HEAD = 12;
/** Tokens for a head that is decoded only for the tables. */
const VAIN_HEAD = 1;
/**
 * Tokens for each field of a block, and for one that is new. A field of the tables is decoded in 6 to 10 ns, a new one in up to
 * 330 ns; processing for the gates and the other side costs twice as much. Garbage collection costs as much again for new fields, which
 * live as long as the table holds them.
 */
const FIELD = 1 / 8;
const MADE = 2;
/** Bytes of a block per token, for Huffman coding and comparison. */
const BLOCK_BYTES = 256;

/** @returns tokens for a header block. @param made number of new fields. */
export function priceOfHead(bytes: number, fields: number, made: number): number {
	return HEAD + fields * FIELD + made * MADE + bytes / BLOCK_BYTES;
}

/** @param price of `priceOfHead`. @returns the price if the head belongs to no message. */
export function vainPriceOf(price: number): number {
	return price - HEAD + VAIN_HEAD;
}
