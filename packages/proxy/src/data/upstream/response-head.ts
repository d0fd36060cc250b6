import { UNDECLARED } from '../../gates/body-limit.ts';
import type { ResponseHeadReader } from '../../gates/response-head.ts';
import { announcedNames } from '../../gates/trailers.ts';
import { ResponseFields } from '../client/response-fields.ts';

/**
 * The upstream's response breaks RFC 9112, or our stricter reading of it; `cause` may say more exactly how. Never carries bytes
 * of the response.
 */
export class ProtocolError extends Error {}

/** What the head of a final response says. */
export interface ResponseHead {
	readonly status: number;
	readonly fields: ResponseFields;
	/** Bytes of the body, or the length to announce if there is none by rule; `UNDECLARED`: it does not say. */
	readonly length: number;
	readonly chunked: boolean;
	readonly keepAlive: boolean;
	readonly keepAliveTimeoutMs: number | undefined;
	/** Names that its `Connection` declares hop-by-hop; `undefined`: none. */
	readonly named: ReadonlySet<string> | undefined;
}

/** @throws ProtocolError if the framing is ambiguous. */
export function responseHead(status: number, isHttp11: boolean, reader: ResponseHeadReader): ResponseHead {
	const { fields, chunked, malformed, keepAliveTimeoutMs } = reader;
	if (malformed !== undefined) throw new ProtocolError('ambiguous framing', { cause: malformed });
	if (chunked && !isHttp11) throw new ProtocolError('ambiguous framing', { cause: 'chunked body in HTTP/1.0' });
	// RFC 9110 section 15.3.6: 205 has no content, and says so by a length of 0. Anything that follows is a byte too
	// many, even an empty chunked body.
	const length = status === 204 ? UNDECLARED : status === 205 ? 0 : reader.length;
	if (length !== UNDECLARED) fields.push('content-length', String(length));
	const keepAlive = isHttp11 && !reader.close;
	const response = new ResponseFields(fields, false, announcedNames(reader.announcedTrailers));
	return { status, fields: response, length, chunked, keepAlive, keepAliveTimeoutMs, named: reader.named };
}
