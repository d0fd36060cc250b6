import { IN_TOKEN, IN_VALUE } from '@mtls-edge-proxy/gate/gates/grammar.ts';

/**
 * The grammar of field lines (RFC 9112 section 5): `name ":" value CRLF`, as often as there are fields, and an empty line.
 * Pure. Every byte is looked at once, however the block is cut into reads, so a byte that has no place there is noticed as
 * soon as it comes.
 *
 * Refused although some readers take it: obs-fold, bare CR or LF, blanks before the colon, an empty name, control bytes.
 */
export class FieldScanner {
	/** In words, what has no place in the block; `undefined`: nothing so far. */
	problem: string | undefined = undefined;
	#state = LINE_START;

	/** Begins a new block. */
	reset(): void {
		this.problem = undefined;
		this.#state = LINE_START;
	}

	/**
	 * Goes on with the block.
	 *
	 * @param at where the bytes begin that have not been looked at yet.
	 * @returns where the block ends, behind its empty line; -1: more bytes are needed, or there is a `problem`.
	 */
	scan(bytes: Buffer, at: number): number {
		const end = bytes.length;
		let state = this.#state;
		for (let i = at; i < end; i++) {
			const byte = bytes[i]!;
			switch (state) {
				case VALUE:
					if (IS_VALUE[byte] === 1) break;
					if (byte !== CR) return this.#fail(byte === LF ? 'bare LF in a field line' : 'control byte in a field value');
					state = VALUE_LF;
					break;
				case NAME:
					if (IS_TOKEN[byte] === 1) break;
					if (byte !== COLON) return this.#fail(badName(byte));
					state = VALUE;
					break;
				case LINE_START:
					if (IS_TOKEN[byte] === 1) state = NAME;
					else if (byte === CR) state = END_LF;
					else return this.#fail(badStart(byte));
					break;
				case VALUE_LF:
					if (byte !== LF) return this.#fail('bare CR in a field line');
					state = LINE_START;
					break;
				default:
					if (byte !== LF) return this.#fail('bare CR in a field line');
					return i + 1;
			}
		}
		this.#state = state;
		return -1;
	}

	#fail(problem: string): -1 {
		this.problem = problem;
		return -1;
	}
}

const LINE_START = 0;
const NAME = 1;
const VALUE = 2;
const VALUE_LF = 3;
const END_LF = 4;

const COLON = 0x3a;
const CR = 0x0d;
const LF = 0x0a;

// Of this module: V8 looks an import up each time that it is read, which cost a sixth of a scan.
const IS_TOKEN = IN_TOKEN;
const IS_VALUE = IN_VALUE;

function badStart(byte: number): string {
	if (byte === 0x20 || byte === 0x09) return 'folded field line';
	if (byte === LF) return 'bare LF in a field line';
	return byte === COLON ? 'field without a name' : 'malformed field name';
}

function badName(byte: number): string {
	if (byte === 0x20 || byte === 0x09) return 'blank in a field name';
	return byte === CR || byte === LF ? 'field line without a colon' : 'malformed field name';
}

/**
 * Names and values in turn, without the blanks around values (RFC 9112 section 5.1). The two fields that frame the message keep
 * their tabs, and are refused for it: some readers do not take `chunked<tab>` for `chunked`, and look for the message's end
 * elsewhere.
 *
 * @param text latin1 of a block that `scan` has found to be well-formed, from its first line to behind its empty one.
 */
export function splitFields(text: string): string[] {
	const fields: string[] = [];
	const last = text.length - 2;
	for (let at = 0; at < last; ) {
		const colon = text.indexOf(':', at);
		const lineEnd = text.indexOf('\r', colon);
		const name = text.slice(at, colon);
		const tab = isFraming(name) ? SPACE : TAB;
		let start = colon + 1;
		let end = lineEnd;
		while (start < end && isBlank(text.charCodeAt(start), tab)) start++;
		while (end > start && isBlank(text.charCodeAt(end - 1), tab)) end--;
		fields.push(name, text.slice(start, end));
		at = lineEnd + 2;
	}
	return fields;
}

/** Whether it says where a message ends (RFC 9112 section 6). */
export function isFraming(name: string): boolean {
	const { length } = name;
	if (length !== 14 && length !== 17) return false;
	const lower = name.toLowerCase();
	return lower === 'content-length' || lower === 'transfer-encoding';
}

const SPACE = 0x20;
const TAB = 0x09;

function isBlank(code: number, tab: number): boolean {
	return code === SPACE || code === tab;
}
