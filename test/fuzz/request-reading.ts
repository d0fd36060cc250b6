import { METHODS } from 'node:http';
import { refusedByTheModel } from '../models/path-gate.ts';
import { readChunks, readFields, valuesOf } from './response-reading.ts';
import type { Field } from './responses.ts';

/** A request that a client sent. */
export interface SentRequest {
	readonly method: string;
	/** Request target in origin form. */
	readonly target: string;
	/** Without pseudo-headers. */
	readonly fields: readonly Field[];
	/** Latin1, as far as received. */
	readonly body: string;
	readonly isComplete: boolean;
	/** Trailers of a chunked body, names as sent. */
	readonly trailers?: readonly Field[];
	/** HTTP/1.x only: minor version, and the target as sent. */
	readonly minor?: number;
	readonly wireTarget?: string;
}

export interface SentRequests {
	readonly requests: readonly SentRequest[];
	/**
	 * The bytes after the last request: nothing; an incomplete request (its head, if complete, is the last of `requests`); not HTTP; or bytes
	 * after the connection's last request.
	 */
	readonly end: 'clean' | 'unfinished' | 'malformed' | 'over';
	/** The bytes after the last request look like a HEAD. */
	readonly endsOnHead: boolean;
}

/**
 * Parses what a client sent over HTTP/1.1, by RFC 9112 and the stricter rules of docs/reference/protocol-strictness.md, on the whole text.
 * What this parser does not find, the upstream must never see.
 */
export function readRequests(text: string): SentRequests {
	const requests: SentRequest[] = [];
	let at = 0;
	const ends = (end: SentRequests['end']): SentRequests => ({
		requests,
		end,
		endsOnHead: text.startsWith('HEAD ', at),
	});
	for (;;) {
		if (at === text.length) return ends('clean');
		const end = text.indexOf('\r\n\r\n', at);
		if (end === -1) return ends('unfinished');
		const head = readRequestHead(text.slice(at, end).split('\r\n'));
		if (head === undefined) return ends('malformed');
		const content = readRequestBody(text, end + 4, head);
		if (content === undefined) return ends('malformed');
		const { method, target, fields, isHttp11, isLast } = head;
		requests.push({
			...content,
			method,
			target: originForm(target),
			fields,
			minor: isHttp11 ? 1 : 0,
			wireTarget: target,
		});
		if (!content.isComplete) return ends(content.isMalformed ? 'malformed' : 'unfinished');
		if (isLast) return ends('over');
		at = content.length;
	}
}

interface ReadHead {
	readonly method: string;
	readonly target: string;
	readonly fields: readonly Field[];
	readonly isHttp11: boolean;
	/** RFC 9112 section 9.3: nothing may follow it. */
	readonly isLast: boolean;
}

function readRequestHead([requestLine = '', ...fieldLines]: readonly string[]): ReadHead | undefined {
	const line = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([\x21-\x7e]+) HTTP\/1\.([01])$/.exec(requestLine);
	const fields = readFields(fieldLines);
	if (line === null || fields === undefined) return undefined;
	// Some parsers do not treat a tab as white space here, and look for the message's end elsewhere.
	if (fieldLines.some((text) => /^(?:content-length|transfer-encoding):(?: *\t|.*\t *$)/i.test(text))) return undefined;
	// RFC 9112 section 3.2: a path, an absolute URI or `*`; only the authority for CONNECT.
	const isForm = /^(?:\/|\*$|[a-z]+:\/\/[\w.~!$&'()*+,;=%:@[\]-]+(?:[/?]|$))/i.test(line[2]!);
	if (!isForm && line[1] !== 'CONNECT') return undefined;
	const hosts = valuesOf(fields, 'host');
	const isHttp11 = line[3] === '1';
	if (hosts.length > 1 || (hosts.length === 0 && isHttp11) || !hosts.every(isAuthority)) return undefined;
	const options = valuesOf(fields, 'connection').flatMap((value) => value.toLowerCase().split(','));
	const has = (wanted: string) => options.some((option) => option.trim() === wanted);
	// After an upgrade request the bytes may be another protocol.
	const upgrades = has('upgrade') && valuesOf(fields, 'upgrade').length > 0;
	const isLast = has('close') || upgrades || line[1] === 'CONNECT' || (!isHttp11 && !has('keep-alive'));
	return { method: line[1]!, target: line[2]!, fields, isHttp11, isLast };
}

interface ReadBody {
	readonly body: string;
	readonly isComplete: boolean;
	readonly isMalformed?: boolean;
	/** Offset of the next request. */
	readonly length: number;
	readonly trailers?: readonly Field[];
}

/** RFC 9112 section 6.3. */
function readRequestBody(text: string, at: number, { fields, isHttp11, method }: ReadHead): ReadBody | undefined {
	const lengths = valuesOf(fields, 'content-length');
	const codings = valuesOf(fields, 'transfer-encoding');
	if (lengths.length + codings.length > 1) return undefined;
	if (lengths.some((length) => !/^\d{1,16}$/.test(length) || Number(length) > Number.MAX_SAFE_INTEGER))
		return undefined;
	if (codings.some((coding) => coding.toLowerCase() !== 'chunked' || !isHttp11)) return undefined;
	// RFC 9110 section 9.3.6: what follows a CONNECT is not HTTP.
	if (method === 'CONNECT') return { body: '', isComplete: true, length: at };
	if (codings.length === 1) {
		const chunks = readChunks(text, at);
		return chunks.isComplete ? chunks : { ...chunks, isMalformed: true };
	}
	const length = Number(lengths[0] ?? 0);
	const body = text.slice(at, at + length);
	return { body, isComplete: body.length === length, length: at + length };
}

/** RFC 9112 section 3.2: path and query of the absolute form. */
function originForm(target: string): string {
	const absolute = /^https?:\/\/[^/?#@\\]+/i.exec(target);
	if (absolute === null) return target;
	const rest = target.slice(absolute[0].length);
	return rest.startsWith('/') ? rest : `/${rest}`;
}

export function isAuthority(value: string): boolean {
	return /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(:\d{0,5})?$/.test(value);
}

/** The request's bearer token, if its form is acceptable. */
export function tokenOf({ fields }: SentRequest): string | undefined {
	const values = valuesOf(fields, 'authorization');
	return values.length === 1 ? /^bearer (.+)$/i.exec(values[0]!)?.[1] : undefined;
}

/** Whether the gates after the token let it pass: path, route, protocol change, declared length. */
export function mayPass(
	{ method, target, fields }: SentRequest,
	prefixes: readonly string[],
	maxBody: number,
): boolean {
	if (refusedByTheModel(target)) return false;
	const path = target.split('?', 1)[0]!;
	if (!prefixes.some((prefix) => path === prefix || path.startsWith(`${prefix}/`))) return false;
	if (!METHODS.includes(method) || method === 'CONNECT' || method === 'TRACE') return false;
	if (valuesOf(fields, 'upgrade').some((value) => value.toLowerCase() !== 'h2c')) return false;
	return !valuesOf(fields, 'content-length').some((length) => Number(length) > maxBody);
}
