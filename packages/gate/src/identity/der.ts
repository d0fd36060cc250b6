/**
 * The part of DER (X.690 section 10) that certificates and revocation lists need. A list may have hundreds of thousands of
 * entries. The usual libraries build a tree of objects, and fail beyond 10,000 nodes; this reader visits every element once, in
 * place.
 */

/** Tags, including class and constructed bit. */
export const TAG = {
	boolean: 0x01,
	integer: 0x02,
	bitString: 0x03,
	octetString: 0x04,
	oid: 0x06,
	utcTime: 0x17,
	generalizedTime: 0x18,
	sequence: 0x30,
	set: 0x31,
	/** Context-specific, primitive and constructed, number 0. */
	context: 0x80,
	contextConstructed: 0xa0,
} as const;

/** The bytes are not DER, or have an unexpected structure. */
export class DerError extends Error {
	override readonly name = 'DerError';
}

/** Reads the elements of one constructed element in order. */
export class DerReader {
	readonly #bytes: Buffer;
	readonly #to: number;
	#at: number;

	constructor(bytes: Buffer, from = 0, to: number = bytes.length) {
		this.#bytes = bytes;
		this.#at = from;
		this.#to = to;
	}

	/** Tag of the next element; -1 at the end. */
	get next(): number {
		return this.#at < this.#to ? this.#bytes[this.#at]! : -1;
	}

	/** Content of the next element. @throws DerError unless its tag is `tag`. */
	read(tag: number): Buffer {
		const from = this.#enter(tag);
		return this.#bytes.subarray(from, this.#at);
	}

	/** The next element with its header. @throws DerError unless its tag is `tag`. */
	readWhole(tag: number): Buffer {
		const start = this.#at;
		this.#enter(tag);
		return this.#bytes.subarray(start, this.#at);
	}

	/** A reader of the next element's content. @throws DerError unless its tag is `tag`. */
	open(tag: number): DerReader {
		const from = this.#enter(tag);
		return new DerReader(this.#bytes, from, this.#at);
	}

	/** @throws DerError unless everything has been read. */
	end(): void {
		if (this.#at !== this.#to) throw new DerError('unexpected element');
	}

	/** Skips the next element. @returns where its content begins. */
	#enter(tag: number): number {
		if (this.next !== tag) throw new DerError('unexpected element');
		const bytes = this.#bytes;
		let at = this.#at + 1;
		let length = at < this.#to ? bytes[at++]! : -1;
		// The indefinite form is not DER, and none of our files reaches 4 GiB.
		if (length === 0x80 || length > 0x84) throw new DerError('bad length');
		if (length > 0x80) {
			const octets = length & 0x7f;
			if (at + octets > this.#to) throw new DerError('bad length');
			length = bytes.readUIntBE(at, octets);
			at += octets;
			// DER requires the shortest form.
			if (length < 0x80 || (octets > 1 && length < 2 ** (8 * (octets - 1)))) throw new DerError('bad length');
		}
		if (length < 0 || at + length > this.#to) throw new DerError('cut off');
		this.#at = at + length;
		return at;
	}
}

/** Dotted form of an object identifier's content. */
export function oidText(content: Buffer): string {
	const arcs: number[] = [];
	let arc = 0;
	for (const byte of content) {
		arc = arc * 128 + (byte & 0x7f);
		if ((byte & 0x80) !== 0) continue;
		if (arcs.length === 0) {
			const first = Math.min(2, Math.floor(arc / 40));
			arcs.push(first, arc - 40 * first);
		} else arcs.push(arc);
		arc = 0;
	}
	return arcs.join('.');
}
