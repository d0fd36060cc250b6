import { IN_TOKEN } from '@mtls-edge-proxy/gate/gates/grammar.ts';
import { BAD_REQUEST, HEADERS_TOO_LARGE, Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { CONNECTION, FORWARD, type Identifiers, requestField, UPGRADE } from '../../gates/field-kinds.ts';
import { type RequestHead, RequestReader, readHttp1Head } from '../../gates/headers.ts';
import { FieldLines } from '../memo/field-lines.ts';
import { FieldScanner, splitFields } from './field-scanner.ts';

/** The facts of a head's fields, for the gates and for their connection. */
export interface FieldBlock {
	readonly head: RequestHead | Rejection;
	/** `Connection` names `close`, `keep-alive`, `upgrade` (RFC 9110 section 7.6.1). */
	readonly close: boolean;
	readonly keepAlive: boolean;
	/** Another protocol is requested: the bytes after the request may not be HTTP (RFC 9110 section 7.8). */
	readonly upgrade: boolean;
}

/**
 * Reads the request heads of one HTTP/1.1 connection (RFC 9112 sections 2 to 5). Pure: bytes in, facts out.
 *
 * Clients send the same fields again and again, which make up most of a head's cost. A complete block of fields is
 * compared with the last one (`FieldLines`): as a whole, then line by line. Only facts of bytes are remembered, never a verdict; the token
 * is judged anew for each request. Until a block comes a second time, its facts are substrings of its text, so requests that all
 * differ pay for no copies.
 *
 * After `read` has returned an index, the properties hold the request's facts until the next call.
 */
export class RequestHeadReader {
	method = '';
	/** As received. */
	target = '';
	/** Minor version. */
	minor = 1;
	block: FieldBlock = NO_BLOCK;
	/** Number of fields that were read; 0: the block is the same as the last one. */
	fields = 0;
	/** Why the bytes are not a request head; the meaning of the following bytes is unknown. */
	refusal: Rejection | undefined = undefined;
	readonly #maxBytes: number;
	readonly #apart: Identifiers;
	readonly #scanner = new FieldScanner();
	/** Bytes of the current head scanned so far. */
	#scanned = 0;
	/** Lengths of its method, its target, and its request line with CRLF; 0: not known yet. */
	#methodLength = 0;
	#targetLength = 0;
	#lineLength = 0;
	#lastMethod = 'GET';
	readonly #lines: FieldLines;
	/** The version of the request with the last block of fields. */
	#lastMinor = 1;
	/** That block has come more than once, and its facts are separate texts. */
	#isStandalone = false;

	/**
	 * @param maxBytes longest head, with its request line and its empty line.
	 * @param apart as for `readHttp1Head`.
	 */
	constructor(maxBytes: number, apart: Identifiers = 'none') {
		this.#maxBytes = maxBytes;
		this.#apart = apart;
		this.#lines = new FieldLines(apart);
	}

	/**
	 * Reads a head, or continues one: after -1, call again with the same bytes and more after them.
	 *
	 * @param from offset of the head in `bytes`.
	 * @returns its end; -1: more bytes are needed, or there is a `refusal`.
	 */
	read(bytes: Buffer, from: number): number {
		if (this.#lineLength === 0) {
			const lineEnd = this.#requestLine(bytes, from);
			if (lineEnd === -1) return this.#unfinished(bytes.length - from);
			this.#lineLength = lineEnd - from;
			this.#scanned = this.#lineLength;
			const end = this.#wholeBlock(bytes, lineEnd);
			if (end !== -1) return this.#finish(end - from > this.#maxBytes ? -1 : end);
		}
		const end = this.#scanner.scan(bytes, from + this.#scanned);
		this.#scanned = bytes.length - from;
		if (this.#scanner.problem !== undefined) return this.#fail(BAD_REQUEST.because(this.#scanner.problem));
		if (end === -1) return this.#unfinished(this.#scanned);
		if (end - from > this.#maxBytes) return this.#finish(-1);
		const block = from + this.#lineLength;
		const hasLines = this.#lines.read(bytes, block) === end;
		this.#readFields(bytes, block, end, hasLines);
		return this.#finish(end);
	}

	/** @returns the offset after the line's CRLF; -1: it is incomplete or malformed. */
	#requestLine(bytes: Buffer, from: number): number {
		const end = bytes.length;
		let at = from + this.#scanned;
		if (this.#methodLength === 0) {
			if (this.#scanned === 0) {
				// The previous request's values must not remain, even if this one fails.
				this.method = '';
				this.target = '';
			}
			while (at < end && IN_TOKEN[bytes[at]!] === 1) at++;
			this.#scanned = at - from;
			if (at === end) return -1;
			if (at === from || bytes[at] !== SPACE) return this.#fail(BAD_LINE);
			this.#methodLength = at - from;
			// Set even if the line turns out malformed: a HEAD is refused without content.
			if (bytes[from] === 0x48) this.method = this.#methodAt(bytes, from, at);
			at++;
		}
		const targetAt = from + this.#methodLength + 1;
		if (this.#targetLength === 0) {
			while (at < end && bytes[at]! > SPACE && bytes[at]! < DEL) at++;
			this.#scanned = at - from;
			if (at === end) return -1;
			if (at === targetAt || bytes[at] !== SPACE) return this.#fail(at === targetAt ? BAD_LINE : BAD_TARGET);
			this.#targetLength = at - targetAt;
		}
		const targetEnd = targetAt + this.#targetLength;
		const versionAt = targetEnd + 1;
		for (let i = 0; i < VERSION.length; i++) {
			at = versionAt + i;
			if (at >= end) return -1;
			const byte = bytes[at]!;
			// The minor version's digit: 0 or 1.
			if (i === MINOR_AT ? byte !== 0x30 && byte !== 0x31 : byte !== VERSION.charCodeAt(i))
				return this.#fail(BAD_VERSION);
		}
		this.method = this.#methodAt(bytes, from, targetAt - 1);
		const target = bytes.toString('latin1', targetAt, targetEnd);
		this.minor = bytes[versionAt + MINOR_AT]! - 0x30;
		const isPath = bytes[targetAt] === SLASH;
		// The authority form belongs to CONNECT, which is always refused.
		if (!isPath && this.method !== 'CONNECT' && !OTHER_TARGET.test(target)) return this.#fail(BAD_TARGET);
		this.target = target;
		return at + 1;
	}

	/** Returns the previous string if the method is the same, so that look-ups by it are fast. */
	#methodAt(bytes: Buffer, from: number, to: number): string {
		const last = this.#lastMethod;
		let i = last.length === to - from ? 0 : -1;
		while (i !== -1 && i < last.length) i = bytes[from + i] === last.charCodeAt(i) ? i + 1 : -1;
		if (i === -1) this.#lastMethod = bytes.toString('latin1', from, to);
		return this.#lastMethod;
	}

	/** @returns the end of the block of fields if it is complete, as nearly all are; -1: the scanner finds the reason. */
	#wholeBlock(bytes: Buffer, at: number): number {
		const last = this.minor === this.#lastMinor ? this.#lines.findLast(bytes, at) : -1;
		if (last === -1) {
			const end = this.#lines.read(bytes, at);
			if (end !== -1) this.#readFields(bytes, at, end, true);
			return end;
		}
		if (!this.#isStandalone) {
			this.block = standalone(this.block);
			this.#isStandalone = true;
		}
		this.fields = 0;
		return last;
	}

	#readFields(bytes: Buffer, at: number, end: number, hasLines: boolean): void {
		const text = bytes.toString('latin1', at, end);
		this.fields = this.#lines.count;
		this.block = (hasLines ? this.#readLines(text) : undefined) ?? this.#readByName(text);
		this.#isStandalone = false;
		this.#lastMinor = this.minor;
		if (hasLines && !(this.block.head instanceof Rejection)) this.#lines.remember(bytes, at, end);
	}

	#readByName(text: string): FieldBlock {
		const fields = splitFields(text);
		this.fields = fields.length / 2;
		return blockOf(fields, this.minor, this.#apart);
	}

	/** @returns `undefined`: forwarded lines must be picked by name. */
	#readLines(text: string): FieldBlock | undefined {
		const { lines, count } = this.#lines;
		const reader = new RequestReader(this.#apart);
		let options = '';
		let upgrade = false;
		// Adjacent lines that are forwarded unchanged stay one piece.
		let run = -1;
		for (let i = 0; i < count; i++) {
			const line = lines[i]!;
			const { name, kind } = line.field;
			const value = kind === FORWARD ? '' : text.slice(line.valueFrom, line.valueTo);
			if (kind === CONNECTION) options += `,${value}`;
			else if (kind === UPGRADE) upgrade = true;
			const isForwarded = reader.take(kind, value);
			if (isForwarded && line.isPlain) {
				if (run === -1) run = line.from;
				continue;
			}
			if (run !== -1) reader.lines += text.slice(run, line.from);
			run = -1;
			if (isForwarded) reader.lines += `${name}: ${text.slice(line.valueFrom, line.valueTo)}\r\n`;
		}
		if (reader.namesFields) return undefined;
		if (run !== -1) reader.lines += text.slice(run, text.length - 2);
		return fieldBlock(reader.finishHttp1(this.minor, []), options, upgrade);
	}

	/** @param end -1: the head is too long. */
	#finish(end: number): number {
		if (end === -1) return this.#fail(HEADERS_TOO_LARGE);
		this.#scanned = 0;
		this.#methodLength = 0;
		this.#targetLength = 0;
		this.#lineLength = 0;
		this.#scanner.reset();
		return end;
	}

	#unfinished(length: number): -1 {
		return length > this.#maxBytes && this.refusal === undefined ? this.#fail(HEADERS_TOO_LARGE) : -1;
	}

	#fail(refusal: Rejection): -1 {
		this.refusal = refusal;
		return -1;
	}
}

