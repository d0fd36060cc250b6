import { isLowerCaseToken, isToken } from '@mtls-edge-proxy/gate/gates/grammar.ts';
import { isGrpc } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import { HEADERS_TOO_LARGE, Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { parseContentLength, UNDECLARED } from '../../gates/body-limit.ts';
import { type Identifiers, requestField } from '../../gates/field-kinds.ts';
import { isAuthority, type RequestHead } from '../../gates/headers.ts';
import { type HeadField, isPadded, readHttp2Fields } from '../../gates/http2-head.ts';
import type { Trailers } from '../../gates/trailers.ts';
import { type FieldReading, type HeaderBlock, HpackDecoder } from '../../http2/hpack-decoder.ts';
import { STATIC_TABLE } from '../../http2/hpack-table.ts';
import { SENSITIVE } from '../../http2/sensitive-names.ts';
import { LastRequest } from '../memo/last-request.ts';
import { LiteralPool } from '../memo/literal-pool.ts';

/**
 * Malformed requests (RFC 9113 sections 8.1.1 to 8.3.1): their stream is reset, and no field is dropped or
 * repaired. The gates judge well-formed requests themselves (`readHttp2Fields`).
 */

/** A field, with the facts computed when it was first seen. Its connection's tables hold it. */
export class RequestField implements HeadField {
	readonly name: string;
	readonly value: string;
	readonly kind: number;
	readonly #meaning: FieldName;
	#line: string | undefined = undefined;

	/**
	 * @param named a field of the same name, whose meaning is known.
	 * @param isText the value is known to have no control characters but tabs.
	 */
	constructor(name: string, value: string, named?: RequestField, isText = false) {
		this.name = name;
		this.value = value;
		this.#meaning = named === undefined ? new FieldName(name) : named.#meaning;
		this.kind = this.#meaning.kindWith(value, isText);
	}

	meaning(apart: Identifiers): number {
		return this.#meaning.meaning(apart);
	}

	get line(): string {
		this.#line ??= `${this.#meaning.opening}${this.value}\r\n`;
		return this.#line;
	}
}

/** The meaning of a name, shared by all fields that refer to it: nearly all fields of a connection. */
class FieldName {
	readonly #name: string;
	/** The beginning of a line. */
	readonly opening: string;
	/** The kind, as far as the name shows it. */
	readonly #kind: number;
	/** Set for control data. */
	readonly #isValid: ((value: string) => boolean) | undefined;
	#apart: Identifiers | undefined = undefined;
	#meaning = 0;

	constructor(name: string) {
		this.#name = name;
		this.opening = `${name}: `;
		this.#kind = kindOf(name);
		this.#isValid = Object.hasOwn(CONTROL_DATA, name) ? CONTROL_DATA[name]![1] : undefined;
	}

	kindWith(value: string, isText: boolean): number {
		const kind = this.#kind;
		switch (kind) {
			case PLAIN:
			case HOST:
				return isText || !NOT_IN_VALUE.test(value) ? kind : MALFORMED;
			case TE:
				return value.toLowerCase() === 'trailers' ? PLAIN : MALFORMED;
			case CONTENT_LENGTH:
				return parseContentLength(value) === undefined ? MALFORMED : kind;
			case MALFORMED:
				return kind;
			default:
				return this.#isValid!(value) ? kind : MALFORMED;
		}
	}

	meaning(apart: Identifiers): number {
		if (apart !== this.#apart) {
			this.#apart = apart;
			this.#meaning = requestField(this.#name, apart).kind;
		}
		return this.#meaning;
	}
}

/** The facts of a header block that opens a stream. */
export interface RequestFacts {
	readonly head: RequestHead | Rejection;
	/** Its content type is that of gRPC, if a refused head was read that far. */
	readonly isGrpc: boolean;
	/** Empty if the fields that were read have none; so is `path`. */
	readonly method: string;
	readonly path: string;
	/** Bytes of the body by `content-length`, or `UNDECLARED`. */
	readonly declaredLength: number;
}

/** @param maxBytes longest list of names and values. */
export function requestDecoder(maxBytes: number): HpackDecoder<RequestField> {
	return new HpackDecoder<RequestField>({
		make: makeField,
		staticFields: STATIC_FIELDS,
		// The size limits the fields, not their number; each counts 32 bytes (RFC 9113 section 6.5.2).
		maxFields: maxFieldsOf(maxBytes),
		maxBytes,
		literals: LITERALS,
		sensitive: SENSITIVE,
	} satisfies FieldReading<RequestField>);
}

/** Shared by all connections of the thread. */
const LITERALS = new LiteralPool<RequestField>();

/** A block with more fields gets no response. */
export function maxFieldsOf(maxBytes: number): number {
	return Math.ceil(maxBytes / 32) + 8;
}

/** Reads the header blocks of one connection: facts of fields, never a verdict. */
export class RequestFieldsReader {
	readonly #maxBytes: number;
	readonly #apart: Identifiers;
	readonly #extendsConnect: boolean;
	readonly #last = new LastRequest<RequestFacts>();

	/**
	 * @param maxBytes longest list of names and values.
	 * @param apart as for `readHttp2Fields`.
	 * @param extendsConnect whether the extended CONNECT was announced to the client (RFC 8441).
	 */
	constructor(maxBytes: number, apart: Identifiers, extendsConnect = false) {
		this.#maxBytes = maxBytes;
		this.#apart = apart;
		this.#extendsConnect = extendsConnect;
	}

	/**
	 * Reads each block once: the same bytes have the same facts.
	 *
	 * @returns text if the request is malformed: the fault, in words for operators.
	 */
	read(block: HeaderBlock<RequestField>, endStream: boolean): RequestFacts | string {
		const at = endStream ? 1 : 0;
		const known = block.memo[at] as RequestFacts | string | undefined;
		if (known !== undefined) return known;
		const facts = this.#withOtherPath(block, endStream) ?? this.#read(block, endStream);
		block.memo[at] = facts;
		const isUnderstood = block.mayBeKept && typeof facts !== 'string' && !(facts.head instanceof Rejection);
		this.#last.remember(isUnderstood ? facts : undefined, block.fields, endStream);
		return facts;
	}

	#withOtherPath({ fields, bytes }: HeaderBlock<RequestField>, endStream: boolean): RequestFacts | undefined {
		const path = bytes > this.#maxBytes ? undefined : this.#last.onlyPathOf(fields, endStream);
		if (path === undefined) return undefined;
		const { head, isGrpc, method, declaredLength } = this.#last.facts!;
		return { head, isGrpc, method, path, declaredLength };
	}

	#read(block: HeaderBlock<RequestField>, endStream: boolean): RequestFacts | string {
		if (!this.#extendsConnect && block.fields.some(({ kind }) => kind === PROTOCOL)) return UNKNOWN_CONTROL_DATA;
		return readRequest(block, endStream, this.#maxBytes, this.#apart);
	}
}

/** RFC 9113 section 8.1: fields without control data. */
export function areTrailers({ fields }: HeaderBlock<RequestField>): boolean {
	const isField = (kind: number) => kind === PLAIN || kind === HOST || kind === CONTENT_LENGTH;
	return fields.every(({ kind, value }) => isField(kind) && !isPadded(value));
}

export function trailersOf({ fields }: HeaderBlock<RequestField>): Trailers | undefined {
	return fields.length === 0 ? undefined : fields.flatMap(({ name, value }) => [name, value]);
}

function makeField(name: string, value: string, named?: RequestField, isText = false): RequestField {
	return new RequestField(name, value, named, isText);
}

const PLAIN = 0;
const MALFORMED = 1;
const METHOD = 2;
const SCHEME = 3;
const AUTHORITY = 4;
const PATH = 5;
const PROTOCOL = 6;
const HOST = 7;
const CONTENT_LENGTH = 8;
/** Valid only with one value, and then plain. */
const TE = 9;

/** Control data (section 8.3.1) and its valid values. Other names that begin with a colon are malformed. */
const CONTROL_DATA: Readonly<Record<string, readonly [kind: number, isValid: (value: string) => boolean]>> = {
	// RFC 9110 section 9.1.
	':method': [METHOD, isToken],
	// RFC 3986 section 3.1.
	':scheme': [SCHEME, (value) => /^[A-Za-z][A-Za-z0-9+\-.]*$/.test(value)],
	':authority': [AUTHORITY, isAuthority],
	// An origin form, or the asterisk of OPTIONS; `gates/path.ts` checks the rest.
	':path': [PATH, (value) => /^(?:\/[^\x00-\x20\x7f]*|\*)$/.test(value)],
	// RFC 8441 section 4. Unknown if it was not announced to the client.
	':protocol': [PROTOCOL, isToken],
};
/** Section 8.2.2. */
const CONNECTION_SPECIFIC = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade']);
/** Section 8.2.1: a name is a token in lower case. A value has no control character but the tab; that section names only three of them. */
const NOT_IN_VALUE = /[\x00-\x08\x0a-\x1f\x7f]/;

/** The kind of a field with this name and a valid value. */
function kindOf(name: string): number {
	if (name.charCodeAt(0) === COLON) return Object.hasOwn(CONTROL_DATA, name) ? CONTROL_DATA[name]![0] : MALFORMED;
	if (!isLowerCaseToken(name) || CONNECTION_SPECIFIC.has(name)) return MALFORMED;
	if (name === 'te') return TE;
	if (name === 'host') return HOST;
	return name === 'content-length' ? CONTENT_LENGTH : PLAIN;
}

/** The fault of a malformed field. Of the client's bytes, only names that we know are reported. */
function faultOf(name: string): string {
	if (name.charCodeAt(0) === COLON)
		return Object.hasOwn(CONTROL_DATA, name) ? `malformed ${name}` : UNKNOWN_CONTROL_DATA;
	if (!isLowerCaseToken(name)) return 'malformed field name';
	if (CONNECTION_SPECIFIC.has(name)) return `${name} in HTTP/2`;
	return name === 'te' || name === 'content-length' ? `malformed ${name}` : 'control byte in a field value';
}

const COLON = 0x3a;
const UNKNOWN_CONTROL_DATA = 'unknown control data';

/**
 * Entries of the static table that have only a name become fields with an empty value when a block refers to them (RFC 7541 section
 * 6.1).
 */
const STATIC_FIELDS: readonly RequestField[] = STATIC_TABLE.map(([name, value]) => makeField(name, value));

function readRequest(
	block: HeaderBlock<RequestField>,
	endStream: boolean,
	maxBytes: number,
	apart: Identifiers,
): RequestFacts | string {
	const { fields } = block;
	const method = firstOf(fields, METHOD);
	const path = firstOf(fields, PATH);
	if (block.bytes > maxBytes) {
		return { head: HEADERS_TOO_LARGE, isGrpc: saysGrpc(fields), method, path, declaredLength: UNDECLARED };
	}
	const declaredLength = checkFields(fields, endStream);
	if (typeof declaredLength === 'string') return declaredLength;
	const head = readHttp2Fields(fields, endStream, apart);
	return { head, isGrpc: head instanceof Rejection ? saysGrpc(fields) : head.isGrpc, method, path, declaredLength };
}

/** For refused heads, in which nothing else is trusted. */
function saysGrpc(fields: readonly RequestField[]): boolean {
	const [type, ...others] = fields.filter(({ name }) => name === 'content-type');
	return type !== undefined && others.length === 0 && isGrpc(type.value);
}

function firstOf(fields: readonly RequestField[], kind: number): string {
	for (const field of fields) if (field.kind === kind) return field.value;
	return '';
}

/** @returns the declared length, or the request's fault. */
function checkFields(fields: readonly RequestField[], endStream: boolean): number | string {
	/** A bit for each kind seen so far. */
	let seen = 0;
	let declaredLength = UNDECLARED;
	let method = '';
	let path = '';
	for (const { name, kind, value } of fields) {
		if (kind === PLAIN) {
			seen |= 1 << PLAIN;
			continue;
		}
		// The others may occur once, and control data only before the fields (section 8.3).
		if (kind === MALFORMED) return faultOf(name);
		if ((seen & (1 << kind)) !== 0) return `${name} twice`;
		if (kind <= PROTOCOL && (seen & FIELDS) !== 0) return 'control data after fields';
		seen |= 1 << kind;
		if (kind === METHOD) method = value;
		else if (kind === PATH) path = value;
		else if (kind === CONTENT_LENGTH) declaredLength = parseContentLength(value)!;
	}
	if ((seen & ((1 << AUTHORITY) | (1 << HOST))) === 0) return 'no host';
	// Section 8.5: CONNECT has a method and an authority, and nothing else; with a protocol it has all of it (RFC 8441 section 4).
	const isExtended = (seen & (1 << PROTOCOL)) !== 0;
	const expected = method === 'CONNECT' && !isExtended ? 1 << METHOD : REQUIRED;
	if ((seen & REQUIRED) !== expected || (isExtended && method !== 'CONNECT'))
		return 'control data missing, or too much of it';
	if (path === '*' && method !== 'OPTIONS') return faultOf(':path');
	// Section 8.1.1: a body of another length than declared.
	if (endStream && declaredLength > 0) return 'content-length without a body';
	return declaredLength;
}

const REQUIRED = (1 << METHOD) | (1 << SCHEME) | (1 << PATH);
const FIELDS = (1 << PLAIN) | (1 << HOST) | (1 << CONTENT_LENGTH);
