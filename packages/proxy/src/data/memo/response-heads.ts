import type { FieldLine } from '../upstream/head-lines.ts';
import type { ResponseHead } from '../upstream/response-head.ts';

/** A parsed head and its bytes. */
type KnownHead = ResponseHead & { readonly bytes: Buffer };

/**
 * The last response head of an upstream, and its lines. Upstreams repeat both: equal bytes are not parsed again. The memo holds
 * only the meaning of bytes.
 */
export class ResponseHeads {
	/** By position in the head. */
	readonly lines: FieldLine[] = [];
	#last: KnownHead | undefined;

	find(chunk: Buffer, at: number): KnownHead | undefined {
		const last = this.#last;
		if (last === undefined || isAt(chunk, at, last)) return last;
		// Two different heads in a row: from now on the comparison would cost more than it saves.
		this.#last = undefined;
		return undefined;
	}

	/** @param bytes the whole head; copied. */
	remember(head: ResponseHead, bytes: Buffer): void {
		this.#last = { ...head, fields: head.fields.asRepeated(), bytes: Buffer.from(bytes) };
	}
}

function isAt(chunk: Buffer, at: number, { bytes }: KnownHead): boolean {
	const end = at + bytes.length;
	return end <= chunk.length && bytes.compare(chunk, at, end) === 0;
}
