import { IN_TOKEN, IN_VALUE } from '@mtls-edge-proxy/gate/gates/grammar.ts';
import {
	CONTENT_LENGTH,
	FORWARD,
	type Identifiers,
	type RequestField,
	requestField,
	TRANSFER_ENCODING,
} from '../../gates/headers.ts';

/** Where one field line stands in its block, and what its name means. The object serves for the lines of all heads at its place. */
export class FieldLine {
	from = 0;
	/** Behind its CRLF. */
	to = 0;
	colon = 0;
	/** The value without the blanks around it. */
	valueFrom = 0;
	valueTo = 0;
	field: RequestField = NO_FIELD;
	/** `name: value`, one blank between and none behind: forwarded as it is. */
	isPlain = false;
}

/**
 * Reads blocks of field lines that have come whole, which nearly all do: the same grammar as `FieldScanner`, a line at a time.
 *
 * Heads of one connection have the same names in the same order, and most of the same lines. So each line is compared with the last one
 * at its place: equal bytes need no second look, and of a line with the same name only the value is read.
 */
export class FieldLines {
	/** Those of the block that was read last; positions count from its first byte. */
	readonly lines: FieldLine[] = [];
	count = 0;
	readonly #apart: Identifiers;
	/** Bytes of the last block, and how many of its lines are known by them. */
	#last: Buffer = NOTHING;
	#length = 0;
	#known = 0;

	/** @param apart as for `readHttp1Head`. */
	constructor(apart: Identifiers) {
		this.#apart = apart;
	}

	/** @returns where the last block ends if it stands here once more, byte by byte; otherwise -1. */
	findLast(bytes: Buffer, from: number): number {
		const length = this.#length;
		const end = from + length;
		if (length === 0 || end > bytes.length) return -1;
		// Where requests have identifiers of their own, the last ones differ before anything is called.
		for (let i = Math.max(0, length - PROBE); i < length; i++) if (bytes[from + i] !== this.#last[i]) return -1;
		return bytes.compare(this.#last, 0, length, from, end) === 0 ? end : -1;
	}

	/**
	 * @param from where the block begins.
	 * @returns where it ends, behind its empty line; -1: it has not come whole, is not well-formed, or has too many lines for this reader.
	 */
	read(bytes: Buffer, from: number): number {
		const end = this.#readLines(bytes, from);
		this.#known = 0;
		this.#length = 0;
		return end;
	}

	/** The block that has just been read is the one that the next one is compared with. */
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
		// From its end: lines that differ mostly do so there.
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

	/** @param isKnown the line at this place in the last block is known. @returns -1: it is none, or has not come whole. */
	#readLine(line: FieldLine, bytes: Buffer, from: number, at: number, isKnown: boolean): number {
		const isSameName = isKnown && this.#hasName(line, bytes, at);
		let colon = at;
		if (isSameName) colon += line.colon - line.from;
		else while (IS_TOKEN[bytes[colon]!] === 1) colon++;
		if (colon === at || bytes[colon] !== COLON) return -1;
		if (!isSameName) line.field = requestField(bytes.toString('latin1', at, colon), this.#apart);
		let end = colon + 1;
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

	/** In the same spelling, with its colon. */
	#hasName({ from, colon }: FieldLine, bytes: Buffer, at: number): boolean {
		const last = this.#last;
		const shift = at - from;
		if (colon + shift >= bytes.length) return false;
		for (let i = from; i <= colon; i++) if (bytes[i + shift] !== last[i]) return false;
		return true;
	}
}

const NO_FIELD: RequestField = { name: '', kind: FORWARD };
const NOTHING = Buffer.alloc(0);
// Of this module: V8 looks an import up each time that it is read.
const IS_TOKEN = IN_TOKEN;
const IS_VALUE = IN_VALUE;
const SPACE = 0x20;
const TAB = 0x09;
const COLON = 0x3a;
const CR = 0x0d;
const LF = 0x0a;
/** More lines are read by their scanner. */
const MAX_LINES = 64;
/** Longer blocks of fields are not worth remembering, bytes. */
const MAX_REMEMBERED = 4096;
/** Bytes that are compared first. */
const PROBE = 16;

function isBlank(byte: number, tab: number): boolean {
	return byte === SPACE || byte === tab;
}
