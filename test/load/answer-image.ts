/** A response as the bytes that a good upstream sends, so that a bad upstream can stop at any of them. */
import type { HeaderList } from '../fixtures/http1-message.ts';
import type { Random } from './random.ts';

/** How the end of a response's body is framed: `content-length`, the last chunk, or the end of the connection. */
export type Framing = 'length' | 'chunked' | 'close';

export const FRAMINGS: readonly Framing[] = ['length', 'chunked', 'close'];

interface AnswerParts {
	readonly status: number;
	readonly headers: HeaderList;
	/** `undefined`: the response has no body by rule (HEAD, 204, 304). */
	readonly body: Buffer | undefined;
	readonly framing: Framing;
	/** Lines after the last chunk, each with its CRLF. */
	readonly trailers?: string;
}

export interface AnswerImage {
	readonly bytes: Buffer;
	/** Offset at which the head ends and the body begins. */
	readonly headEnd: number;
}

/** @param random chooses the chunk sizes. */
export function answerImage(
	{ status, headers, body, framing, trailers = '' }: AnswerParts,
	random: Random,
): AnswerImage {
	const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
	const own = body === undefined ? '' : framingLine(framing, body.length);
	const head = Buffer.from(`HTTP/1.1 ${status} Scripted\r\n${lines}${own}\r\n`, 'latin1');
	const rest =
		body === undefined
			? []
			: framing === 'chunked'
				? [...chunks(body, random), Buffer.from(`0\r\n${trailers}\r\n`)]
				: [body];
	return { bytes: Buffer.concat([head, ...rest]), headEnd: head.length };
}

export function framingLine(framing: Framing, length: number): string {
	if (framing === 'length') return `content-length: ${length}\r\n`;
	return framing === 'chunked' ? 'transfer-encoding: chunked\r\n' : 'connection: close\r\n';
}

export function chunk(bytes: Buffer): Buffer {
	return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
}

function* chunks(body: Buffer, random: Random): Generator<Buffer> {
	for (let at = 0; at < body.length; ) {
		const end = random.chance(0.3) ? body.length : Math.min(body.length, at + random.between(1, body.length));
		yield chunk(body.subarray(at, end));
		at = end;
	}
}
