import { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { RequestHeadReader } from '../../data/http1/head-reader.ts';
import { RequestField, RequestFieldsReader } from '../../data/http2/request-fields.ts';
import { type FieldFate, fateOf, type Identifiers, namedByConnection } from '../../gates/field-kinds.ts';
import type { RequestHead } from '../../gates/headers.ts';
import { refuseMethod } from '../../gates/method.ts';
import { authorityOf, originForm } from '../../gates/target.ts';
import { HeaderBlock } from '../../http2/hpack-decoder.ts';
import { answered, type Refusal } from './report.ts';

/** The request to explain, as its client would send it. */
export interface RequestSpec {
	readonly method: string;
	/** Request target, as it goes on the wire. */
	readonly target: string;
	/** Value of `Host`, unless `headers` have one. */
	readonly authority: string;
	readonly protocol: 'http/1.1' | 'h2';
	/** Lines as given: `name: value`. */
	readonly headers: readonly string[];
	/** Becomes an `Authorization` line; with one in `headers` it is the second. */
	readonly token: string | undefined;
	/** Becomes a `Content-Length` unless `headers` frame the body. */
	readonly bodyBytes: number | undefined;
}

/** The request as the front of its protocol understands it. */
export interface ReadRequest {
	readonly method: string;
	/** Origin form. */
	readonly target: string;
	/** Authority of a target in absolute form; `undefined`: the target has another form; `null`: malformed. */
	readonly targetAuthority: string | null | undefined;
	/** Why the bytes are not a request. */
	readonly malformed: Refusal | undefined;
	readonly unknownMethod: Rejection | undefined;
	/** The refusal of the fields. */
	readonly badFields: Rejection | undefined;
	/** `undefined` if one of the above refuses the request. */
	readonly head: RequestHead | undefined;
	/** As `ClientRequest` has it. */
	readonly isGrpc: boolean;
	/** Input of the token's gate, even if there is no head. */
	readonly authorization: string | null | undefined;
	readonly fields: readonly FieldReport[];
}

interface FieldReport {
	readonly name: string;
	readonly fate: FieldFate;
}

/** What decides how the running proxy reads a head. */
export interface HeadReading {
	readonly maxHeaderBytes: number;
	/** Identifiers that it reads apart: with `[trace]` and `[log] request_id`. */
	readonly apart: Identifiers;
	/** It offers the extended CONNECT (RFC 8441): some route accepts WebSockets. */
	readonly extendsConnect: boolean;
}

export function readRequest(spec: RequestSpec, reading: HeadReading): ReadRequest {
	const read = spec.protocol === 'h2' ? readHttp2 : readHttp1;
	return read(spec, reading);
}

function readHttp1(spec: RequestSpec, { maxHeaderBytes, apart }: HeadReading): ReadRequest {
	const { method, target } = spec;
	const lines = fieldLines(spec).map(({ line }) => line);
	const bytes = Buffer.from([`${method} ${target} HTTP/1.1`, ...lines, '', ''].join('\r\n'));
	const reader = new RequestHeadReader(maxHeaderBytes, apart);
	reader.read(bytes, 0);
	const { refusal } = reader;
	const head = refusal === undefined ? reader.block.head : undefined;
	const good = head instanceof Rejection ? undefined : head;
	return {
		method,
		target: originForm(target),
		targetAuthority: authorityOf(target),
		malformed: refusal && answered(refusal),
		unknownMethod: refusal === undefined ? refuseMethod(method) : undefined,
		badFields: head instanceof Rejection ? head : undefined,
		head: good,
		isGrpc: good?.isGrpc === true,
		authorization: good === undefined ? loneToken(spec) : good.authorization,
		fields: fieldReports(spec, apart),
	};
}

function readHttp2(spec: RequestSpec, { maxHeaderBytes, apart, extendsConnect }: HeadReading): ReadRequest {
	const { method, target } = spec;
	// The bytes of a tunnel follow its head.
	const endStream = !fieldLines(spec).some(
		({ name, value }) => name === PROTOCOL || (/^content-length$/i.test(name) && value !== '0'),
	);
	const reader = new RequestFieldsReader(maxHeaderBytes, apart, extendsConnect);
	const facts = (asMethod: string) => reader.read(blockOf(spec, asMethod, maxHeaderBytes), endStream);
	const said = facts(method);
	const malformed: Refusal | undefined = typeof said === 'string' ? { ending: 'reset', reason: said } : undefined;
	const unknownMethod = malformed === undefined ? refuseMethod(method) : undefined;
	// A refused method would hide problems of the fields.
	const known = unknownMethod === undefined ? said : facts('GET');
	const head = typeof known === 'string' ? undefined : known.head;
	const good = head === undefined || head instanceof Rejection ? undefined : head;
	return {
		method,
		target,
		targetAuthority: undefined,
		malformed,
		unknownMethod,
		badFields: head instanceof Rejection ? head : undefined,
		head: good,
		isGrpc: typeof said !== 'string' && said.isGrpc,
		authorization: good === undefined ? loneToken(spec) : good.authorization,
		fields: fieldReports(spec, apart),
	};
}

/**
 * As an HTTP/2 client sends it: names in lower case, and `:authority` instead of `Host`.
 *
 * @param maxBytes limit of the fields that are read.
 */
function blockOf(spec: RequestSpec, method: string, maxBytes: number): HeaderBlock<RequestField> {
	const lines = fieldLines(spec);
	const block = new HeaderBlock<RequestField>();
	let kept = 0;
	const add = (name: string, value: string) => {
		const field = new RequestField(octets(name), octets(value));
		const size = field.name.length + field.value.length;
		block.bytes += size;
		block.count++;
		if (kept + size > maxBytes) return;
		kept += size;
		block.fields.push(field);
	};
	const host = lines.find(({ name }) => name.toLowerCase() === 'host');
	const protocol = lines.find(({ name }) => name === PROTOCOL);
	add(':method', method);
	if (method !== 'CONNECT' || protocol !== undefined) {
		add(':scheme', 'https');
		add(':path', spec.target);
	}
	if (protocol !== undefined) add(PROTOCOL, protocol.value);
	add(':authority', host?.value ?? spec.authority);
	for (const line of lines) if (line !== host && line !== protocol) add(line.name.toLowerCase(), line.value);
	return block;
}

/** Makes a CONNECT an extended one (RFC 8441 section 4). */
const PROTOCOL = ':protocol';

/** One character for each byte, as the front reads them. */
function octets(text: string): string {
	return Buffer.from(text).toString('latin1');
}

interface FieldLine {
	readonly name: string;
	/** Without the blanks around it. */
	readonly value: string;
	/** As sent over HTTP/1.1. */
	readonly line: string;
}

function fieldLines({ headers, token, authority, bodyBytes = 0 }: RequestSpec): FieldLine[] {
	const given = headers.map(fieldLine);
	const has = (...names: string[]) => given.some(({ name }) => names.includes(name.toLowerCase()));
	const isFramed = has('content-length', 'transfer-encoding');
	return [
		...(has('host') ? [] : [fieldLine(`Host: ${authority}`)]),
		...(token === undefined ? [] : [fieldLine(`Authorization: Bearer ${token}`)]),
		...given,
		...(bodyBytes > 0 && !isFramed ? [fieldLine(`Content-Length: ${bodyBytes}`)] : []),
	];
}

/** A line without a colon becomes a name only; the parsers judge it. The names of control data begin with one. */
function fieldLine(line: string): FieldLine {
	const colon = line.indexOf(':', 1);
	const name = colon === -1 ? line : line.slice(0, colon);
	return { name, value: colon === -1 ? '' : line.slice(colon + 1).trim(), line };
}

/** The input of the token's gate if the head is refused for another reason. */
function loneToken(spec: RequestSpec): string | null | undefined {
	const [first, second] = fieldLines(spec).filter(({ name }) => name.toLowerCase() === 'authorization');
	return second === undefined ? first?.value : null;
}

function fieldReports(spec: RequestSpec, apart: Identifiers): FieldReport[] {
	const lines = fieldLines(spec);
	let named: Set<string> | undefined;
	for (const { name, value } of lines) {
		if (name.toLowerCase() === 'connection') named = namedByConnection(value, named);
	}
	return lines.map(({ name }) => ({ name, fate: fateOf(name, named, apart) }));
}