const SPACE = 0x20;
const DEL = 0x7f;
const SLASH = 0x2f;
const VERSION = 'HTTP/1.1\r\n';
const MINOR_AT = 7;

/** The absolute and the asterisk form (RFC 9112 section 3.2); the gates judge what they name. */
const OTHER_TARGET = /^(?:\*$|[a-z]+:\/\/[\w.~!$&'()*+,;=%:@[\]-]+(?:[/?]|$))/i;

const BAD_LINE = BAD_REQUEST.because('malformed request line');
const BAD_TARGET = BAD_REQUEST.because('malformed request target');
const BAD_VERSION = BAD_REQUEST.because('malformed request line, or a version other than HTTP/1.0 and HTTP/1.1');

const NO_BLOCK: FieldBlock = { head: BAD_REQUEST, close: false, keepAlive: false, upgrade: false };

function blockOf(fields: readonly string[], minor: number, apart: Identifiers): FieldBlock {
	let options = '';
	let upgrade = false;
	for (let i = 0; i < fields.length; i += 2) {
		const { kind } = requestField(fields[i]!, apart);
		if (kind === CONNECTION) options += `,${fields[i + 1]}`;
		else if (kind === UPGRADE) upgrade = true;
	}
	return fieldBlock(readHttp1Head(fields, minor, apart), options, upgrade);
}

/** @param options of all `Connection` fields, each after a comma. @param upgrade whether there is an `Upgrade`. */
function fieldBlock(head: RequestHead | Rejection, options: string, upgrade: boolean): FieldBlock {
	return {
		head,
		close: options !== '' && CLOSE.test(options),
		keepAlive: options !== '' && KEEP_ALIVE.test(options),
		upgrade: upgrade && UPGRADE_OPTION.test(options),
	};
}

const CLOSE = /,[ \t]*close[ \t]*(?:,|$)/i;
const KEEP_ALIVE = /,[ \t]*keep-alive[ \t]*(?:,|$)/i;
const UPGRADE_OPTION = /,[ \t]*upgrade[ \t]*(?:,|$)/i;

/** The same facts as flat strings: V8 would join their pieces at each write. */
function standalone({ head, close, keepAlive, upgrade }: FieldBlock): FieldBlock {
	if (head instanceof Rejection) return { head, close, keepAlive, upgrade };
	return {
		head: {
			authorization: copy(head.authorization),
			lines: copy(head.lines),
			bodyLength: head.bodyLength,
			wantsUpgrade: head.wantsUpgrade,
			webSocket: head.webSocket,
			expectsContinue: head.expectsContinue,
			traceparent: copy(head.traceparent),
			requestId: copy(head.requestId),
			tracestate: copy(head.tracestate),
			authority: copy(head.authority),
			claimsOrigin: head.claimsOrigin,
			isGrpc: head.isGrpc,
			grpcTimeout: head.grpcTimeout,
			acceptsTrailers: head.acceptsTrailers,
			announcedTrailers: copy(head.announcedTrailers),
			named: head.named,
		},
		close,
		keepAlive,
		upgrade,
	};
}

function copy<Text extends string | null | undefined>(text: Text): Text {
	return (typeof text === 'string' && text !== '' ? Buffer.from(text, 'latin1').toString('latin1') : text) as Text;
}
