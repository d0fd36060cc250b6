import { IN_VALUE } from '@mtls-edge-proxy/gate/gates/grammar.ts';
import { ConnectionError } from './errors.ts';
import { CODE } from './frame-format.ts';
import { DynamicTable, INITIAL_TABLE_SIZE, STATIC_TABLE, type TableEntry } from './hpack-table.ts';
import { decodedRoom, decodeHuffman } from './huffman.ts';
import type { SensitiveNames } from './sensitive-names.ts';

/** Remembered fields with long values, by their encoded bytes. */
export interface KnownLiterals<Field> {
	/** @param from where the encoded value begins, at its length. */
	find(name: string, bytes: Buffer, from: number, to: number): Field | undefined;
	add(field: Field, bytes: Buffer, from: number, to: number): void;
}

/** How a decoder represents fields, and the limits of a block. */
export interface FieldReading<Field extends TableEntry> {
	/**
	 * Called once for each new field. The tables keep the field, and with it everything that this function computes.
	 *
	 * @param named a field of the same name, if the block refers to one.
	 * @param isText the value is known to have no control characters but tabs.
	 */
	readonly make: (name: string, value: string, named: Field | undefined, isText: boolean) => Field;
	/** The fields of the static table, made by `make` from `STATIC_TABLE`; index 1 comes first. */
	readonly staticFields: readonly Field[];
	/** Limit of the fields of a block. */
	readonly maxFields: number;
	/** Limit of all names and values together, bytes. */
	readonly maxBytes: number;
	/** Receives the names of fields that their sender has marked as never indexed; `undefined`: nobody forwards them. */
	readonly sensitive?: SensitiveNames;
	/** Long values that were decoded before, on any connection of the thread; `undefined`: none are remembered. */
	readonly literals: KnownLiterals<Field> | undefined;
}

/** A decoded header block. Repeated bytes give the same object, as long as the memo holds. */
export class HeaderBlock<Field> {
	/** All fields, or, if the block is over a limit, those that fit: a field that is too long does not hide the ones after it. */
	readonly fields: Field[] = [];
	/** Bytes of all names and values, including fields that were not kept. */
	bytes = 0;
	/** Number of fields, including those that were not kept. */
	count = 0;
	/** The fields may be kept for the next block. Garbage that survives collections of the young generation is expensive. */
	mayBeKept = true;
	/** What readers have made of the block, each in its own place. */
	readonly memo: [open: unknown, ended: unknown] = [undefined, undefined];
}

/**
 * Decodes the header blocks of one direction of a connection (RFC 7541). Strict: a malformed block ends the connection, since the
 * tables of both sides would differ from then on (RFC 9113 section 4.3: COMPRESSION_ERROR).
 *
 * Two memos make it cheap. A block with the same bytes as the last one of its kind is not decoded again, if the dynamic table is
 * unchanged or if the block refers to no entry of it: some servers insert all fields anew with each block. And a long literal,
 * usually a token, is looked up among the known ones (`KnownLiterals`). Both memos hold the meaning of bytes, never a verdict.
 */
export class HpackDecoder<Field extends TableEntry> {
	/** New fields made so far: they are most of the cost of decoding. */
	made = 0;
	readonly #reading: FieldReading<Field>;
	readonly #table = new DynamicTable<Field>((name, value) => this.#make(name, value, undefined, false));
	/** New fields that the table and the memos may still keep as objects. */
	#keeps = MAX_KEPT;
	/** The last block that did not end its stream, and the last one that did. Two memos, since heads and trailers alternate. */
	readonly #open = new RememberedBlock<Field>();
	readonly #ended = new RememberedBlock<Field>();
	#bytes: Buffer = NOTHING;
	#at = 0;
	#end = 0;
	/**
	 * Entries that the current block has added to the table. Below: whether the block is independent of the table, with only literals
	 * and static entries.
	 */
	#entries: Field[] = [];
	#stands = true;
	/** The string that was decoded last has no control characters but tabs. */
	#isText = false;
	/** Long values that this block may have in common with others. */
	#literals: KnownLiterals<Field> | undefined;

	constructor(reading: FieldReading<Field>) {
		this.#reading = reading;
	}

