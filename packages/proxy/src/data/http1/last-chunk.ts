import type { Trailers } from '../../gates/trailers.ts';

/** The end of a chunked body (RFC 9112 section 7.1), as latin1 text. */
export function lastChunk(trailers: Trailers | undefined): string {
	return trailers === undefined ? LAST_CHUNK : `0\r\n${fieldLines(trailers)}\r\n`;
}

const LAST_CHUNK = '0\r\n\r\n';

/** @param fields names and values in turn. */
export function fieldLines(fields: readonly string[]): string {
	let lines = '';
	for (let i = 0; i < fields.length; i += 2) lines += `${fields[i]}: ${fields[i + 1]}\r\n`;
	return lines;
}

/** The framing of a chunked body. @param announced names of trailers (RFC 9110 section 6.6.2), or nothing. */
export function chunkedLines(announced: string): string {
	return announced === '' ? CHUNKED_LINE : `${CHUNKED_LINE}trailer: ${announced}\r\n`;
}

const CHUNKED_LINE = 'transfer-encoding: chunked\r\n';
