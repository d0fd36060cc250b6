import type { FieldLine } from '../upstream/head-lines.ts';
import type { ResponseHead } from '../upstream/response-head.ts';

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
