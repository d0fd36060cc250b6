import { ConnectionError } from './errors.ts';
import { CODE } from './frame-format.ts';
import { DynamicTable, INITIAL_TABLE_SIZE, STATIC_TABLE, type TableEntry } from './hpack-table.ts';
import { decodedRoom, decodeHuffman } from './huffman.ts';

/** Fields with long values that have been decoded before, by their coded bytes. */
export interface KnownLiterals<Field> {
	/** @param from where the coded value begins, with its length. */
	find(name: string, bytes: Buffer, from: number, to: number): Field | undefined;
	add(field: Field, bytes: Buffer, from: number, to: number): void;
}

/** How a decoder represents fields, and how many of a block it keeps. */
export interface FieldReading<Field extends TableEntry> {
	/**
	 * Called once for each field that has not been seen before; what it works out stays with the field in the tables.
	 *
	 * @param named a field of that name, where the block refers to one.
	 */
	readonly make: (name: string, value: string, named: Field | undefined) => Field;
	/** The static table's fields, index 1 first: `STATIC_TABLE` through `make`. */
	readonly staticFields: readonly Field[];
	/** Most fields of a block. */
	readonly maxFields: number;
	/** Longest list of names and values, bytes. */
	readonly maxBytes: number;
	/** Long values that have been decoded before, here or on other connections of the thread; `undefined`: none is remembered. */
	readonly literals: KnownLiterals<Field> | undefined;
}

/** A decoded header block. The same object stands for the same bytes while nothing has changed between. */
export class HeaderBlock<Field> {
	/** Where the block is over a limit those that fit, one by one: a long one hides none behind it. */
	readonly fields: Field[] = [];
	/** Bytes of all names and values, also of those that were not kept. */
	bytes = 0;
	/** How many there were. */
	count = 0;
	/** The reader's result for the block, by whether the block ended its stream. */
	readonly memo: [open: unknown, ended: unknown] = [undefined, undefined];
}

/**
 * Decodes the header blocks of one direction of a connection (RFC 7541). Strict: whatever a block could not mean ends the
 * connection, since both sides' tables would differ from then on (section 5.3 of RFC 9113: COMPRESSION_ERROR).
 *
 * Two memos make it cheap. A block with the bytes of the last one of its kind is not decoded again as long as the dynamic table is what
 * it was, or where it has named no entry of that: some servers have each block enter all of its fields anew. And a long literal, above all
 * a token, is looked for among those that are known (`KnownLiterals`). Both remember what bytes mean; neither remembers a verdict.
 */
export class HpackDecoder<Field extends TableEntry> {
	/** Fields that were made anew since the begin: most of what decoding costs. */
	made = 0;
	readonly #reading: FieldReading<Field>;
	readonly #table = new DynamicTable<Field>();
	/** The last blocks: that did not end their streams, and that did. Heads and trailers take turns. */
	readonly #open = new RememberedBlock<Field>();
	readonly #ended = new RememberedBlock<Field>();
	#bytes: Buffer = NOTHING;
	#at = 0;
	#end = 0;
	/** Of the block at hand: what it has entered in the table, and whether all of its fields are literals or of the static table. */
	#entries: Field[] = [];
	#stands = true;

	constructor(reading: FieldReading<Field>) {
		this.#reading = reading;
	}

	/** @param endsStream for what is remembered: blocks that end streams are mostly like each other. @throws ConnectionError COMPRESSION_ERROR. */
	decode(bytes: Buffer, from: number, to: number, endsStream = false): HeaderBlock<Field> {
		const table = this.#table;
		const last = endsStream ? this.#ended : this.#open;
		const known = last.find(bytes, from, to, table.version);
		if (known !== undefined) {
			for (const entry of last.entries) table.add(entry);
			return known;
		}
		const { version } = table;
		this.#entries = [];
		this.#stands = true;
		const block = this.#decode(bytes, from, to);
		const mayComeAgain = (this.#stands || version === table.version) && to - from <= MAX_BLOCK;
		if (mayComeAgain) last.remember(block, this.#entries, this.#stands ? undefined : version, bytes, from, to);
		return block;
	}

	#decode(bytes: Buffer, from: number, to: number): HeaderBlock<Field> {
		const { maxFields, maxBytes } = this.#reading;
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
			block.count++;
			// What is over a limit is decoded all the same: the table must be what the other side believes it to be.
			if (block.count > maxFields || kept + size > maxBytes) continue;
			kept += size;
			block.fields.push(field);
		}
		this.#bytes = NOTHING;
		return block;
	}

