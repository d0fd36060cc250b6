import { DerReader, oidText, TAG } from './der.ts';

export interface Attribute {
	/** Dotted identifier. */
	readonly type: string;
	/** The text after `folded`; for a value that is not text, `#` and its DER in hexadecimal. */
	readonly value: string;
}

/** Usually one attribute. */
export type RelativeName = readonly Attribute[];

/**
 * One key for all encodings of a name that RFC 5280 section 7.1 treats as equal: letter case, white space and the string type do
 * not matter.
 *
 * @param der the encoded name. @throws DerError
 */
export function nameKey(der: Buffer): string {
	return keyOf(readName(der));
}

/**
 * The same for a name that a person has copied. Some tools print names in reverse, so both orders give the same key.
 */
export function eitherWayKey(name: readonly RelativeName[]): string {
	return [keyOf(name), keyOf(name.toReversed())].toSorted()[0]!;
}

function keyOf(name: readonly RelativeName[]): string {
	return name
		.map((attributes) =>
			attributes
				.map(({ type, value }) => `${type}=${JSON.stringify(value)}`)
				.toSorted()
				.join('+'),
		)
		.join(',');
}

/** @throws DerError */
export function readName(der: Buffer): RelativeName[] {
	const name: RelativeName[] = [];
	const sequence = new DerReader(der).open(TAG.sequence);
	while (sequence.next !== -1) {
		const set = sequence.open(TAG.set);
		const attributes: Attribute[] = [];
		while (set.next !== -1) {
			const attribute = set.open(TAG.sequence);
			const type = oidText(attribute.read(TAG.oid));
			attributes.push({ type, value: readValue(attribute) });
		}
		name.push(attributes);
	}
	return name;
}

/** Reads one attribute's value. @throws DerError */
export function readValue(attribute: DerReader): string {
	const text = TEXT_OF.get(attribute.next);
	if (text === undefined) return `#${attribute.readWhole(attribute.next).toString('hex')}`;
	return folded(text(attribute.read(attribute.next)));
}

const latin1 = (bytes: Buffer) => bytes.toString('latin1');

/** Decoders by tag. T61 is read as Latin-1, as all software does. */
const TEXT_OF = new Map<number, (bytes: Buffer) => string>([
	[0x0c, (bytes) => bytes.toString('utf8')],
	[0x12, latin1],
	[0x13, latin1],
	[0x14, latin1],
	[0x16, latin1],
	[0x1a, latin1],
	[0x1c, (bytes) => codePoints(bytes, 4)],
	[0x1e, (bytes) => codePoints(bytes, 2)],
]);

function codePoints(bytes: Buffer, width: 2 | 4): string {
	let text = '';
	for (let at = 0; at + width <= bytes.length; at += width) {
		const point = bytes.readUIntBE(at, width);
		text += point > 0x10ffff ? '\ufffd' : width === 2 ? String.fromCharCode(point) : String.fromCodePoint(point);
	}
	return text;
}

/** The form that RFC 5280 section 7.1 compares. */
export function folded(text: string): string {
	return text.normalize('NFKC').toLowerCase().trim().replace(/\s+/g, ' ');
}

/** Joins Node's form of a name, which has one relative name per line: for people, and for the list of revoked serials. */
export function inOneLine(name: string): string {
	return name.replaceAll('\n', ', ');
}
