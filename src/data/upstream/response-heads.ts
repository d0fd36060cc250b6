import { UNDECLARED } from '../../gates/body-limit.ts';
import type { ResponseHeadReader } from '../../gates/response-head.ts';
import { announcedNames } from '../../gates/trailers.ts';
import { AnswerFields } from '../client/answer-fields.ts';
import type { FieldLine } from './head-lines.ts';
import { ProtocolError } from './protocol-error.ts';

/** What the head of a final response says. */
export interface ResponseHead {
	readonly status: number;
	readonly fields: AnswerFields;
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
	const answer = new AnswerFields(fields, false, announcedNames(reader.announcedTrailers));
	return { status, fields: answer, length, chunked, keepAlive, keepAliveTimeoutMs, named: reader.named };
}

/** A head that has been read, and the bytes that it has been read from. */
type KnownHead = ResponseHead & { readonly bytes: Buffer };

/** The head that was remembered last by any of the addresses of a group. */
export class NewestHead {
	known: KnownHead | undefined;
}

/**
 * The last head of an upstream's responses, and the last lines. Upstreams send the same ones again and again: where bytes are
 * the same, what they say is that of before. Only facts of bytes are remembered.
 */
export class ResponseHeads {
	/** By position in the head. */
	readonly lines: FieldLine[] = [];
	#last: KnownHead | undefined;
	#newest = new NewestHead();

	/** The addresses of a group mostly send the same heads: then they have one in common, and it stays in the processor's caches. */
	shareWith(newest: NewestHead): void {
		this.#newest = newest;
	}

	find(chunk: Buffer, at: number): KnownHead | undefined {
		const last = this.#last;
		if (last !== undefined && isAt(chunk, at, last)) return last;
		// When the date changes, one address of a group has read the new head for all of them.
		const { known } = this.#newest;
		this.#last = known !== undefined && known !== last && isAt(chunk, at, known) ? known : undefined;
		// One head after the other that is not the same: looking costs more than it brings.
		if (this.#last === undefined) this.#newest.known = undefined;
		return this.#last;
	}

	/** @param bytes of the whole head; they are copied. */
	remember(head: ResponseHead, bytes: Buffer): void {
		const newest = this.#newest;
		if (newest.known?.bytes.equals(bytes) !== true) {
			const { list, announcedTrailers } = head.fields;
			const fields = new AnswerFields(list, true, announcedTrailers);
			newest.known = { ...head, fields, bytes: Buffer.from(bytes) };
		}
		this.#last = newest.known;
	}
}

function isAt(chunk: Buffer, at: number, { bytes }: KnownHead): boolean {
	const end = at + bytes.length;
	return end <= chunk.length && bytes.compare(chunk, at, end) === 0;
}