	/** RFC 7541 section 4.2: only at the beginning, and no more than the smallest and the last of several changes. */
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
			this.#table.add(field);
			this.#entries.push(field);
			return field;
		}
		if ((first & 0x20) !== 0) throw malformed('a table size update behind a field');
		return this.#literal(this.#integer(0x0f));
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
		const { literals } = this.#reading;
		// What is short is decoded in less time than it is looked for.
		const isUsual = length < MIN_LITERAL || length > MAX_LITERAL || name.charCodeAt(0) === COLON;
		if (isUsual || literals === undefined) return this.#make(name, named);
		const known = literals.find(name, this.#bytes, begin, end);
		if (known !== undefined) {
			this.#at = end;
			return known;
		}
		const field = this.#make(name, named);
		literals.add(field, this.#bytes, begin, end);
		return field;
	}

	#make(name: string, named: Field | undefined): Field {
		this.made++;
		return this.#reading.make(name, this.#string(), named);
	}

	/** Where the string literal that begins here ends; stays where it is. */
	#endOfString(): number {
		const begin = this.#at;
		if (begin >= this.#end) throw malformed('a block that breaks off');
		const length = this.#integer(0x7f);
		const end = this.#at + length;
		if (end > this.#end) throw malformed('a string that breaks off');
		this.#at = begin;
		return end;
	}

	/** RFC 7541 section 5.2. */
	#string(): string {
		if (this.#at >= this.#end) throw malformed('a block that breaks off');
		const bytes = this.#bytes;
		const isCoded = (bytes[this.#at]! & 0x80) !== 0;
		const length = this.#integer(0x7f);
		const from = this.#at;
		const to = from + length;
		if (to > this.#end) throw malformed('a string that breaks off');
		this.#at = to;
		if (!isCoded) return bytes.toString('latin1', from, to);
		const room = decodedRoom(length);
		const text = room <= TEXT.length ? TEXT : Buffer.allocUnsafe(room);
		const decoded = decodeHuffman(bytes, from, to, text);
		if (decoded === -1) throw malformed('a malformed Huffman code');
		return text.toString('latin1', 0, decoded);
	}

	/**
	 * RFC 7541 section 5.1. Nothing in a block can be as long as five bytes could say; more would only be zeros.
	 *
	 * @param mask of the prefix.
	 */
	#integer(mask: number): number {
		const bytes = this.#bytes;
		let value = bytes[this.#at++]! & mask;
		if (value < mask) return value;
		for (let shift = 0; shift <= 21; shift += 7) {
			if (this.#at >= this.#end) throw malformed('a block that breaks off');
			const byte = bytes[this.#at++]!;
			value += (byte & 0x7f) << shift;
			if (byte < 0x80) return value;
		}
		throw malformed('an integer too large');
	}
}

/** A block, and the bytes that it has been decoded from. */
class RememberedBlock<Field> {
	/** What it enters in the table. */
	entries: readonly Field[] = [];
	#block: HeaderBlock<Field> | undefined;
	/** Of the table that it needs; `undefined`: it means the same with any. */
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

function roomFor(length: number): number {
	return (length + 63) & ~63;
}

function malformed(what: string): ConnectionError {
	return new ConnectionError(CODE.COMPRESSION_ERROR, 'compression', what);
}

/** RFC 7541 section 4.2: the smallest size in between, and the last one. */
const MAX_SIZE_UPDATES = 2;
/** Longest block that is remembered, bytes. */
const MAX_BLOCK = 4096;
/** Coded values that are remembered, bytes: shorter than most tokens, and no token that is looked at is longer (`MAX_TOKEN_LENGTH`). */
const MIN_LITERAL = 128;
const MAX_LITERAL = 8300;
const COLON = 0x3a;
const NOTHING = Buffer.alloc(0);
/** Where strings are decoded; valid until the next one. */
const TEXT = Buffer.allocUnsafeSlow(16_384);
