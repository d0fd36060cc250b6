/** HPACK (RFC 7541) in both directions: every way to encode a field, and a decoder that shares no code with nghttp2. */
import type { Random } from './random.ts';
import type { Field } from './responses.ts';

/** Appendix A. */
const STATIC: readonly Field[] = (
	':authority|:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https|:status 200|:status 204|' +
	':status 206|:status 304|:status 400|:status 404|:status 500|accept-charset|accept-encoding gzip, deflate|' +
	'accept-language|accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control|' +
	'content-disposition|content-encoding|content-language|content-length|content-location|content-range|content-type|' +
	'cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|' +
	'last-modified|link|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|' +
	'server|set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate'
)
	.split('|')
	.map((entry): Field => {
		const space = entry.indexOf(' ');
		return space === -1 ? [entry, ''] : [entry.slice(0, space), entry.slice(space + 1)];
	});

/** Appendix B: code length of each symbol, the end of the string last. The code is canonical, so lengths define it. */
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

/** Each symbol's code, as text of zeros and ones. */
const CODES = canonicalCodes();
const SYMBOLS = new Map(CODES.map((code, symbol) => [code, symbol]));

function canonicalCodes(): string[] {
	const codes: string[] = [];
	const order = CODE_LENGTHS.map((_, symbol) => symbol).sort((a, b) => CODE_LENGTHS[a]! - CODE_LENGTHS[b]! || a - b);
	let code = 0;
	let length = 0;
	for (const symbol of order) {
		code *= 2 ** (CODE_LENGTHS[symbol]! - length);
		length = CODE_LENGTHS[symbol]!;
		codes[symbol] = code.toString(2).padStart(length, '0');
		code++;
	}
	return codes;
}

/** The dynamic table of one direction (section 2.3.2). */
class DynamicTable {
	readonly entries: Field[] = [];
	limit = 4096;

	/** The entry of an index, over both tables. */
	at(index: number): Field | undefined {
		return index <= STATIC.length ? STATIC[index - 1] : this.entries[index - STATIC.length - 1];
	}

	add(field: Field): void {
		this.entries.unshift(field);
		this.evict();
	}

	evict(): void {
		const size = () => this.entries.reduce((sum, [name, value]) => sum + name.length + value.length + 32, 0);
		while (this.entries.length > 0 && size() > this.limit) this.entries.pop();
	}
}

/** An error in a header block is a connection error. */
export class CompressionError extends Error {}

export class HpackReader {
	readonly #table = new DynamicTable();
	readonly #most: number;
	#block = '';
	#at = 0;

	/** @param most largest table size that the peer may ask for. */
	constructor(most = 4096) {
		this.#most = most;
	}

	/** @param block latin1. @throws CompressionError */
	read(block: string): Field[] {
		this.#block = block;
		this.#at = 0;
		const fields: Field[] = [];
		while (this.#at < block.length) {
			const first = block.charCodeAt(this.#at);
			if (first & 0x80) {
				const field = this.#table.at(this.#integer(7));
				if (field === undefined) throw new CompressionError('an index beyond the tables');
				fields.push(field);
			} else if ((first & 0xe0) === 0x20) {
				const limit = this.#integer(5);
				if (fields.length > 0 || limit > this.#most) throw new CompressionError('a table size that is not to be');
				this.#table.limit = limit;
				this.#table.evict();
			} else {
				const indexed = (first & 0x40) !== 0;
				const field = this.#literal(this.#integer(indexed ? 6 : 4));
				if (indexed) this.#table.add(field);
				fields.push(field);
			}
		}
		return fields;
	}

	#literal(index: number): Field {
		const name = index === 0 ? this.#string() : this.#table.at(index)?.[0];
		if (name === undefined) throw new CompressionError('the index of a name beyond the tables');
		return [name, this.#string()];
	}

	#byte(): number {
		if (this.#at >= this.#block.length) throw new CompressionError('a truncated block');
		return this.#block.charCodeAt(this.#at++);
	}

	/** Section 5.1. */
	#integer(bits: number): number {
		const most = 2 ** bits - 1;
		let value = this.#byte() & most;
		if (value < most) return value;
		for (let shift = 0; ; shift += 7) {
			const byte = this.#byte();
			value += (byte & 0x7f) * 2 ** shift;
			if (value > 2 ** 31) throw new CompressionError('an integer too large');
			if (byte < 0x80) return value;
		}
	}

	/** Section 5.2. */
	#string(): string {
		const huffman = this.#at < this.#block.length && (this.#block.charCodeAt(this.#at) & 0x80) !== 0;
		const length = this.#integer(7);
		if (this.#at + length > this.#block.length) throw new CompressionError('a truncated string');
		const text = this.#block.slice(this.#at, this.#at + length);
		this.#at += length;
		return huffman ? readHuffman(text) : text;
	}
}

function readHuffman(coded: string): string {
	let text = '';
	let code = '';
	for (let at = 0; at < coded.length; at++) {
		for (const bit of coded.charCodeAt(at).toString(2).padStart(8, '0')) {
			code += bit;
			const symbol = SYMBOLS.get(code);
			if (symbol === END_OF_STRING) throw new CompressionError('an end within a string');
			if (symbol === undefined) continue;
			text += String.fromCharCode(symbol);
			code = '';
		}
	}
	if (code.length > 7 || code.includes('0')) throw new CompressionError('padding that is none');
	return text;
}

/** Part of a header block: bytes (latin1), or a string literal whose text is only known when it is sent, with or without Huffman code. */
export type Part = string | { readonly literal: string; readonly isCoded?: boolean };

/** Encodes the header blocks of one connection in every way that HPACK allows. */
export class HpackWriter {
	readonly #random: Random;
	readonly #table = new DynamicTable();