	/**
	 * @param endsStream chooses the memo: blocks that end streams resemble each other.
	 * @param isHead otherwise the block is trailers, or in vain: its long values are not remembered.
	 * @throws ConnectionError COMPRESSION_ERROR, or ENHANCE_YOUR_CALM.
	 */
	decode(bytes: Buffer, from: number, to: number, endsStream = false, isHead = true): HeaderBlock<Field> {
		const table = this.#table;
		const last = endsStream ? this.#ended : this.#open;
		const known = last.find(bytes, from, to, table.version);
		if (known !== undefined) {
			for (const entry of last.entries) table.add(entry, true);
			return known;
		}
		const { version } = table;
		this.#entries = [];
		this.#stands = true;
		this.#literals = isHead ? this.#reading.literals : undefined;
		const block = this.#decode(bytes, from, to);
		block.mayBeKept = this.#keeps >= 0 && block.count <= MAX_REMEMBERED_FIELDS;
		const isShort = to - from <= MAX_BLOCK && block.mayBeKept;
		const mayComeAgain = isShort && (this.#stands || version === table.version);
		if (mayComeAgain) last.remember(block, this.#entries, this.#stands ? undefined : version, bytes, from, to);
		// Held until the next block, they would survive collections of the young generation.
		this.#entries = [];
		return block;
	}

	/** The peer was owed its last block: new fields may be kept again. */
	earn(): void {
		this.#keeps = MAX_KEPT;
	}

	#decode(bytes: Buffer, from: number, to: number): HeaderBlock<Field> {
		const { maxFields, maxBytes } = this.#reading;
		const maxDecoded = Math.max(MAX_DECODED_FIELDS, 2 * maxFields);
		const block = new HeaderBlock<Field>();
		this.#bytes = bytes;
		this.#at = from;
		this.#end = to;
		this.#sizeUpdates();
		let kept = 0;
		while (this.#at < to) {
			const field = this.#field();
			const size = field.name.length + field.value.length;
			block.bytes += size;
			if (++block.count > maxDecoded)
				throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, 'control-flood', TOO_MANY_FIELDS);
			// Fields over a limit are decoded as well: the tables of both sides must agree.
			if (block.count > maxFields || kept + size > maxBytes) continue;
			kept += size;
			block.fields.push(field);
		}
		this.#bytes = NOTHING;
		return block;
	}

