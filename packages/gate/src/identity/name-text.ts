import { DerError, DerReader } from './der.ts';
import { type Attribute, folded, type RelativeName, readValue } from './distinguished-name.ts';

/**
 * Reads a distinguished name as people copy it: from `openssl x509 -issuer` (the default, and with `-nameopt` oneline, RFC2253, compat,
 * multiline, utf8 with one of these, lname, oid or show_type), or from our log and Node. These forms include RFC 4514.
 *
 * @returns `undefined` for any other text.
 */
export function readNameText(text: string): readonly RelativeName[] | undefined {
	const name = text.replace(/^\s*(?:issuer|subject)\s*=(?!\s*[^\s=,/]*$)/i, '').trim();
	const form = text.trimEnd().includes('\n') ? LINES : name.startsWith('/') ? COMPAT : ESCAPED;
	const relative = form.parts(name).map((part) => form.attributes(part).map((one) => readAttribute(one, form.value)));
	if (relative.some((attributes) => attributes.includes(undefined))) return undefined;
	return relative as RelativeName[];
}

interface Form {
	readonly parts: (name: string) => string[];
	readonly attributes: (part: string) => string[];
	/** @returns `undefined` if the text is not a value. */
	readonly value: (text: string) => string | undefined;
}

/** `C=DE, O="Foo, Inc."`, `CN=x,O=Foo\, Inc.`: separators within values are escaped or quoted. */
const ESCAPED: Form = {
	parts: (name) => split(name, ',;'),
	attributes: (part) => split(part, '+'),
	value: quotedValue,
};

/** One relative name per line, as `multiline` of openssl and Node print it; `multiline` does not escape plus signs or quotes in values. */
const LINES: Form = {
	parts: (name) => name.split('\n'),
	attributes: (part) => splitAhead(part, ' + '),
	value: unescaped,
};

/** `/C=DE/O=Clients`; old versions do not escape slashes or plus signs in values. */
const COMPAT: Form = {
	parts: (name) => splitAhead(name.slice(1), '/'),
	attributes: (part) => splitAhead(part, '+'),
	value: (text) => text.replace(/((?:\\x[\dA-F]{2})+)|\\([/+])/g, (_, octets, sign) => sign ?? unescaped(octets)),
};

/** Splits at separators that are not escaped and that an attribute type follows. */
function splitAhead(text: string, separator: string): string[] {
	const parts: string[] = [];
	for (const part of text.split(separator)) {
		const last = parts.at(-1);
		const hasType = typeOf(part.slice(0, Math.max(0, part.indexOf('=')))) !== undefined;
		if (last === undefined || (hasType && !last.endsWith('\\'))) parts.push(part);
		else parts[parts.length - 1] = last + separator + part;
	}
	return parts;
}

/** Splits at separators that are neither escaped nor quoted. */
function split(text: string, separators: string): string[] {
	const parts: string[] = [];
	let from = 0;
	let quoted = false;
	for (let i = 0; i < text.length; i++) {
		if (text[i] === '\\') i++;
		else if (text[i] === '"') quoted = !quoted;
		else if (!quoted && separators.includes(text[i]!)) {
			parts.push(text.slice(from, i));
			from = i + 1;
		}
	}
	return [...parts, text.slice(from)];
}

function readAttribute(text: string, valueIn: Form['value']): Attribute | undefined {
	const equals = text.indexOf('=');
	const type = typeOf(text.slice(0, Math.max(0, equals)));
	const value = valueIn(text.slice(equals + 1).trimStart());
	return type === undefined || value === undefined ? undefined : { type, value: folded(value) };
}

function typeOf(text: string): string | undefined {
	const name = text.trim().replace(/^oid\./i, '');
	return /^[012](?:\.\d+)+$/.test(name) ? name : TYPES.get(name.toLowerCase());
}

