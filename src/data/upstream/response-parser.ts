import { UNDECLARED } from '../../gates/body-limit.ts';
import { type ResponseField, ResponseHeadReader, responseField } from '../../gates/response-head.ts';
import { AnswerFields } from '../answer-fields.ts';

/** What the parser tells of a response, in this order: `onHead`, `onBody` any number of times, `onEnd`. */
export interface ResponseEvents {
	/**
	 * @param fields what is passed on; without framing and hop-by-hop fields, but with the length that is to be announced.
	 * @param length bytes of the body, `UNDECLARED` when only its end will tell. For a response without a body by
	 *   rule (HEAD, 204, 205, 304) the `content-length` to announce, or `UNDECLARED`.
	 * @param hasBody whether body bytes may follow.
	 */
	onHead(status: number, fields: AnswerFields, length: number, hasBody: boolean): void;
	/** @param chunk a view that is valid only during the call. */
	onBody(chunk: Buffer): void;
	onEnd(): void;
}

/**
 * The upstream's answer breaks RFC 9112, or our stricter reading of it; `cause` may say more exactly how. Never carries bytes
 * of the answer.
 */
export class ProtocolError extends Error {}

/** A head longer than this is refused, bytes. */
const MAX_HEAD = 65_536;
/** Interim responses before the final one; more are a flood. */
const MAX_INTERIM = 32;
/** A chunk-size line with its extensions, bytes. */
const MAX_CHUNK_LINE = 1024;

const HEAD = 0;
const FIXED = 1;
const UNTIL_CLOSE = 2;
const CHUNK_SIZE = 3;
const CHUNK_DATA = 4;
const CHUNK_END = 5;
const TRAILERS = 6;
const DONE = 7;

/**
 * Parses HTTP/1.1 responses (RFC 9112) to known requests on one connection, from reads cut anywhere. Strict: a response
 * that two readers could understand in two ways is an error, never repaired, since the connection behind it is shared
 * by tenants.
 */
export class ResponseParser {
	/** The connection may serve another request after this response. */
	keepAlive = false;
	/** Milliseconds for which the upstream promises to keep an idle connection; `undefined`: it says nothing. */
	keepAliveTimeoutMs: number | undefined = undefined;
	/** A byte of the current response has arrived. */
	started = false;
	#events: ResponseEvents | undefined;
	#state = DONE;
	#headRequest = false;
	#interim = 0;
	/** Bytes of the body or chunk still to come. */
	#left = 0;
	/** Bytes of the body as announced. */
	#length = UNDECLARED;
	readonly #heads: ResponseHeads;
	/** Head, chunk-size line or trailers, as far as a read that ended within them brought it. */
	#pending: Buffer | undefined = undefined;

	/** @param heads of all connections to the upstream. */
	constructor(heads = new ResponseHeads()) {
		this.#heads = heads;
	}

	/** No response is under way. */
	get isDone(): boolean {
		return this.#state === DONE;
	}

	/** A request has been sent; the next bytes are its response. */
	expect(method: string, events: ResponseEvents): void {
		this.#events = events;
		this.#state = HEAD;
		this.#headRequest = method === 'HEAD';
		this.#interim = 0;
		this.#pending = undefined;
		this.started = false;
		this.keepAlive = false;
		this.keepAliveTimeoutMs = undefined;
	}

