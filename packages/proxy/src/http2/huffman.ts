/** The Huffman code of HPACK (RFC 7541 section 5.2 and appendix B). */

/** Length in bits of each symbol's code; the end of the string is last. The code is canonical, so the lengths determine it. */
const CODE_LENGTHS = [
	...[13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28],
	...[28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15],
	...[6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6],
	...[15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22],
	...[20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23],
	...[23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22],
	...[22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26],
	...[27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27],
	...[26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30],
];
const END_OF_STRING = 256;
/** Shortest code: a step of four bits completes at most one symbol. */
const MIN_BITS = 5;

/**
 * Transitions by state and four bits. A state is an inner node of the code's tree. Bits 0 to 7 are the next state; if bit 16 is
 * set, bits 8 to 15 are a symbol. -1: the code of the string's end, which must not occur.
 */
const STEPS = new Int32Array(256 * 16);
/** 1 for states in which a string may end: after fewer than eight bits of padding, all ones (RFC 7541 section 5.2). */
const MAY_END = new Uint8Array(256);
const SYMBOL_BIT = 16;
const HAS_SYMBOL = 1 << SYMBOL_BIT;

buildSteps();

/**
 * Decodes into the beginning of `out`, which must have room for `decodedRoom` bytes.
 *
 * @returns the length of the text, or -1 if the code is malformed.
 */
export function decodeHuffman(bytes: Uint8Array, from: number, to: number, out: Uint8Array): number {
	let state = 0;
	let length = 0;
	for (let at = from; at < to; at++) {
		const byte = bytes[at]!;
		const first = STEPS[(state << 4) | (byte >>> 4)]!;
		if (first < 0) return -1;
		// Written unconditionally, and overwritten if it was not a symbol: a branch here would be unpredictable.
		out[length] = first >>> 8;
		length += first >>> SYMBOL_BIT;
		const second = STEPS[((first & 0xff) << 4) | (byte & 0x0f)]!;
		if (second < 0) return -1;
		out[length] = second >>> 8;
		length += second >>> SYMBOL_BIT;
		state = second & 0xff;
	}
	return MAY_END[state] === 1 ? length : -1;
}

/** One more than the most bytes that `coded` bytes can decode to. */
export function decodedRoom(coded: number): number {
	return Math.floor((coded * 8) / MIN_BITS) + 1;
}

function buildSteps(): void {
	// Pairs of children by inner node: another inner node, or `LEAF` and above, a symbol.
	const LEAF = 1 << 16;
	const children: number[][] = [[]];
	const order = CODE_LENGTHS.map((_, symbol) => symbol).sort((a, b) => CODE_LENGTHS[a]! - CODE_LENGTHS[b]! || a - b);
	let code = 0;
	let length = 0;
	for (const symbol of order) {
		code *= 2 ** (CODE_LENGTHS[symbol]! - length);
		length = CODE_LENGTHS[symbol]!;
		let node = 0;
		for (let bit = length - 1; bit > 0; bit--) {
			const side = (code >>> bit) & 1;
			let next = children[node]![side];
			if (next === undefined) {
				next = children.push([]) - 1;
				children[node]![side] = next;
			}
			node = next;
		}
		children[node]![code & 1] = LEAF + symbol;
		code++;
	}
	for (let node = 0, depth = 0; depth < 8; node = children[node]![1]!, depth++) MAY_END[node] = 1;
	for (const state of children.keys()) {
		for (let bits = 0; bits < 16; bits++) STEPS[(state << 4) | bits] = step(state, bits);
	}

	function step(from: number, bits: number): number {
		let node = from;
		let symbol = 0;
		for (let bit = 3; bit >= 0; bit--) {
			const next = children[node]![(bits >>> bit) & 1]!;
			if (next === LEAF + END_OF_STRING) return -1;
			if (next >= LEAF) symbol = HAS_SYMBOL | ((next - LEAF) << 8);
			node = next >= LEAF ? 0 : next;
		}
		return node | symbol;
	}
}
