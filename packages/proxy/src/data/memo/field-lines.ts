import { IN_TOKEN, IN_VALUE } from '@mtls-edge-proxy/gate/gates/grammar.ts';
import { isReadView, READ_BUFFER, READ_WORDS } from '#read-buffer';
import {
	CONTENT_LENGTH,
	FORWARD,
	type Identifiers,
	type RequestField,
	requestField,
	TRANSFER_ENCODING,
} from '../../gates/field-kinds.ts';

/** The position of one field line in its block, and the kind of its name. The object is reused for the lines of all heads at its place. */
export class FieldLine {
	from = 0;
	/** After its CRLF. */
	to = 0;
	colon = 0;
	/** The value, without blanks around it. */
	valueFrom = 0;
	valueTo = 0;
	field: RequestField = NO_FIELD;
	/** `name: value`, with one blank between them and none after: forwarded unchanged. */
	isPlain = false;
}

/**
 * Reads complete blocks of field lines, which nearly all are: the same grammar as `FieldScanner`, a line at a time.
 *
 * The heads of a connection have the same names in the same order, and mostly the same lines. So each line is compared with the
 * last one at its place: equal bytes are not parsed again, and of a line with the same name only the value is.
 */
export class FieldLines {
	/** The lines of the last block; positions count from its first byte. */
	readonly lines: FieldLine[] = [];
	count = 0;
	readonly #apart: Identifiers;
	/** Bytes of the remembered block, their length, and the number of its lines. */
	#last: Buffer = NOTHING;
	#length = 0;
	#known = 0;

	/** @param apart as for `readHttp1Head`. */
	constructor(apart: Identifiers) {
		this.#apart = apart;
	}

	/** @returns the end of the block at `from`, if it has the same bytes as the remembered one; otherwise -1. */
	findLast(bytes: Buffer, from: number): number {
		const length = this.#length;
		const end = from + length;
		if (length === 0 || end > bytes.length) return -1;
		// The last bytes first: if requests carry identifiers, they differ there, and no call is needed.
		for (let i = Math.max(0, length - PROBE); i < length; i++) if (bytes[from + i] !== this.#last[i]) return -1;
		return bytes.compare(this.#last, 0, length, from, end) === 0 ? end : -1;
	}

	/**
	 * @param from where the block begins.
	 * @returns its end, after its empty line; -1: it is incomplete, malformed, or has too many lines for this reader.
	 */
	read(bytes: Buffer, from: number): number {
		const end = this.#readLines(bytes, from);
		this.#known = 0;
		this.#length = 0;
		return end;
	}

	/** Remembers the block that has just been read: the next one is compared with it. */
	remember(bytes: Buffer, from: number, end: number): void {
		const length = end - from;
		if (length > MAX_REMEMBERED) return;
		if (length > this.#last.length) this.#last = Buffer.allocUnsafeSlow((length + 255) & ~255);
		bytes.copy(this.#last, 0, from, end);
		this.#length = length;
		this.#known = this.count;
	}

	#readLines(bytes: Buffer, from: number): number {
		const { lines } = this;
		let at = from;
		for (let i = 0; i < MAX_LINES; i++) {
			if (bytes[at] === CR) {
				this.count = i;
				return bytes[at + 1] === LF ? at + 2 : -1;
			}
			const line = lines[i] ?? this.#addLine();
			const isKnown = i < this.#known;
			const end =
				isKnown && this.#isSame(line, bytes, at)
					? this.#move(line, at - from)
					: this.#readLine(line, bytes, from, at, isKnown);
			if (end === -1) return -1;
			at = from + line.to;
		}
		return -1;
	}

	#addLine(): FieldLine {
		const line = new FieldLine();
		this.lines.push(line);
		return line;
	}

	#isSame({ from, to }: FieldLine, bytes: Buffer, at: number): boolean {
		const last = this.#last;
		const shift = at - from;
		if (to + shift > bytes.length) return false;
		// From the end: lines usually differ there.
		for (let i = to - 1; i >= from; i--) if (bytes[i + shift] !== last[i]) return false;
		return true;
	}

	#move(line: FieldLine, from: number): number {
		const shift = from - line.from;
		line.from = from;
		line.colon += shift;
		line.valueFrom += shift;
		line.valueTo += shift;
		line.to += shift;
		return line.to;
	}