function quotedValue(text: string): string | undefined {
	const value = text.replace(STRING_TYPE, '');
	if (/^#(?:[\da-f]{2})+\s*$/i.test(value)) return valueOfDer(Buffer.from(value.slice(1), 'hex'));
	const trimmed = value.trimEnd();
	const isQuoted = trimmed.length >= 2 && trimmed.startsWith('"') && trimmed.endsWith('"');
	return unescaped(isQuoted ? trimmed.slice(1, -1) : value);
}

/** The prefix that `-nameopt show_type` adds. */
const STRING_TYPE = /^[A-Z\d]+STRING:/;

/** RFC 4514 section 2.4. */
function valueOfDer(der: Buffer): string | undefined {
	try {
		const reader = new DerReader(der);
		const value = readValue(reader);
		reader.end();
		return value;
	} catch (error) {
		if (error instanceof DerError) return undefined;
		throw error;
	}
}

/** The pairs of RFC 4514 section 3, and openssl's. A trailing space may have been trimmed after its backslash. */
const ESCAPES = /((?:\\x?[\da-fA-F]{2})+)|\\U([\da-fA-F]{4})|\\W([\da-fA-F]{8})|\\([ "#+,;<=>\\]|$)/g;

/**
 * Octets are UTF-8, or Latin-1 if openssl did not convert them; `\U` and `\W` are code points.
 *
 * @returns `undefined` if a backslash begins no escape: the text was printed without escapes.
 */
function unescaped(value: string): string | undefined {
	if (value.replace(ESCAPES, '').includes('\\')) return undefined;
	return value.replace(ESCAPES, (_, octets?: string, short?: string, long?: string, one?: string) => {
		if (octets !== undefined) return textOf(Buffer.from(octets.replace(/\\x?/g, ''), 'hex'));
		const point = short ?? long;
		if (point === undefined) return one ?? '';
		const code = Number.parseInt(point, 16);
		return code > 0x10ffff ? '\ufffd' : String.fromCodePoint(code);
	});
}

function textOf(octets: Buffer): string {
	const text = octets.toString('utf8');
	return text.includes('\ufffd') ? octets.toString('latin1') : text;
}

/** OpenSSL's short and long names, with the dotted identifiers. */
const TYPES = new Map(
	`C countryName 2.5.4.6
	ST stateOrProvinceName S 2.5.4.8
	L localityName 2.5.4.7
	street streetAddress 2.5.4.9
	O organizationName 2.5.4.10
	OU organizationalUnitName 2.5.4.11
	title T 2.5.4.12
	description 2.5.4.13
	businessCategory 2.5.4.15
	postalAddress 2.5.4.16
	postalCode 2.5.4.17
	telephoneNumber 2.5.4.20
	CN commonName 2.5.4.3
	SN surname 2.5.4.4
	serialNumber 2.5.4.5
	name 2.5.4.41
	GN givenName G 2.5.4.42
	initials 2.5.4.43
	generationQualifier 2.5.4.44
	x500UniqueIdentifier 2.5.4.45
	dnQualifier 2.5.4.46
	houseIdentifier 2.5.4.51
	pseudonym 2.5.4.65
	role 2.5.4.72
	organizationIdentifier 2.5.4.97
	emailAddress 1.2.840.113549.1.9.1
	unstructuredName 1.2.840.113549.1.9.2
	unstructuredAddress 1.2.840.113549.1.9.8
	DC domainComponent 0.9.2342.19200300.100.1.25
	UID userId 0.9.2342.19200300.100.1.1
	mail rfc822Mailbox 0.9.2342.19200300.100.1.3
	jurisdictionL jurisdictionLocalityName 1.3.6.1.4.1.311.60.2.1.1
	jurisdictionST jurisdictionStateOrProvinceName 1.3.6.1.4.1.311.60.2.1.2
	jurisdictionC jurisdictionCountryName 1.3.6.1.4.1.311.60.2.1.3`
		.split('\n')
		.flatMap((line) => {
			const names = line.trim().split(' ');
			return names.map((name) => [name.toLowerCase(), names.at(-1)!] as const);
		}),
);
