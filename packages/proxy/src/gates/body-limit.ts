import { PAYLOAD_TOO_LARGE, type Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';

/** Length of a body that only ends with its framing (chunked, or HTTP/2 without `content-length`). */
export const UNDECLARED = -1;

/**
 * Refuses a body by its declared length, before any byte is read.
 *
 * @param declared bytes, or `UNDECLARED`.
 * @param limit bytes.
 */
export function admitLength(declared: number, limit: number): Rejection | undefined {
	return declared > limit ? PAYLOAD_TOO_LARGE : undefined;
}

/**
 * Reads a `Content-Length` value (RFC 9110 section 8.6): digits only. The RFC permits a list of equal values. We refuse it, since
 * the upstream may read it differently.
 *
 * @returns bytes, or `undefined` when the value is malformed or too large to count exactly.
 */
export function parseContentLength(value: string): number | undefined {
	if (value.length === 0 || value.length > MAX_DIGITS) return undefined;
	let length = 0;
	for (let i = 0; i < value.length; i++) {
		const digit = value.charCodeAt(i) - 0x30;
		if (digit < 0 || digit > 9) return undefined;
		length = length * 10 + digit;
	}
	return Number.isSafeInteger(length) ? length : undefined;
}

/** More digits are either more than can be counted exactly, or leading zeros. */
const MAX_DIGITS = 16;
