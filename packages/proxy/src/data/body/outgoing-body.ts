import { UNDECLARED } from '../../gates/body-limit.ts';
import { chunkedLines } from '../http1/last-chunk.ts';
import type { OutgoingBody } from '../upstream/contract.ts';

/** A request without a body. POST, PUT and PATCH declare that, since servers expect a body (RFC 9110 section 8.6). */
export function noBody(method: string): OutgoingBody {
	return method === 'POST' || method === 'PUT' || method === 'PATCH' ? EMPTY_BODY : NO_BODY;
}

export function lengthLine(bytes: number): string {
	return `content-length: ${bytes}\r\n`;
}

/** A body whose length only its end tells. @param announced names of trailers that may follow, with commas between. */
export function chunkedBody(announced: string): OutgoingBody {
	return announced === '' ? CHUNKED : { ...CHUNKED, framing: chunkedLines(announced) };
}

export const NO_PIECES: readonly Buffer[] = [];
const NO_BODY: OutgoingBody = { length: 0, framing: '', pieces: NO_PIECES, complete: true };
const EMPTY_BODY: OutgoingBody = { length: 0, framing: lengthLine(0), pieces: NO_PIECES, complete: true };
const CHUNKED: OutgoingBody = { length: UNDECLARED, framing: chunkedLines(''), pieces: NO_PIECES, complete: false };
