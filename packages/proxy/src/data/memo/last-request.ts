import type { TableEntry } from '../../http2/hpack-table.ts';

/**
 * The last request of an HTTP/2 connection, if it was well-formed. Many requests differ from the one before only in their path:
 * then the facts of the other fields are the same.
 */
export class LastRequest<Facts> {
	facts: Facts | undefined = undefined;
	#fields: readonly KnownField[] = NO_FIELDS;
	#endStream = false;

	/** @param facts `undefined`: the request was malformed. @param endStream its block ended the stream. */
	remember(facts: Facts | undefined, fields: readonly KnownField[], endStream: boolean): void {
		this.facts = facts;
		this.#fields = facts === undefined ? NO_FIELDS : fields;
		this.#endStream = endStream;
	}

	/** @returns the path, if no other field differs from the last request; otherwise `undefined`. */
	onlyPathOf(fields: readonly KnownField[], endStream: boolean): string | undefined {
		const last = this.#fields;
		if (fields.length !== last.length || endStream !== this.#endStream) return undefined;
		let path: string | undefined;
		for (let i = 0; i < last.length; i++) {
			const field = fields[i]!;
			const before = last[i]!;
			if (before.name === ':path') {
				// The asterisk is valid only with some methods.
				if (field.kind !== before.kind || (field.value === '*' && before.value !== '*')) return undefined;
				path = field.value;
			} else if (field !== before && !isEqual(field, before)) {
				return undefined;
			}
		}
		return path;
	}
}

/** Two fields with long values are not compared: if they are equal, the `LiteralPool` usually returns one object for both. */
function isEqual(one: KnownField, other: KnownField): boolean {
	return one.value.length < MAX_COMPARED && one.value === other.value && one.name === other.name;
}

const MAX_COMPARED = 128;

/** A field with a malformed value has another kind than one with a valid value. */
interface KnownField extends TableEntry {
	readonly kind: number;
}

const NO_FIELDS: readonly KnownField[] = [];
