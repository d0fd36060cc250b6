import { ENTRY_OVERHEAD, STATIC_TABLE } from './hpack-table.ts';
import { SENSITIVE } from './sensitive-names.ts';

/**
 * Encodes header blocks (RFC 7541) as latin1 text, from the static table and literals. Without a dynamic table the code of a field
 * is the same on every connection, so one map holds the codes for all. And no tenant can guess the fields of another from the
 * length of a response (RFC 7541 section 7.1).
 */

/** Begins the first block of a connection: the dynamic table is not used (section 6.3). */
export const NO_DYNAMIC_TABLE = '\x20';

/** The code of `:status` (section 6.1 if the static table has it). */
export function codedStatus(status: number): string {
	STATUSES[status] ??= codedField(':status', String(status));
	return STATUSES[status];
}

/** @param fields alternating names in lower case and values. */
export function codedFields(fields: readonly string[]): string {
	let block = '';
	for (let i = 0; i < fields.length; i += 2) block += remembered(fields[i]!, fields[i + 1]!);
	return block;
}

const STATUSES: (string | undefined)[] = [];

/** Codes by name, then by value. */
let codes = new Map<string, Map<string, string>>();
let codeCount = 0;
/** Limit of remembered codes. With `MAX_TEXT`, they take at most a few hundred KiB in each thread. */
const MAX_CODES = 2048;
const MAX_TEXT = 128;

function remembered(name: string, value: string): string {
	const values = codes.get(name);
	const known = values?.get(value);
	if (known !== undefined) return known;
	const code = codedField(name, value);
	if (name.length > MAX_TEXT || value.length > MAX_TEXT || name === 'set-cookie') return code;
	// Dropping all at once is cheaper than an LRU order, and each code in use comes back with one answer.
	if (codeCount === MAX_CODES) {
		codes = new Map();
		codeCount = 0;
	}
	codeCount++;
	const own = codes.get(name);
	if (own === undefined) codes.set(name, new Map([[value, code]]));
	else own.set(value, code);
	return code;
}

const NEVER_INDEXED = 0x10;
const WITHOUT_INDEXING = 0x00;

export class CodedName {
	/** The bytes before a value. */
	readonly #opening: string;
	/** Codes of complete fields in the static table, by value. */
	readonly #whole: ReadonlyMap<string, string> | undefined;

	/** @param name in lower case. */
	constructor(name: string) {
		const isSensitive = SENSITIVE.has(name);
		const pattern = isSensitive ? NEVER_INDEXED : WITHOUT_INDEXING;
		const known = STATIC_NAMES.get(name);
		this.#opening =
			known === undefined ? String.fromCharCode(pattern) + codedString(name) : codedInteger(known.index, 0x0f, pattern);
		this.#whole = isSensitive || known === undefined || known.whole.size === 0 ? undefined : known.whole;
	}

	field(value: string): string {
		return this.#whole?.get(value) ?? this.#opening + codedString(value);
	}
}

SENSITIVE.clears(() => {
	STATUSES.length = 0;
	codes = new Map();
	codeCount = 0;
	names = new Map();
});

/** The first index of each name in the static table, and the codes of its complete fields by value. */
const STATIC_NAMES = new Map<string, { readonly index: number; readonly whole: Map<string, string> }>();
for (const [at, [name, value]] of STATIC_TABLE.entries()) {
	const known = STATIC_NAMES.get(name) ?? { index: at + 1, whole: new Map() };
	if (value !== '') known.whole.set(value, codedInteger(at + 1, 0x7f, 0x80));
	STATIC_NAMES.set(name, known);
}

let names = new Map<string, CodedName>();
const MAX_NAMES = 512;

export function codedField(name: string, value: string): string {
	const known = names.get(name);
	if (known !== undefined) return known.field(value);
	const coded = new CodedName(name);
	if (name.length <= MAX_TEXT) {
		if (names.size === MAX_NAMES) names = new Map();
		names.set(name, coded);
	}
	return coded.field(value);
}

/** Section 5.2, without Huffman coding. */
function codedString(text: string): string {
	return codedInteger(text.length, 0x7f, 0) + text;
}

/** Section 5.1. @param mask bits of the prefix. @param pattern the bits above it. */
export function codedInteger(value: number, mask: number, pattern: number): string {
	if (value < mask) return String.fromCharCode(pattern | value);
	let code = String.fromCharCode(pattern | mask);
	let rest = value - mask;
	for (; rest >= 0x80; rest >>>= 7) code += String.fromCharCode((rest & 0x7f) | 0x80);
	return code + String.fromCharCode(rest);
}

/**
 * The size of a block of this encoder as SETTINGS_MAX_HEADER_LIST_SIZE counts it (RFC 9113 section 6.5.2): names, values, and 32
 * bytes for each field.
 *
 * @param block without a table size update.
 */
export function listSizeOf(block: string): number {
	let size = 0;
	let at = 0;
	const integer = (mask: number): number => {
		let value = block.charCodeAt(at++) & mask;
		if (value < mask) return value;
		for (let shift = 0; ; shift += 7) {
			const byte = block.charCodeAt(at++);
			value += (byte & 0x7f) << shift;
			if (byte < 0x80) return value;
		}
	};
	const text = (): void => {
		const length = integer(0x7f);
		size += length;
		at += length;
	};
	while (at < block.length) {
		size += ENTRY_OVERHEAD;
		const isWhole = (block.charCodeAt(at) & 0x80) !== 0;
		const index = integer(isWhole ? 0x7f : 0x0f);
		const [name, value] = STATIC_TABLE[index - 1] ?? ['', ''];
		if (index === 0) text();
		size += name.length;
		if (isWhole) size += value.length;
		else text();
	}
	return size;
}
