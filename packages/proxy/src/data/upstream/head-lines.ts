import { IN_TOKEN, IN_VALUE } from '@mtls-edge-proxy/gate/gates/grammar.ts';
import { type ResponseField, type ResponseHeadReader, responseField } from '../../gates/response-head.ts';
import { ProtocolError } from './response-head.ts';

/**
 * Reads the status line of a head, which is latin1 text (RFC 9112 section 4). Status codes have three digits and five classes (RFC 9110
 * section 15). A missing reason phrase is common.
 */
export function readStatus(text: string): number {
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

/** For a text whose status line has been read. */
export function isHttp11(text: string): boolean {
	return text.charCodeAt(MINOR_VERSION) === 0x31;
}

/** The offset after the status line and its CRLF. */
export function endOfStatusLine(text: string): number {
	return endOfLine(text, STATUS_LENGTH);
}

/** A well-formed field line. */
export interface FieldLine {
	/** With its CRLF. */
	readonly text: string;
	readonly field: ResponseField;
	readonly value: string;
}

/**
 * Field lines (RFC 9112 section 5): token, colon, value, CRLF. No folding, no space before the colon, no bare CR or LF,
 * no NUL: readers disagree about each of them.
 *
 * @param text latin1.
 * @param to the offset after the last line's CRLF.
 * @param last lines of the previous head, by position; replaced by those of this one.
 * @returns how many of them were not known.
 */
export function readFields(
	text: string,
	from: number,
	to: number,
	reader: ResponseHeadReader,
	last: FieldLine[],
): number {
	let made = 0;
	let at = from;
	for (let i = 0; at < to; i++) {
		let line = last[i];
		if (i === MAX_FIELDS) throw new ProtocolError('head too long');
		if (line === undefined || !text.startsWith(line.text, at)) {
			made++;
			line = readLine(text, at, line?.field);
			if (i < MAX_REMEMBERED) last[i] = line;
		}
		reader.field(line.field, line.value);
		at += line.text.length;
	}
	reader.finish();
	return made;
}

/** @param likely the expected field. */
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

/** Local copies, as in `field-scanner.ts`: an import is looked up at each read. */
const IS_TOKEN = IN_TOKEN;
const IS_VALUE = IN_VALUE;

/** The offset of the next line; only text may precede it. */
function endOfLine(text: string, from: number): number {
	let end = from;
	while (IS_VALUE[text.charCodeAt(end)] === 1) end++;
	if (text.charCodeAt(end) !== CR || text.charCodeAt(end + 1) !== LF) throw new ProtocolError('malformed line');
	return end + 2;
}

function isDigit(value: number): boolean {
	return value >= 0 && value <= 9;
}

const CR = 13;
const LF = 10;
const MINOR_VERSION = 7;
/** `HTTP/1.1 200`. */
const STATUS_LENGTH = 12;
const MAX_REMEMBERED = 32;
/** As over HTTP/2 (`http2/client/response-fields.ts`). A field takes more time than its bytes: 64 KiB have room for 16,000. */
const MAX_FIELDS = 2_048;