	/**
	 * Consumes one read.
	 *
	 * @returns the number of bytes that belong to the response; fewer than given means that others follow its end.
	 * @throws ProtocolError
	 */
	push(bytes: Buffer): number {
		this.started = true;
		let chunk = bytes;
		let before = 0;
		if (this.#pending !== undefined) {
			before = this.#pending.length;
			chunk = Buffer.concat([this.#pending, bytes]);
			this.#pending = undefined;
		}
		let at = 0;
		while (at < chunk.length && this.#state !== DONE) {
			const next = this.#step(chunk, at);
			if (next === -1) {
				// A copy: the read buffer is used again.
				this.#pending = Buffer.from(chunk.subarray(at));
				return bytes.length;
			}
			at = next;
		}
		return at - before;
	}

	/** Bytes that are still to come of a body of known length; 0: there is none, or something else comes before it. */
	get leftOfBody(): number {
		return this.#state === FIXED ? this.#left : 0;
	}

	/** So many bytes of a body of known length, of `leftOfBody` at most, have come without having been pushed. */
	skip(bytes: number): void {
		this.#left -= bytes;
		if (this.#left === 0) this.#end();
	}

	/**
	 * The upstream has closed its side.
	 *
	 * @returns whether that completes the response; if so `onEnd` has been called.
	 */
	close(): boolean {
		if (this.#state === UNTIL_CLOSE) this.#end();
		return this.#state === DONE;
	}

	/** Where in the response it stands, for one that breaks off there: `after 312 of 1,024 bytes`. */
	get place(): string {
		if (!this.started) return 'before an answer';
		if (this.#state === HEAD) return 'within the head';
		if (this.#state !== FIXED) return 'within a chunked body';
		const inWords = (bytes: number) => bytes.toLocaleString('en-US');
		return `after ${inWords(this.#length - this.#left)} of ${inWords(this.#length)} bytes`;
	}

	/** One step of the message's grammar; returns where the next begins, or -1 when it needs more bytes. */
	#step(chunk: Buffer, at: number): number {
		switch (this.#state) {
			case HEAD:
				return this.#head(chunk, at);
			case FIXED:
			case CHUNK_DATA:
				return this.#data(chunk, at);
			case UNTIL_CLOSE:
				this.#events!.onBody(at === 0 ? chunk : chunk.subarray(at));
				return chunk.length;
			case CHUNK_SIZE:
				return this.#chunkSize(chunk, at);
			case CHUNK_END:
				return this.#chunkEnd(chunk, at);
			default:
				return this.#trailers(chunk, at);
		}
	}

	#head(chunk: Buffer, at: number): number {
		const known = this.#heads.find(chunk, at);
		if (known !== undefined) {
			this.#begin(known);
			return at + known.bytes.length;
		}
		// Most heads are short, and looking through text costs less than calling into the buffer's native search.
		const short = chunk.toString('latin1', at, at + SHORT_HEAD);
		const found = short.indexOf('\r\n\r\n');
		const isLong = found === -1 && chunk.length - at > SHORT_HEAD;
		const end = found !== -1 ? at + found : isLong ? chunk.indexOf('\r\n\r\n', at, 'latin1') : -1;
		if (lengthSoFar(chunk, at, end, 4) > MAX_HEAD) throw new ProtocolError('head too long');
		if (end === -1) {
			// Noticing nonsense early spares waiting for an end that will not come.
			if (!couldBeStatusLine(chunk, at)) throw new ProtocolError('no status line');
			if (hasBareLf(chunk, at)) throw new ProtocolError('bare LF in a head');
			return -1;
		}
		const text = isLong ? chunk.toString('latin1', at, end + 2) : short;
		const status = readStatus(text);
		const reader = new ResponseHeadReader();
		// What is remembered of a long head would keep all of it in memory.
		const lines = isLong ? [] : this.#heads.lines;
		const isRepeated = parseFields(text, endOfLine(text, STATUS_LENGTH), end + 2 - at, reader, lines);
		const isHttp11 = text.charCodeAt(MINOR_VERSION) === 0x31;
		if (status < 200) {
			this.#interimResponse(status, isHttp11 && !reader.close);
			return end + 4;
		}
		const head = responseHead(status, isHttp11, reader);
		this.#begin(head);
		if (isRepeated) this.#heads.remember(head, chunk.subarray(at, end + 4));
		return end + 4;
	}

	/** RFC 9110 section 15.2: 100, 102, 103 are for us to swallow; 101 would leave HTTP, which nobody asked for. */
	#interimResponse(status: number, goesOn: boolean): void {
		if (status === 101) throw new ProtocolError('switching protocols unasked');
		// It promises another response behind it (HTTP/1.0 has none of this kind), so it cannot end the connection.
		if (!goesOn) throw new ProtocolError('interim response that ends the connection');
		if (++this.#interim > MAX_INTERIM) throw new ProtocolError('too many interim responses');
	}

	/** The message body's length, RFC 9112 section 6.3, in that order. */
	#begin({ status, fields, length, chunked, keepAlive, keepAliveTimeoutMs }: ResponseHead): void {
		this.keepAlive = keepAlive;
		this.keepAliveTimeoutMs = keepAliveTimeoutMs;
		if (this.#headRequest || status === 204 || status === 205 || status === 304) {
			this.#events!.onHead(status, fields, length, false);
			this.#end();
			return;
		}
		this.#length = length;
		this.#left = length;
		this.#state = chunked ? CHUNK_SIZE : length === UNDECLARED ? UNTIL_CLOSE : FIXED;
		if (this.#state === UNTIL_CLOSE) this.keepAlive = false;
		this.#events!.onHead(status, fields, length, true);
		if (length === 0) this.#end();
	}

	#data(chunk: Buffer, at: number): number {
		const end = Math.min(chunk.length, at + this.#left);
		this.#left -= end - at;
		this.#events!.onBody(chunk.subarray(at, end));
		if (this.#left === 0) {
			if (this.#state === CHUNK_DATA) this.#state = CHUNK_END;
			else this.#end();
		}
		return end;
	}

	/** RFC 9112 section 7.1: hexadecimal digits and nothing that another reader could add to them or leave off. */
	#chunkSize(chunk: Buffer, at: number): number {
		const end = chunk.indexOf('\r\n', at, 'latin1');
		const line = chunk.toString('latin1', at, end === -1 ? chunk.length : end);
		if (lengthSoFar(chunk, at, end, 2) > MAX_CHUNK_LINE) throw new ProtocolError('chunk extension too long');
		if (end === -1) {
			if (line.includes('\n')) throw new ProtocolError('bare LF in a chunk size');
			return -1;
		}
		const match = CHUNK_LINE.exec(line);
		if (match === null) throw new ProtocolError('malformed chunk size');
		this.#left = Number.parseInt(match[1]!, 16);
		this.#state = this.#left === 0 ? TRAILERS : CHUNK_DATA;
		return end + 2;
	}

	#chunkEnd(chunk: Buffer, at: number): number {
		if (chunk[at] !== CR || (chunk.length > at + 1 && chunk[at + 1] !== LF)) {
			throw new ProtocolError('chunk without end');
		}
		if (chunk.length === at + 1) return -1;
		this.#state = CHUNK_SIZE;
		return at + 2;
	}

	/** Trailers are read, so that a malformed one is noticed, and dropped (decisions "HTTP"). */
	#trailers(chunk: Buffer, at: number): number {
		if (chunk[at] === CR && chunk.length > at + 1 && chunk[at + 1] === LF) {
			this.#end();
			return at + 2;
		}
		const end = chunk.indexOf('\r\n\r\n', at, 'latin1');
		if (lengthSoFar(chunk, at, end, 4) > MAX_HEAD) throw new ProtocolError('trailers too long');
		if (end === -1) return -1;
		const trailers = new ResponseHeadReader();
		parseFields(chunk.toString('latin1', at, end + 2), 0, end + 2 - at, trailers, []);
		// RFC 9110 section 6.5.1: a reader that merged it into the head would find another end of the message.
		if (trailers.length !== UNDECLARED || trailers.chunked || trailers.malformed !== undefined) {
			throw new ProtocolError('framing in a trailer');
		}
		this.#end();
		return end + 4;
	}

	#end(): void {
		this.#state = DONE;
		this.#events!.onEnd();
	}
}

/** What the head of a final response says. */
interface ResponseHead {
	readonly status: number;
	readonly fields: AnswerFields;
	/** Bytes of the body, or what is to be announced where there is none by rule; `UNDECLARED`: it does not say. */
	readonly length: number;
	readonly chunked: boolean;
	readonly keepAlive: boolean;
	readonly keepAliveTimeoutMs: number | undefined;
}

/** @throws ProtocolError where the framing can be understood in two ways. */
function responseHead(status: number, isHttp11: boolean, reader: ResponseHeadReader): ResponseHead {
	const { fields, chunked, malformed, keepAliveTimeoutMs } = reader;
	if (malformed !== undefined) throw new ProtocolError('ambiguous framing', { cause: malformed });
	if (chunked && !isHttp11) throw new ProtocolError('ambiguous framing', { cause: 'chunked body in HTTP/1.0' });
	// RFC 9110 section 15.3.6: 205 has no content, and says so by a length of 0. What follows it all the same is a byte too
	// many, even an empty chunked body.
	const length = status === 204 ? UNDECLARED : status === 205 ? 0 : reader.length;
	if (length !== UNDECLARED) fields.push('content-length', String(length));
	const keepAlive = isHttp11 && !reader.close;
	return { status, fields: new AnswerFields(fields), length, chunked, keepAlive, keepAliveTimeoutMs };
}

/**
 * The last head of an upstream's responses, and the last lines. Upstreams send the same ones again and again: where bytes are
 * the same, what they say is that of before. Only facts of bytes are remembered.
 */
export class ResponseHeads {
	/** By position in the head. */
	readonly lines: FieldLine[] = [];
	#last: (ResponseHead & { readonly bytes: Buffer }) | undefined;

