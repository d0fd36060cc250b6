import type { Field, ResponseCase } from './responses.ts';

/** Content of a complete response. */
export interface CompleteResponse {
	readonly status: number;
	/** As in the head, values without surrounding blanks. */
	readonly fields: readonly Field[];
	/** Latin1. */
	readonly body: string;
	/** Bytes up to the end of the response, interim responses included. */
	readonly length: number;
	/** As sent, values without surrounding blanks. */
	readonly trailers: readonly Field[];
	/** Another response may follow on the connection. */
	readonly keepAlive: boolean;
}

/**
 * Parses what arrived by RFC 9112 and the stricter rules of docs/reference/protocol-strictness.md, on the whole text, for clarity only: the
 * reference for the parser, which sees the same text in pieces.
 *
 * @returns `undefined` for anything that is not a complete response, too short or wrong.
 */
export function readWholeResponse({ method, closes, text }: ResponseCase): CompleteResponse | undefined {
	let at = 0;
	for (let interims = 0; interims <= 32; interims++) {
		const end = text.indexOf('\r\n\r\n', at);
		if (end === -1 || end - at > 65_536) return undefined;
		const [statusLine = '', ...fieldLines] = text.slice(at, end).split('\r\n');
		const status = /^HTTP\/1\.([01]) ([1-5]\d\d)( [\t\x20-\x7e\x80-\xff]*)?$/.exec(statusLine);
		const fields = readFields(fieldLines);
		if (status === null || fields === undefined || fieldLines.length > 2_048 || status[2] === '101') return undefined;
		at = end + 4;
		if (status[2]!.startsWith('1')) {
			// A response that promises another one cannot end the connection.
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

export function inLowerCase(fields: readonly Field[]): Field[] {
	return fields.map(([name, value]) => [name.toLowerCase(), value]);
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
	const trailers: Field[] = [];
	if (bodiless) return { body: '', length: at, trailers, keepAlive };
	if (codings.length === 1) {
		const { isComplete, ...read } = readChunks(text, at);
		return isComplete ? { ...read, keepAlive } : undefined;
	}
	if (lengths.length === 1) {
		const length = at + Number(lengths[0]);
		return length > text.length ? undefined : { body: text.slice(at, length), length, trailers, keepAlive };
	}
	return closes ? { body: text.slice(at), length: text.length, trailers, keepAlive: false } : undefined;
}

interface ReadChunks {
	/** As far as received. */
	readonly body: string;
	readonly isComplete: boolean;
	/** Where it ends. */
	readonly length: number;
	readonly trailers: readonly Field[];
}

/** RFC 9112 section 7.1. */
export function readChunks(text: string, start: number): ReadChunks {
	let body = '';
	let excess = 0;
	for (let at = start; ; ) {
		const cutShort = { body, isComplete: false, length: at, trailers: [] };
		const end = text.indexOf('\r\n', at);
		const line = text.slice(at, end);
		const digits = /^[0-9A-Fa-f]{1,13}(?![0-9A-Fa-f])/.exec(line)?.[0];
		if (end === -1 || digits === undefined) return cutShort;
		const extensions = line.slice(digits.length);
		excess += extensions.length;
		if (extensions.length > 1024 || excess > 16_384 || !areExtensions(extensions)) return cutShort;
		at = end + 2;
		const size = Number.parseInt(digits, 16);
		if (size === 0) {
			const rest = readTrailers(text, at);
			return rest === undefined ? cutShort : { body, isComplete: true, ...rest };
		}
		body += text.slice(at, at + size);
		excess -= size;
		at += size;
		if (text.slice(at, at + 2) !== '\r\n') return { ...cutShort, body };
		at += 2;
	}
}

/** RFC 9112 section 7.1.1 without blanks, which some parsers take for the end of the line. */
function areExtensions(text: string): boolean {
	const token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
	const quoted = '"(?:[^\\x00-\\x08\\x0a-\\x1f\\x7f"\\\\]|\\\\[\\t\\x20-\\x7e\\x80-\\xff])*"';
	return new RegExp(`^(?:;${token}(?:=(?:${token}|${quoted}))?)*$`).test(text);
}

function readTrailers(text: string, at: number): Pick<ReadChunks, 'length' | 'trailers'> | undefined {
	if (text.startsWith('\r\n', at)) return { length: at + 2, trailers: [] };
	const end = text.indexOf('\r\n\r\n', at);
	const length = end + 4;
	if (end === -1 || length - at > 65_536) return undefined;
	const trailers = readFields(text.slice(at, end).split('\r\n'));
	if (trailers === undefined) return undefined;
	const framing = [...valuesOf(trailers, 'content-length'), ...valuesOf(trailers, 'transfer-encoding')];
	return framing.length > 0 ? undefined : { length, trailers };
}
