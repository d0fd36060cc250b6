import type { Field, ResponseCase } from './responses.ts';

/** What a complete response says. */
export interface CompleteResponse {
	readonly status: number;
	/** As they stand in the head, values without the blanks around them. */
	readonly fields: readonly Field[];
	/** Latin1. */
	readonly body: string;
	/** Bytes up to the end of the response, interim responses included. */
	readonly length: number;
	/** Another response may follow on the connection. */
	readonly keepAlive: boolean;
}

/**
 * What arrived, read straight down by RFC 9112 and the stricter rules of docs/reference/protocol-strictness.md, on the whole text and with nothing in mind but
 * clarity: the measure for the parser, which sees the same text in pieces.
 *
 * @returns `undefined` for all that is no complete response, be it too short or wrong.
 */
export function readWholeResponse({ method, closes, text }: ResponseCase): CompleteResponse | undefined {
	let at = 0;
	for (let interims = 0; interims <= 32; interims++) {
		const end = text.indexOf('\r\n\r\n', at);
		if (end === -1 || end - at > 65_536) return undefined;
		const [statusLine = '', ...fieldLines] = text.slice(at, end).split('\r\n');
		const status = /^HTTP\/1\.([01]) ([1-5]\d\d)( [\t\x20-\x7e\x80-\xff]*)?$/.exec(statusLine);
		const fields = readFields(fieldLines);
		if (status === null || fields === undefined || status[2] === '101') return undefined;
		at = end + 4;
		if (status[2]!.startsWith('1')) {
			// What promises another response cannot end the connection.
			if (status[1] === '0' || closesConnection(fields)) return undefined;
			continue;
		}
		const content = readContent({
			text,
			at,
			closes,
			fields,
			isHttp11: status[1] === '1',
			bodiless: isBodiless(method, status[2]!),
		});
		return content && { status: Number(status[2]), fields, ...content };
	}
	return undefined;
}

function closesConnection(fields: readonly Field[]): boolean {
	const options = valuesOf(fields, 'connection').flatMap((value) => value.split(','));
	return options.some((option) => option.trim().toLowerCase() === 'close');
}

function isBodiless(method: string, status: string): boolean {
	return method === 'HEAD' || status === '204' || status === '205' || status === '304';
}

export function readFields(lines: readonly string[]): Field[] | undefined {
	const fields: Field[] = [];
	for (const line of lines) {
		const field = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t\x20-\x7e\x80-\xff]*)$/.exec(line);
		if (field === null) return undefined;
		fields.push([field[1]!, field[2]!.replace(/^[\t ]+|[\t ]+$/g, '')]);
	}
	return fields;
}

export function valuesOf(fields: readonly Field[], name: string): string[] {
	return fields.filter(([other]) => other.toLowerCase() === name).map(([, value]) => value);
}

interface Content {
	readonly text: string;
	readonly at: number;
	readonly closes: boolean;
	readonly fields: readonly Field[];
	readonly isHttp11: boolean;
	readonly bodiless: boolean;
}

/** RFC 9112 section 6.3. */
function readContent({
	text,
	at,
	closes,
	fields,
	isHttp11,
	bodiless,
}: Content): Omit<CompleteResponse, 'status' | 'fields'> | undefined {
	const lengths = valuesOf(fields, 'content-length');
	const codings = valuesOf(fields, 'transfer-encoding');
	if (lengths.length + codings.length > 1) return undefined;
	if (lengths.some((length) => !/^\d{1,16}$/.test(length) || Number(length) > Number.MAX_SAFE_INTEGER))
		return undefined;
	if (codings.some((coding) => coding.toLowerCase() !== 'chunked' || !isHttp11)) return undefined;
	const keepAlive = isHttp11 && !closesConnection(fields);
	if (bodiless) return { body: '', length: at, keepAlive };
	if (codings.length === 1) {
		const { body, isComplete, length } = readChunks(text, at);
		return isComplete ? { body, length, keepAlive } : undefined;
	}
	if (lengths.length === 1) {
		const length = at + Number(lengths[0]);
		return length > text.length ? undefined : { body: text.slice(at, length), length, keepAlive };
	}
	return closes ? { body: text.slice(at), length: text.length, keepAlive: false } : undefined;
}

export interface ReadChunks {
	/** As far as it has come. */
	readonly body: string;
	readonly isComplete: boolean;
	/** Where it ends. */
	readonly length: number;
}

/**
 * RFC 9112 section 7.1.
 *
 * @param extensions what may stand behind a chunk's size.
 */
export function readChunks(text: string, start: number, extensions = areExtensions): ReadChunks {
	let body = '';
	for (let at = start; ; ) {
		const cutShort = { body, isComplete: false, length: at };
		const end = text.indexOf('\r\n', at);
		const line = text.slice(at, end);
		const digits = /^[0-9A-Fa-f]{1,13}(?![0-9A-Fa-f])/.exec(line)?.[0];
		if (end === -1 || line.length > 1024 || digits === undefined) return cutShort;
		if (!extensions(line.slice(digits.length))) return cutShort;
		at = end + 2;
		const size = Number.parseInt(digits, 16);
		if (size === 0) {
			const length = endOfTrailers(text, at);
			return length === undefined ? cutShort : { body, isComplete: true, length };
		}
		body += text.slice(at, at + size);
		at += size;
		if (text.slice(at, at + 2) !== '\r\n') return { ...cutShort, body };
		at += 2;
	}
}

/** RFC 9112 section 7.1.1, one extension after the other. */
function areExtensions(text: string): boolean {
	let rest = text;
	const next = (pattern: RegExp): boolean => {
		const match = pattern.exec(rest);
		if (match !== null) rest = rest.slice(match[0].length);
		return match !== null;
	};
	while (rest !== '') {
		if (!next(/^[\t ]*;[\t ]*[!#$%&'*+\-.^_`|~0-9A-Za-z]+/)) return false;
		if (!next(/^[\t ]*=[\t ]*/)) continue;
		if (next(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+/)) continue;
		if (!next(/^"/)) return false;
		while (next(/^\\[\t\x20-\x7e\x80-\xff]/) || next(/^[\t\x20-\x7e\x80-\xff](?<!["\\])/));
		if (!next(/^"/)) return false;
	}
	return true;
}

function endOfTrailers(text: string, at: number): number | undefined {
	if (text.startsWith('\r\n', at)) return at + 2;
	const end = text.indexOf('\r\n\r\n', at);
	if (end === -1 || end - at > 65_536) return undefined;
	const trailers = readFields(text.slice(at, end).split('\r\n'));
	if (trailers === undefined) return undefined;
	const framing = [...valuesOf(trailers, 'content-length'), ...valuesOf(trailers, 'transfer-encoding')];
	return framing.length > 0 ? undefined : end + 4;
}
