import { isLowerCaseToken } from '@mtls-edge-proxy/gate/gates/grammar.ts';
import { parseContentLength, UNDECLARED } from '../../gates/body-limit.ts';
import { type HeaderBlock, HpackDecoder } from '../hpack-decoder.ts';
import { STATIC_TABLE, type TableEntry } from '../hpack-table.ts';
import { SENSITIVE } from '../sensitive-names.ts';

/**
 * Checks whether a response is malformed (RFC 9113 sections 8.1.1 to 8.3.2). Nothing is dropped or repaired: the next reader could
 * do that differently.
 */

/** A field with facts that are computed once. The tables of the connection keep it. */
export class ReceivedField implements TableEntry {
	readonly name: string;
	readonly value: string;
	readonly kind: number;
	/** For the code that forwards fields: its own facts about the field. */
	memo: unknown = undefined;

	constructor(name: string, value: string) {
		this.name = name;
		this.value = value;
		this.kind = kindOf(name, value);
	}
}

/** The content of a response head. */
export class ResponseFacts {
	readonly status: number;
	/** `content-length`, bytes, or `UNDECLARED`. */
	readonly length: number;
	/** `:status` first. */
	readonly fields: readonly ReceivedField[];
	/** How often the same bytes have come again. */
	repeated = 0;
	/** For the reader of the response: what it has made of the fields. */
	memo: unknown = undefined;

	constructor(status: number, length: number, fields: readonly ReceivedField[]) {
		this.status = status;
		this.length = length;
		this.fields = fields;
	}
}

/** @param maxBytes limit of all names and values together. */
export function responseDecoder(maxBytes: number): HpackDecoder<ReceivedField> {
	return new HpackDecoder<ReceivedField>({
		make: makeField,
		staticFields: STATIC_FIELDS,
		// Each field counts 32 bytes (RFC 9113 section 6.5.2).
		maxFields: Math.ceil(maxBytes / 32),
		maxBytes,
		// Responses repeat long values less often than requests repeat tokens.
		literals: undefined,
		sensitive: SENSITIVE,
	});
}

/**
 * Reads a response head, once for each decoded block: repeated bytes give the same object.
 *
 * @returns for a malformed head the fault, in words for operators.
 */
export function readResponse(block: HeaderBlock<ReceivedField>): ResponseFacts | string {
	const known = block.memo[0] as ResponseFacts | string | undefined;
	if (known !== undefined) {
		if (typeof known !== 'string') known.repeated++;
		return known;
	}
	const facts = read(block);
	block.memo[0] = facts;
	return facts;
}

function read({ fields, count }: HeaderBlock<ReceivedField>): ResponseFacts | string {
	if (fields.length !== count) return 'head too long';
	let status = 0;
	let length = UNDECLARED;
	let hasLength = false;
	for (const [i, { name, value, kind }] of fields.entries()) {
		if (kind === PLAIN) continue;
		if (kind === MALFORMED) return faultOf(name);
		if (kind === STATUS) {
			if (status !== 0) return 'two :status';
			// Section 8.3: control data before the fields.
			if (i !== 0) return ':status after fields';
			status = Number(value);
		} else {
			if (hasLength) return 'two content-lengths';
			hasLength = true;
			length = parseContentLength(value)!;
		}
	}
	return status === 0 ? 'no :status' : new ResponseFacts(status, length, fields);
}

/**
 * Reads trailers, once for each decoded block.
 *
 * @returns alternating names and values; `undefined`: malformed (section 8.1: no control data).
 */
export function readTrailers(block: HeaderBlock<ReceivedField>): readonly string[] | undefined {
	block.memo[1] ??= listOf(block);
	return block.memo[1] as readonly string[] | undefined;
}

function listOf({ fields, count }: HeaderBlock<ReceivedField>): readonly string[] | undefined {
	if (fields.length !== count) return undefined;
	const list: string[] = [];
	for (const { name, value, kind } of fields) {
		if (kind !== PLAIN) return undefined;
		list.push(name, value);
	}
	return list;
}

function makeField(name: string, value: string): ReceivedField {
	return new ReceivedField(name, value);
}

const PLAIN = 0;
const MALFORMED = 1;
const STATUS = 2;
const CONTENT_LENGTH = 3;

/** RFC 9113 section 8.2.2. */
const CONNECTION_SPECIFIC = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade']);
/** RFC 9110 section 15: three digits, five classes. RFC 9113 section 8.6: no 101. */
const VALID_STATUS = /^(?!101)[1-5][0-9]{2}$/;
/** Section 8.2.1: no control character but the tab, and no space or tab at either end. */
const NOT_IN_VALUE = /[\x00-\x08\x0a-\x1f\x7f]|^[ \t]|[ \t]$/;

function kindOf(name: string, value: string): number {
	if (name.charCodeAt(0) === COLON) return name === ':status' && VALID_STATUS.test(value) ? STATUS : MALFORMED;
	if (!isLowerCaseToken(name)) return MALFORMED;
	if (NOT_IN_VALUE.test(value) || CONNECTION_SPECIFIC.has(name)) return MALFORMED;
	// Some servers echo fields of the request, and the proxy sends this one.
	if (name === 'te' && value !== 'trailers') return MALFORMED;
	if (name !== 'content-length') return PLAIN;
	return parseContentLength(value) === undefined ? MALFORMED : CONTENT_LENGTH;
}

/** The message contains only well-known names, nothing else that the upstream has sent. */
function faultOf(name: string): string {
	if (name === ':status') return 'malformed :status';
	if (name.charCodeAt(0) === COLON) return 'unknown control data';
	if (CONNECTION_SPECIFIC.has(name)) return `${name} in HTTP/2`;
	if (name === 'content-length') return 'malformed content-length';
	return isLowerCaseToken(name) ? 'malformed field value' : 'malformed field name';
}

const COLON = 0x3a;
const STATIC_FIELDS: readonly ReceivedField[] = STATIC_TABLE.map(([name, value]) => makeField(name, value));
