import { isMethodByte } from '../gates/method.ts';
import { BAD_REQUEST, HEADERS_TOO_LARGE, METHOD_NOT_IMPLEMENTED, type Rejection } from '../gates/rejection.ts';

/** Why Node's parser (llhttp) has given up, as `clientError` tells it. */
export interface ParseError extends Error {
	/** `HPE_…`, or that of a failed connection. */
	readonly code?: string;
	/** In words of llhttp. */
	readonly reason?: string;
	/** What has been read last. */
	readonly rawPacket?: Buffer;
	/** Where in `rawPacket` llhttp has stopped. */
	readonly bytesParsed?: number;
}

/** The answer to bytes that llhttp refuses. It has stopped for good, so the connection ends behind any of them. */
export function refusalOf(error: ParseError): Rejection {
	if (error.code === 'HPE_HEADER_OVERFLOW') return HEADERS_TOO_LARGE;
	return refusesMethod(error) ? METHOD_NOT_IMPLEMENTED : BAD_REQUEST;
}

function refusesMethod({ code, reason, rawPacket, bytesParsed }: ParseError): boolean {
	if (OTHER_PROTOCOLS.has(reason)) return true;
	return code === 'HPE_INVALID_METHOD' && isInToken(rawPacket!, bytesParsed!);
}

/** llhttp reads the methods of RTSP and the preface of HTTP/2 as well, and refuses them only behind the method. */
const OTHER_PROTOCOLS: ReadonlySet<string | undefined> = new Set([
	'Invalid method for HTTP/x.x request',
	'Expected HTTP/2 Connection Preface',
	'Pause on PRI/Upgrade',
]);

/**
 * Whether a method could stand where llhttp has stopped, which is where the bytes differ from every method that it knows:
 * as far as the read goes, only bytes of a token up to a space. What stood before the place was like a known method.
 */
function isInToken(bytes: Buffer, at: number): boolean {
	if (!isMethodByte(bytes[at]) && !isMethodByte(bytes[at - 1])) return false;
	let end = at;
	while (isMethodByte(bytes[end])) end++;
	return end === bytes.length || bytes[end] === SPACE;
}

const SPACE = 0x20;
