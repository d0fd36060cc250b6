import { IN_TOKEN, IN_VALUE } from '@mtls-edge-proxy/gate/gates/grammar.ts';

/**
 * The grammar of field lines (RFC 9112 section 5): `name ":" value CRLF`, as often as there are fields, and an empty line.
 * Pure. Every byte is examined once, however the block is cut into reads, so an invalid byte is noticed as
 * soon as it arrives.
 *
 * Refused, although some readers accept it: obs-fold, bare CR or LF, blanks before the colon, an empty name, control bytes.
 */
export class FieldScanner {
	/** In words, what is invalid in the block; `undefined`: nothing so far. */
	problem: string | undefined = undefined;
	#state = LINE_START;

	reset(): void {
		this.problem = undefined;
		this.#state = LINE_START;
	}

	/**
	 * Goes on with the block.
	 *
	 * @param at offset of the first byte not scanned yet.
	 * @returns the offset after the block's empty line; -1: more bytes are needed, or there is a `problem`.
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

// Local copies: V8 looks an import up at each read, which took a sixth of a scan.
const IS_TOKEN = IN_TOKEN;
const IS_VALUE = IN_VALUE;

function badStart(byte: number): string {
	if (byte === 0x20 || byte === 0x09) return 'folded field line';
	if (byte === LF) return 'bare LF in a field line';
	return byte === COLON ? 'field without a name' : 'malformed field name';
}

function badName(byte: number): string {
	if (byte === 0x20 || byte === 0x09) return 'whitespace in a field name';
	return byte === CR || byte === LF ? 'field line without a colon' : 'malformed field name';
}

/**
 * Names and values in turn, without the blanks around values (RFC 9112 section 5.1). The two fields that frame the message keep
 * their tabs, and are refused for it: some readers do not treat `chunked<tab>` as `chunked`, and find a different end of the
 * message.
 *
 * @param text latin1 of a block that `scan` has found well-formed, including its empty line.
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

/** Whether the field defines where a message ends (RFC 9112 section 6). */
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
