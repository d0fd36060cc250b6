import type { TableEntry } from '../../http2/hpack-table.ts';

/**
 * The last request of an HTTP/2 connection that was understood. Many differ from the request before in their paths only: then the facts of
 * the other fields are those of before.
 */
export class LastRequest<Facts> {
	facts: Facts | undefined = undefined;
	#fields: readonly KnownField[] = NO_FIELDS;
	#endStream = false;

	/** @param facts `undefined`: the request was not understood. @param endStream its block ended the stream. */
	remember(facts: Facts | undefined, fields: readonly KnownField[], endStream: boolean): void {
		this.facts = facts;
		this.#fields = facts === undefined ? NO_FIELDS : fields;
		this.#endStream = endStream;
	}

	/** @returns the path; `undefined`: another field differs from the last request's, too, or there is no last request. */
	onlyPathOf(fields: readonly KnownField[], endStream: boolean): string | undefined {
		const last = this.#fields;
		if (fields.length !== last.length || endStream !== this.#endStream) return undefined;
		let path: string | undefined;
		for (let i = 0; i < last.length; i++) {
			const field = fields[i]!;
			const before = last[i]!;
			if (before.name === ':path') {
				// The asterisk is for some methods only.
				if (field.kind !== before.kind || (field.value === '*' && before.value !== '*')) return undefined;
				path = field.value;
			} else if (field !== before && !isEqual(field, before)) {
				return undefined;
			}
		}
		return path;
	}
}

/** Long values that are equal are one field, by the `LiteralPool`: two of them are not compared. */
function isEqual(one: KnownField, other: KnownField): boolean {
	return one.value.length < MAX_COMPARED && one.value === other.value && one.name === other.name;
}

const MAX_COMPARED = 128;

/** A field whose value is malformed is of another kind than one whose value is not. */
interface KnownField extends TableEntry {
	readonly kind: number;
}

const NO_FIELDS: readonly KnownField[] = [];
