import { UNDECLARED } from '../../gates/body-limit.ts';
import type { ResponseHeadReader } from '../../gates/response-head.ts';
import { announcedNames } from '../../gates/trailers.ts';
import { ResponseFields } from '../client/response-fields.ts';
import type { FieldLine } from './head-lines.ts';
import { ProtocolError } from './protocol-error.ts';

/** What the head of a final response says. */
export interface ResponseHead {
	readonly status: number;
	readonly fields: ResponseFields;
	/** Bytes of the body, or what is to be announced where there is none by rule; `UNDECLARED`: it does not say. */
	readonly length: number;
	readonly chunked: boolean;
	readonly keepAlive: boolean;
	readonly keepAliveTimeoutMs: number | undefined;
	/** Names that its `Connection` declares hop-by-hop; `undefined`: none. */
	readonly named: ReadonlySet<string> | undefined;
}

/** @throws ProtocolError where the framing can be understood in two ways. */
export function responseHead(status: number, isHttp11: boolean, reader: ResponseHeadReader): ResponseHead {
	const { fields, chunked, malformed, keepAliveTimeoutMs } = reader;
	if (malformed !== undefined) throw new ProtocolError('ambiguous framing', { cause: malformed });
	if (chunked && !isHttp11) throw new ProtocolError('ambiguous framing', { cause: 'chunked body in HTTP/1.0' });
	// RFC 9110 section 15.3.6: 205 has no content, and says so by a length of 0. What follows it all the same is a byte too
	// many, even an empty chunked body.
	const length = status === 204 ? UNDECLARED : status === 205 ? 0 : reader.length;
	if (length !== UNDECLARED) fields.push('content-length', String(length));
	const keepAlive = isHttp11 && !reader.close;
	const answer = new ResponseFields(fields, false, announcedNames(reader.announcedTrailers));
	return { status, fields: answer, length, chunked, keepAlive, keepAliveTimeoutMs, named: reader.named };
}

/** A head that has been read, and the bytes that it has been read from. */
type KnownHead = ResponseHead & { readonly bytes: Buffer };

/**
 * The last head of an upstream's responses, and the last lines. Upstreams send the same ones again and again: where bytes are
 * the same, what they say is that of before. Only facts of bytes are remembered.
 */
export class ResponseHeads {
	/** By position in the head. */
	readonly lines: FieldLine[] = [];
	#last: KnownHead | undefined;

	find(chunk: Buffer, at: number): KnownHead | undefined {
		const last = this.#last;
		if (last === undefined || isAt(chunk, at, last)) return last;
		// One head after the other that is not the same: looking costs more than it brings.
		this.#last = undefined;
		return undefined;
	}

	/** @param bytes of the whole head; they are copied. */
	remember(head: ResponseHead, bytes: Buffer): void {
		this.#last = { ...head, fields: head.fields.asRepeated(), bytes: Buffer.from(bytes) };
	}
}

function isAt(chunk: Buffer, at: number, { bytes }: KnownHead): boolean {
	const end = at + bytes.length;
	return end <= chunk.length && bytes.compare(chunk, at, end) === 0;
}