	/** RFC 7541 section 4.2: only at the beginning of a block, and at most two. */
	#sizeUpdates(): void {
		for (let count = 0; this.#at < this.#end && (this.#bytes[this.#at]! & 0xe0) === 0x20; count++) {
			if (count === MAX_SIZE_UPDATES) throw malformed('too many table size updates');
			const size = this.#integer(0x1f);
			if (size > INITIAL_TABLE_SIZE) throw malformed('a table size beyond the setting');
			this.#stands = false;
			this.#table.resize(size);
		}
	}

	/** RFC 7541 section 6. */
	#field(): Field {
		const first = this.#bytes[this.#at]!;
		if ((first & 0x80) !== 0) return this.#entry(this.#integer(0x7f));
		if ((first & 0x40) !== 0) {
			const field = this.#literal(this.#integer(0x3f));
			this.#table.add(field, this.#keeps >= 0);
			// Otherwise the block is not remembered.
			if (this.#stands) this.#entries.push(field);
			return field;
		}
		if ((first & 0x20) !== 0) throw malformed('a table size update after a field');
		const field = this.#literal(this.#integer(0x0f));
		if ((first & 0x10) !== 0) this.#reading.sensitive?.add(field.name);
		return field;
	}

	#entry(index: number): Field {
		const isStatic = index <= STATIC_TABLE.length;
		if (!isStatic) this.#stands = false;
		const field = isStatic ? this.#reading.staticFields[index - 1] : this.#table.at(index - STATIC_TABLE.length - 1);
		if (field === undefined) throw malformed('an index beyond the tables');
		return field;
	}

	#literal(nameIndex: number): Field {
		const named = nameIndex === 0 ? undefined : this.#entry(nameIndex);
		const name = named === undefined ? this.#string() : named.name;
		const begin = this.#at;
		const end = this.#endOfString();
		const length = end - begin;
		const literals = this.#literals;
		// A short value is decoded faster than it is looked up.
		const isUsual = length < MIN_LITERAL || length > MAX_LITERAL || name.charCodeAt(0) === COLON;
		if (isUsual || literals === undefined) return this.#make(name, this.#string(), named, this.#isText);
		const known = literals.find(name, this.#bytes, begin, end);
		if (known !== undefined) {
			this.#at = end;
			return known;
		}
		const field = this.#make(name, this.#string(), named, this.#isText);
		if (this.#keeps >= 0) literals.add(field, this.#bytes, begin, end);
		return field;
	}

	#make(name: string, value: string, named: Field | undefined, isText: boolean): Field {
		this.made++;
		this.#keeps--;
		return this.#reading.make(name, value, named, isText);
	}

	/** The end of the string literal that begins here. The position does not move. */
	#endOfString(): number {
		const begin = this.#at;
		if (begin >= this.#end) throw malformed('a truncated block');
		const length = this.#integer(0x7f);
		const end = this.#at + length;
		if (end > this.#end) throw malformed('a truncated string');
		this.#at = begin;
		return end;
	}

	/** RFC 7541 section 5.2. */
	#string(): string {
		if (this.#at >= this.#end) throw malformed('a truncated block');
		const bytes = this.#bytes;
		const isCoded = (bytes[this.#at]! & 0x80) !== 0;
		const length = this.#integer(0x7f);
		const from = this.#at;
		const to = from + length;
		if (to > this.#end) throw malformed('a truncated string');
		this.#at = to;
		if (!isCoded) {
			this.#isText = isText(bytes, from, to);
			return bytes.toString('latin1', from, to);
		}
		const room = decodedRoom(length);
		const text = room <= TEXT.length ? TEXT : Buffer.allocUnsafe(room);
		const decoded = decodeHuffman(bytes, from, to, text);
		if (decoded === -1) throw malformed('a malformed Huffman code');
		this.#isText = isText(text, 0, decoded);
		return text.toString('latin1', 0, decoded);
	}

	/**
	 * RFC 7541 section 5.1. At most five bytes: no value in a block needs more.
	 *
	 * @param mask bits of the prefix.
	 */
	#integer(mask: number): number {
		const bytes = this.#bytes;
		let value = bytes[this.#at++]! & mask;
		if (value < mask) return value;
		for (let shift = 0; shift <= 21; shift += 7) {
			if (this.#at >= this.#end) throw malformed('a truncated block');
			const byte = bytes[this.#at++]!;
			value += (byte & 0x7f) << shift;
			if (byte < 0x80) return value;
		}
		throw malformed('an integer too large');
	}
}

class RememberedBlock<Field> {
	/** Entries that the block adds to the table. */
	entries: readonly Field[] = [];
	#block: HeaderBlock<Field> | undefined;
	/** Version of the table that the block refers to; `undefined`: it refers to none. */
	#version: number | undefined;
	#bytes: Buffer = NOTHING;
	#length = 0;

	find(bytes: Buffer, from: number, to: number, version: number): HeaderBlock<Field> | undefined {
		const length = to - from;
		if (length !== this.#length || (this.#version !== undefined && this.#version !== version)) return undefined;
		return bytes.compare(this.#bytes, 0, length, from, to) === 0 ? this.#block : undefined;
	}

	/** @param bytes are copied. */
	remember(
		block: HeaderBlock<Field>,
		entries: readonly Field[],
		version: number | undefined,
		bytes: Buffer,
		from: number,
		to: number,
	): void {
		if (to - from > this.#bytes.length) this.#bytes = Buffer.allocUnsafeSlow(roomFor(to - from));
		bytes.copy(this.#bytes, 0, from, to);
		this.#length = to - from;
		this.#version = version;
		this.entries = entries;
		this.#block = block;
	}
}

/** Bytes are checked while they are at hand: a regular expression for the text takes several times as long. */
function isText(bytes: Buffer, from: number, to: number): boolean {
	for (let i = from; i < to; i++) if (IS_VALUE[bytes[i]!] !== 1) return false;
	return true;
}

function roomFor(length: number): number {
	return (length + 63) & ~63;
}

function malformed(what: string): ConnectionError {
	return new ConnectionError(CODE.COMPRESSION_ERROR, 'compression', what);
}

/** RFC 7541 section 4.2: the smallest size in between, and the last one. */
const MAX_SIZE_UPDATES = 2;
/** Longest remembered block, bytes. */
const MAX_BLOCK = 4096;
/**
 * Most fields of a block that is remembered. Honest requests have fewer. Fields that outlive collections of the young generation become
 * garbage of the old one, which only a full collection frees.
 */
const MAX_REMEMBERED_FIELDS = 64;
/**
 * New fields of a connection that are kept as objects without a message that the peer was owed (`earn`). After them the table keeps
 * text, and no block or literal is remembered.
 */
const MAX_KEPT = 128;
/**
 * Encoded lengths of remembered values, bytes: most tokens are longer than the first, and no accepted token is longer than the
 * second (`MAX_TOKEN_LENGTH`).
 */
const MIN_LITERAL = 128;
const MAX_LITERAL = 8300;
const COLON = 0x3a;
/** A local copy, as in `field-scanner.ts`. */
const IS_VALUE = IN_VALUE;
/**
 * Fields of a block that are decoded for the tables only, unless twice `maxFields` is more. An indexed field is one byte, so the nine
 * frames of a block may have 147,000: 3 ms of a worker in one turn.
 */
const MAX_DECODED_FIELDS = 20_000;
const TOO_MANY_FIELDS = 'a header block of too many fields';
const NOTHING = Buffer.alloc(0);
/** Scratch space for decoding strings. */
const TEXT = Buffer.allocUnsafeSlow(16_384);