	/** @param isKnown the remembered block has a line at this place. @returns -1: malformed or incomplete. */
	#readLine(line: FieldLine, bytes: Buffer, from: number, at: number, isKnown: boolean): number {
		const isSameName = isKnown && this.#hasName(line, bytes, at);
		let colon = at;
		if (isSameName) colon += line.colon - line.from;
		else while (IS_TOKEN[bytes[colon]!] === 1) colon++;
		if (colon === at || bytes[colon] !== COLON) return -1;
		if (!isSameName) line.field = requestField(bytes.toString('latin1', at, colon), this.#apart);
		let end = isReadView(bytes) ? skipWords(colon + 1, bytes.length) : colon + 1;
		while (IS_VALUE[bytes[end]!] === 1) end++;
		if (bytes[end] !== CR || bytes[end + 1] !== LF) return -1;
		const { kind } = line.field;
		// See `splitFields`.
		const tab = kind === CONTENT_LENGTH || kind === TRANSFER_ENCODING ? SPACE : TAB;
		let valueFrom = colon + 1;
		let valueTo = end;
		while (valueFrom < valueTo && isBlank(bytes[valueFrom]!, tab)) valueFrom++;
		while (valueTo > valueFrom && isBlank(bytes[valueTo - 1]!, tab)) valueTo--;
		line.isPlain = valueTo === end && valueFrom === colon + 2 && bytes[colon + 1] === SPACE;
		line.from = at - from;
		line.colon = colon - from;
		line.valueFrom = valueFrom - from;
		line.valueTo = valueTo - from;
		line.to = end + 2 - from;
		return line.to;
	}

	/** Whether the line has the same name, in the same spelling, up to its colon. */
	#hasName({ from, colon }: FieldLine, bytes: Buffer, at: number): boolean {
		const last = this.#last;
		const shift = at - from;
		if (colon + shift >= bytes.length) return false;
		for (let i = from; i <= colon; i++) if (bytes[i + shift] !== last[i]) return false;
		return true;
	}
}

/**
 * Skips most of a value in `READ_BUFFER`, four bytes at a time. A token has hundreds of bytes, and one at a time they take three times as
 * long.
 *
 * @param at where the value begins.
 * @param length of the bytes that have been read.
 * @returns an offset up to which all bytes may be in a value.
 */
function skipWords(at: number, length: number): number {
	const first = (at + 3) >> 2;
	for (let i = at; i < first << 2; i++) if (i >= length || IS_VALUE[BYTES[i]!] !== 1) return i;
	const words = length >> 2;
	let word = first;
	for (; word < words; word++) {
		const bytes = WORDS[word]!;
		const dels = bytes ^ DELS;
		// Sets the high bit of the lowest byte that is less than 0x20, or 0x7f; nothing if there is none.
		if ((((bytes - BLANKS) & ~bytes) | ((dels - ONES) & ~dels)) & HIGH_BITS) break;
	}
	return word << 2;
}

const NO_FIELD: RequestField = { name: '', kind: FORWARD };
const NOTHING = Buffer.alloc(0);
// Local copies: V8 looks up an import each time that it is read.
const IS_TOKEN = IN_TOKEN;
const IS_VALUE = IN_VALUE;
const WORDS = READ_WORDS;
const BYTES = READ_BUFFER;
const ONES = 0x0101_0101;
const BLANKS = 0x2020_2020;
const DELS = 0x7f7f_7f7f;
const HIGH_BITS = 0x8080_8080;
const SPACE = 0x20;
const TAB = 0x09;
const COLON = 0x3a;
const CR = 0x0d;
const LF = 0x0a;
/** Longer blocks are left to `FieldScanner`. */
const MAX_LINES = 64;
/** Longer blocks are not remembered, bytes. */
const MAX_REMEMBERED = 4096;
/** Bytes that are compared first. */
const PROBE = 16;

function isBlank(byte: number, tab: number): boolean {
	return byte === SPACE || byte === tab;
}