	constructor(random: Random) {
		this.#random = random;
	}

	/** @param fields values may contain placeholders, which become literals. */
	write(fields: readonly Field[]): Part[] {
		return fields.flatMap((field) => this.#field(field));
	}

	#field(field: Field): Part[] {
		const random = this.#random;
		const [name, value] = field;
		const known = this.#find((entry) => entry[0] === name && entry[1] === value);
		if (known !== undefined && random.chance(0.7)) return [integer(known, 7, 0x80)];
		const named = this.#find((entry) => entry[0] === name);
		const way = random.pick([INCREMENTAL, WITHOUT, NEVER]);
		// A placeholder has another size when it is sent, so the evictions it causes are not known here.
		const isFixed = !value.includes('{');
		const [bits, pattern] = isFixed ? way : random.pick([WITHOUT, NEVER]);
		if (isFixed && way === INCREMENTAL) this.#table.add(field);
		const written: Part[] =
			named !== undefined && random.chance(0.7)
				? [integer(named, bits, pattern)]
				: [integer(0, bits, pattern), this.#text(name)];
		return [...written, isFixed ? this.#text(value) : { literal: value, isCoded: random.chance(0.5) }];
	}

	#find(fits: (field: Field) => boolean): number | undefined {
		const at = [...STATIC, ...this.#table.entries].findIndex(fits);
		return at === -1 ? undefined : at + 1;
	}

	#text(text: string): string {
		return this.#random.chance(0.6) ? stringLiteral(text) : huffmanLiteral(text);
	}
}

const INCREMENTAL: [number, number] = [6, 0x40];
const WITHOUT: [number, number] = [4, 0x00];
const NEVER: [number, number] = [4, 0x10];

/** A string in Huffman code. */
export function huffmanLiteral(text: string): string {
	const bits = [...text].map((char) => CODES[char.charCodeAt(0)]).join('');
	const padded = bits.padEnd(Math.ceil(bits.length / 8) * 8, '1');
	const coded = padded.replace(/.{8}/g, (byte) => String.fromCharCode(Number.parseInt(byte, 2)));
	return integer(coded.length, 7, 0x80) + coded;
}

/** A string without Huffman code. */
export function stringLiteral(text: string): string {
	return integer(text.length, 7, 0) + text;
}

/** Section 5.1. @param pattern the bits above the prefix. */
export function integer(value: number, bits: number, pattern: number): string {
	const most = 2 ** bits - 1;
	if (value < most) return String.fromCharCode(pattern | value);
	let text = String.fromCharCode(pattern | most);
	let rest = value - most;
	for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) text += String.fromCharCode((rest & 0x7f) | 0x80);
	return text + String.fromCharCode(rest);
}