	find(chunk: Buffer, at: number): (ResponseHead & { readonly bytes: Buffer }) | undefined {
		const last = this.#last;
		if (last === undefined) return undefined;
		const end = at + last.bytes.length;
		if (end <= chunk.length && last.bytes.compare(chunk, at, end) === 0) return last;
		// One head after the other that is not the same: looking costs more than it brings.
		this.#last = undefined;
		return undefined;
	}

	/** @param bytes of the whole head; they are copied. */
	remember(head: ResponseHead, bytes: Buffer): void {
		this.#last = { ...head, fields: new AnswerFields(head.fields.list, true), bytes: Buffer.from(bytes) };
	}
}

const CR = 13;
const LF = 10;

/** `;name`, `;name=token` or `;name="text"`, blanks between (RFC 9112 section 7.1.1). */
const CHUNK_EXTENSION =
	/[ \t]*;[ \t]*TOKEN(?:[ \t]*=[ \t]*(?:TOKEN|"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"))?/.source.replaceAll(
		'TOKEN',
		"[!#$%&'*+\\-.^_`|~0-9A-Za-z]+",
	);
/** Up to 2^52: counted exactly. Extensions are ignored, but must be well-formed. */
const CHUNK_LINE = new RegExp(`^([0-9A-Fa-f]{1,13})(?:${CHUNK_EXTENSION})*$`);

/** Bytes. */
const SHORT_HEAD = 1024;

const MINOR_VERSION = 7;
/** `HTTP/1.1 200`. */
const STATUS_LENGTH = 12;

/** Status codes have three digits and five classes (RFC 9110 section 15). A missing reason phrase is common. */
function readStatus(text: string): number {
	const minor = text.charCodeAt(MINOR_VERSION);
	const next = text.charCodeAt(STATUS_LENGTH);
	const hundreds = text.charCodeAt(9) - 0x30;
	const tens = text.charCodeAt(10) - 0x30;
	const ones = text.charCodeAt(11) - 0x30;
	const wellFormed =
		text.startsWith('HTTP/1.') &&
		(minor === 0x30 || minor === 0x31) &&
		text.charCodeAt(8) === 0x20 &&
		hundreds >= 1 &&
		hundreds <= 5 &&
		isDigit(tens) &&
		isDigit(ones) &&
		(next === 0x20 || next === CR);
	if (!wellFormed) throw new ProtocolError('malformed status line');
	return hundreds * 100 + tens * 10 + ones;
}

function isDigit(value: number): boolean {
	return value >= 0 && value <= 9;
}

/** Where the next line begins; only text may stand up to there. */
function endOfLine(text: string, from: number): number {
	let end = from;
	while (IS_VALUE[text.charCodeAt(end)] === 1) end++;
	if (text.charCodeAt(end) !== CR || text.charCodeAt(end + 1) !== LF) throw new ProtocolError('malformed line');
	return end + 2;
}

/**
 * How long what ends with a delimiter is at least. As long as the delimiter has not come whole, its first bytes may be
 * among those that are there: a limit must not depend on where a read ended.
 */
function lengthSoFar(chunk: Buffer, at: number, end: number, delimiter: number): number {
	return (end === -1 ? chunk.length - (delimiter - 1) : end) - at;
}

function hasBareLf(chunk: Buffer, at: number): boolean {
	for (let lf = chunk.indexOf(LF, at); lf !== -1; lf = chunk.indexOf(LF, lf + 1)) {
		if (lf === at || chunk[lf - 1] !== CR) return true;
	}
	return false;
}

function couldBeStatusLine(chunk: Buffer, at: number): boolean {
	const start = chunk.toString('latin1', at, Math.min(at + 7, chunk.length));
	return 'HTTP/1.'.startsWith(start);
}

/** One that is well-formed. */
interface FieldLine {
	/** With its CRLF. */
	readonly text: string;
	readonly field: ResponseField;
	readonly value: string;
}

/**
 * Field lines (RFC 9112 section 5): token, colon, value, CRLF. No folding, no space before the colon, no bare CR or LF,
 * no NUL: each of them is read in two ways by somebody.
 *
 * @param text latin1.
 * @param to behind the CRLF of the last line.
 * @param last lines of the head before this one, by position; become those of this one.
 * @returns whether all of them were known.
 */
function parseFields(text: string, from: number, to: number, reader: ResponseHeadReader, last: FieldLine[]): boolean {
	let areKnown = true;
	let at = from;
	for (let i = 0; at < to; i++) {
		let line = last[i];
		if (line === undefined || !text.startsWith(line.text, at)) {
			areKnown = false;
			line = readLine(text, at, line?.field);
			if (i < MAX_REMEMBERED) last[i] = line;
		}
		reader.field(line.field, line.value);
		at += line.text.length;
	}
	reader.finish();
	return areKnown;
}

const MAX_REMEMBERED = 32;

/** @param likely field. */
function readLine(text: string, at: number, likely: ResponseField | undefined): FieldLine {
	const field = likely !== undefined && text.startsWith(likely.opening, at) ? likely : readFieldName(text, at);
	let start = at + field.opening.length;
	while (isBlank(text.charCodeAt(start))) start++;
	const next = endOfLine(text, start);
	let end = next - 2;
	while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
	return { text: text.slice(at, next), field, value: text.slice(start, end) };
}

function readFieldName(text: string, at: number): ResponseField {
	let colon = at;
	while (IS_TOKEN[text.charCodeAt(colon)] === 1) colon++;
	if (colon === at || text.charCodeAt(colon) !== 0x3a) throw new ProtocolError('malformed field name');
	return responseField(text.slice(at, colon));
}

function isBlank(code: number): boolean {
	return code === 0x20 || code === 0x09;
}

/** RFC 9110 section 5.6.2. */
const IS_TOKEN = table(/[!#$%&'*+\-.^_`|~0-9A-Za-z]/);
/** RFC 9110 section 5.5: visible characters, blanks and obs-text. */
const IS_VALUE = table(/[\t\x20-\x7e\x80-\xff]/);

function table(pattern: RegExp): Uint8Array {
	return Uint8Array.from({ length: 256 }, (_, code) => (pattern.test(String.fromCharCode(code)) ? 1 : 0));
}
