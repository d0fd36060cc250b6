import { PAYLOAD_TOO_LARGE, type Rejection } from './rejection.ts';

/** Length of a body whose end the framing tells (chunked, or HTTP/2 without `content-length`). */
export const UNDECLARED = -1;

/**
 * Refuses a body by its declared length, before a byte of it is read (specification 4.1 gate 6).
 *
 * @param declared bytes, or `UNDECLARED`.
 * @param limit bytes.
 */
export function admitLength(declared: number, limit: number): Rejection | undefined {
	return declared > limit ? PAYLOAD_TOO_LARGE : undefined;
}

/**
 * Reads a `Content-Length` value (RFC 9110 section 8.6): digits only. A list of equal values would be allowed to pass;
 * we refuse it, since the next reader may not (decisions "HTTP").
 *
 * @returns bytes, or `undefined` when the value is malformed or too large to count exactly.
 */
export function parseContentLength(value: string): number | undefined {
	if (!/^[0-9]{1,16}$/.test(value)) return undefined;
	const length = Number(value);
	return Number.isSafeInteger(length) ? length : undefined;
}
