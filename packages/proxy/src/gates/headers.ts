import { isGrpc } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import { BAD_REQUEST, type Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { parseContentLength, UNDECLARED } from './body-limit.ts';
import { parseGrpcTimeout } from './grpc-timeout.ts';
import { refuseMethod } from './method.ts';
import { HANDSHAKE_FIELDS, type HandshakeFrame, readHandshake, type WebSocketHandshake } from './web-socket.ts';

/**
 * The header contract: which fields of a message the proxy reads, which it forwards, and which must never pass. Headers are flat
 * lists of names and values as they came over the wire. Objects would cost time and hide repeated fields, and attacks use repeated
 * fields.
 */

/** Which identifiers are read apart from the lines of a request: none, those of its trace, or its own as well (`x-request-id`). */
export type Identifiers = 'none' | 'trace' | 'trace and request';

/** The facts of a request head that the gates need, and the lines to pass on. */
export interface RequestHead {
	/** `undefined`: none; `null`: more than one. */
	readonly authorization: string | null | undefined;
	/** Header lines to forward, each ended by CRLF, without those that the proxy sets itself. */
	readonly lines: string;
	/** Bytes of the body; 0 for none; `UNDECLARED`: only the framing ends it. */
	readonly bodyLength: number;
	/** It asks for another protocol than HTTP (RFC 9110 section 7.8). `h2c` does not count: the request is answered over HTTP/1.1. */
	readonly wantsUpgrade: boolean;
	/** It asks for a WebSocket and nothing else: its handshake, or the refusal. The fields of the handshake are not among `lines`. */
	readonly webSocket: WebSocketHandshake | Rejection | undefined;
	/** It waits for a 100 before it sends its body (RFC 9110 section 10.1.1). */
	readonly expectsContinue: boolean;
	/** Read apart from `lines` if the caller has asked for it. `undefined`: none; `null`: more than one. */
	readonly traceparent: string | null | undefined;
	readonly requestId: string | null | undefined;
	/** `tracestate` lines, each ended by CRLF: they mean something only with their own `traceparent`. */
	readonly tracestate: string;
	/** `:authority` or `Host`; `undefined`: the client sent none (HTTP/1.0). */
	readonly authority: string | undefined;
	/** Among `lines` may be some of `x-forwarded-host`, `-port` and `-prefix`, which some routes write themselves. */
	readonly claimsOrigin: boolean;
	/** It is a gRPC call, by the `content-type` that the upstream gets. With another method than POST it is not one. */
	readonly isGrpc: boolean;
	/** How long the client of a gRPC call waits, ms. `undefined`: no such field; `null`: malformed, or more than one. Not among `lines`. */
	readonly grpcTimeout: number | null | undefined;
	/** It asks for trailers (`TE`, RFC 9110 section 10.1.4). */
	readonly acceptsTrailers: boolean;
	/** Values of its `Trailer` fields (RFC 9110 section 6.6.2), with commas between; empty: none. */
	readonly announcedTrailers: string;
	/**
	 * Names that its `Connection` fields declare hop-by-hop, in lower case: they are removed from its trailers as well. `undefined`:
	 * none.
	 */
	readonly named: ReadonlySet<string> | undefined;
}

/** An HTTP/2 request head with its control data (RFC 9113 section 8.3.1). */
export interface Http2RequestHead extends RequestHead {
	readonly method: string;
	readonly path: string;
}

export const FORWARD = 0;
/** Hop-by-hop (RFC 9110 section 7.6.1) and related fields: dropped. */
const DROP = 1;
const AUTHORIZATION = 2;
const HOST = 3;
export const CONTENT_LENGTH = 4;
export const TRANSFER_ENCODING = 5;
export const CONNECTION = 6;
export const UPGRADE = 7;
const EXPECT = 8;
const COOKIE = 9;
const TRACEPARENT = 10;
const TRACESTATE = 11;
const REQUEST_ID = 12;
/** Only the proxy may write it: a client's is dropped. */
const OWN = 13;
/** Its name could be read as one of the above: dropped. */
const FOLDED = 14;
/** Written by the proxy on some routes (`forwarding.ts`), by the client on all others. Its name may be spelled in any way. */
const ORIGIN = 15;
/** Some upstreams use its value in place of the path that the gates have judged: dropped. */
const PATH = 16;
/** Forwarded. Only this exact name counts: a folded spelling is another field. */
const CONTENT_TYPE = 17;
/** Read apart from the lines if the request is a gRPC call, and otherwise forwarded like any field. */
const GRPC_TIMEOUT = 18;
/** Hop-by-hop, and reported (`acceptsTrailers`, `announcedTrailers`). */
const TE = 19;
const TRAILER = 20;

/**
 * How many names are remembered with their kind, a power of two. Below, the longest of them in characters: all names with a meaning
 * are shorter.
 */
const RECENT_NAMES = 1024;
/** Reduces 32 bits to the index of a place. */
const PLACE_SHIFT = 32 - 10;
const MAX_RECENT_NAME = 64;

/** Fields with a meaning of their own, by lower-case name; all others are forwarded. */
interface FieldTable {
	readonly kinds: ReadonlyMap<string, number>;
	/** 1 if some name of the table has that length. Most fields have another length, and need no lookup. */
	readonly lengths: Uint8Array;
	/** The last names that were found, by a hash of the name. */
	readonly recent: ({ readonly name: string; readonly kind: number } | undefined)[];
}

const REQUEST_FIELDS = fieldTable([
	['authorization', AUTHORIZATION],
	['host', HOST],
	['content-length', CONTENT_LENGTH],
	['transfer-encoding', TRANSFER_ENCODING],
	['connection', CONNECTION],
	['upgrade', UPGRADE],
	['expect', EXPECT],
	['cookie', COOKIE],
	['content-type', CONTENT_TYPE],
	['grpc-timeout', GRPC_TIMEOUT],
	['keep-alive', DROP],
	['proxy-connection', DROP],
	['proxy-authenticate', DROP],
	['proxy-authorization', DROP],
	['te', TE],
	['trailer', TRAILER],
	['http2-settings', DROP],
	['x-proxy-tenant', OWN],
	['x-forwarded-for', OWN],
	['x-forwarded-proto', OWN],
	['forwarded', OWN],
	['x-real-ip', OWN],
	// Dropped even if the proxy writes none of them: an upstream that reads them would trust the client (RFC 9440 section 4).
	['client-cert', OWN],
	['client-cert-chain', OWN],
	['x-forwarded-client-cert', OWN],
	// Gunicorn cuts `SCRIPT_NAME` from the path of a request that comes from the same machine.
	['script-name', PATH],
	['path-info', PATH],
	['x-script-name', PATH],
	// URL rewriting of IIS, and the frameworks that know it: Symfony before 4.1.3, Laminas.
	['x-original-url', PATH],
	['x-rewrite-url', PATH],
	['x-forwarded-host', ORIGIN],
	['x-forwarded-port', ORIGIN],
	['x-forwarded-prefix', ORIGIN],
]);

/** If requests are traced (`trace-context.ts`). */
const TRACED_FIELDS = fieldTable([...REQUEST_FIELDS.kinds, ['traceparent', TRACEPARENT], ['tracestate', TRACESTATE]]);
/** If they also get identifiers of their own (`correlation.ts`). */
const IDENTIFIED_FIELDS = fieldTable([...TRACED_FIELDS.kinds, ['x-request-id', REQUEST_ID]]);

const FIELDS_READ: Readonly<Record<Identifiers, FieldTable>> = {
	none: REQUEST_FIELDS,
	trace: TRACED_FIELDS,
	'trace and request': IDENTIFIED_FIELDS,
};

/**
 * Reads an HTTP/1.1 or HTTP/1.0 request head. Ambiguous framing is refused (RFC 9112 section 6): the proxy and the upstream could
 * see different requests.
 *
 * @param raw alternating names and values, names in the sender's spelling.
 * @param minor minor version of the request line.
 * @param apart the identifiers that are read apart from the lines.
 */
export function readHttp1Head(
	raw: readonly string[],
	minor: number,
	apart: Identifiers = 'none',
): RequestHead | Rejection {
	const reader = new RequestReader(apart);
	for (let i = 0; i < raw.length; i += 2) reader.field(raw[i]!, raw[i + 1]!);
	return reader.finishHttp1(minor, raw);
}

/** A field of an HTTP/2 head. */
export interface HeadField {
	readonly name: string;
	readonly value: string;
	/** As a line to forward. */
	readonly line: string;
	/** What the name means. @param apart as for `readHttp1Head`. */
	meaning(apart: Identifiers): number;
}

/**
 * Reads a well-formed HTTP/2 request head. `data/http2/request-fields.ts` has refused malformed ones (RFC 9113 section 8.1.1):
 * wrong order of pseudo-headers, connection-specific fields, CR, LF, NUL.
 *
 * @param endStream the head ends the stream: no body.
 * @param apart as for HTTP/1.1.
 */
export function readHttp2Fields(
	fields: readonly HeadField[],
	endStream: boolean,
	apart: Identifiers,
): Http2RequestHead | Rejection {
	const reader = new RequestReader(apart);
	let i = 0;
	for (; i < fields.length && fields[i]!.name.charCodeAt(0) === COLON; i++) {
		const { name, value } = fields[i]!;
		switch (name) {
			case ':method':
				reader.method = value;
				break;
			case ':path':
				reader.path = value;
				break;
			case ':authority':
				reader.authority = value;
				break;
			// RFC 8441 section 4: in place of `Upgrade`.
			case ':protocol':
				reader.wantsUpgrade = true;
				reader.upgrade = value.toLowerCase();
				break;
			case ':scheme':
				// The request came over TLS; another scheme is a lie or a request meant for a forward proxy.
				if (value !== 'https' && value !== 'http') return WRONG_SCHEME;
				break;
		}
	}
	const unknownMethod = refuseMethod(reader.method);
	if (unknownMethod) return unknownMethod;
	for (; i < fields.length; i++) {
		const field = fields[i]!;
		if (isPadded(field.value)) return PADDED_FIELD;
		if (reader.take(field.meaning(apart), field.value)) reader.lines += field.line;
	}
	if (reader.malformed) return reader.malformed;
	const { authority, host } = reader;
	if (authority === undefined && host === undefined) return NO_HOST;
	if (authority !== undefined && !AUTHORITY.test(authority)) return BAD_HOST;
	// RFC 9113 section 8.3.1: the two must say the same thing, or a later reader picks the other one.
	if (authority !== undefined && host !== undefined && authority.toLowerCase() !== host.toLowerCase()) return TWO_HOSTS;
	if (reader.transferEncoding !== undefined) return CODING_IN_HTTP2;
	if (endStream) {
		if (reader.bodyLength !== 0) return MISSING_BODY;
	} else if (reader.bodyLength === 0) {
		// Also with `content-length: 0`: only the end of the stream shows whether the client keeps to it.
		reader.bodyLength = UNDECLARED;
	}
	// Most heads do not need it.
	const isSpecial = reader.namesFields || reader.upgrade === WEB_SOCKET;
	const raw = isSpecial ? fields.flatMap(({ name, value }) => [name, value]) : [];
	reader.finish(raw);
	if (reader.upgrade === WEB_SOCKET) {
		// The bytes that follow are those of the tunnel, not a body.
		reader.bodyLength = 0;
		reader.readHandshake(raw, { protocol: 'h2', hasBody: reader.hasLength, isEnded: endStream });
	}
	return reader;
}

const WEB_SOCKET = 'websocket';
const NO_HOST = BAD_REQUEST.because('no host');
export const BAD_HOST = BAD_REQUEST.because('malformed host');
const TWO_HOSTS = BAD_REQUEST.because('two hosts');
const BAD_LENGTH = BAD_REQUEST.because('malformed content-length');
const TWO_LENGTHS = BAD_REQUEST.because('two content-lengths');
const TWO_CODINGS = BAD_REQUEST.because('two transfer-encodings');
const UNKNOWN_CODING = BAD_REQUEST.because('transfer-encoding other than chunked');
const CODING_IN_HTTP10 = BAD_REQUEST.because('transfer-encoding in HTTP/1.0');
const CODING_IN_HTTP2 = BAD_REQUEST.because('transfer-encoding in HTTP/2');
const TWO_FRAMINGS = BAD_REQUEST.because('content-length and transfer-encoding');
const MISSING_BODY = BAD_REQUEST.because('content-length without a body');
const WRONG_SCHEME = BAD_REQUEST.because('scheme other than https');
const PADDED_FIELD = BAD_REQUEST.because('blank around a field value');

/** RFC 9113 section 8.2.1: no blank at either end. An HTTP/1.1 reader would trim the value. */
export function isPadded(value: string): boolean {
	const first = value.charCodeAt(0);
	const last = value.charCodeAt(value.length - 1);
	return first === SPACE || first === TAB || last === SPACE || last === TAB;
}

/** Whether a value can be the authority of a request (RFC 9110 section 4.2.1): host, optional port, no user info. */
export function isAuthority(value: string): boolean {
	return AUTHORITY.test(value);
}

const ASKS_FOR_TRAILERS = /(?:^|,)[ \t]*trailers[ \t]*(?:,|$)/i;

const COLON = 0x3a;
const SPACE = 0x20;
const TAB = 0x09;
const AUTHORITY = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(?::[0-9]{0,5})?$/;

/** A field's name in the sender's spelling, and its kind. */
export interface RequestField {
	readonly name: string;
	readonly kind: number;
}

/** @param apart as for `readHttp1Head`. */
export function requestField(name: string, apart: Identifiers): RequestField {
	return { name, kind: kindOf(name, FIELDS_READ[apart]) };
}

/** Collects facts and lines in one pass over the fields. */
export class RequestReader {
	authorization: string | null | undefined = undefined;
	lines = '';
	bodyLength = 0;
	wantsUpgrade = false;
	webSocket: WebSocketHandshake | Rejection | undefined = undefined;
	expectsContinue = false;
	method = '';
	path = '';
	authority: string | undefined = undefined;
	host: string | undefined = undefined;
	hasLength = false;
	transferEncoding: string | undefined = undefined;
	malformed: Rejection | undefined = undefined;
	traceparent: string | null | undefined = undefined;
	requestId: string | null | undefined = undefined;
	tracestate = '';
	claimsOrigin = false;
	isGrpc = false;
	/** The requested protocol, in lower case; `null`: more than one. */
	upgrade: string | null | undefined = undefined;
	grpcTimeout: number | null | undefined = undefined;
	acceptsTrailers = false;
	announcedTrailers = '';
	named: Set<string> | undefined = undefined;
	readonly #fields: FieldTable;
	#cookie: string | undefined = undefined;
	#hasContentType = false;
	/** Values of `grpc-timeout`. */
	#timeouts: string[] | undefined = undefined;

	constructor(apart: Identifiers) {
		this.#fields = FIELDS_READ[apart];
	}

	field(name: string, value: string): void {
		if (this.take(kindOf(name, this.#fields), value)) this.lines += `${name}: ${value}\r\n`;
	}

	/**
	 * Reads one field, for a caller that builds `lines` itself.
	 *
	 * @param kind of the name (`requestField`). A value of kind `FORWARD` is not looked at.
	 * @returns whether the line is forwarded.
	 */
	take(kind: number, value: string): boolean {
		switch (kind) {
			case FORWARD:
				return true;
			case ORIGIN:
				this.claimsOrigin = true;
				return true;
			case AUTHORIZATION:
				this.authorization = this.authorization === undefined ? value : null;
				return true;
			case CONTENT_TYPE:
				// Of two, it is unknown which one the upstream believes.
				this.isGrpc = !this.#hasContentType && isGrpc(value);
				this.#hasContentType = true;
				return true;
			case GRPC_TIMEOUT:
				this.#timeouts = [...(this.#timeouts ?? []), value];
				break;
			case HOST:
				if (this.host !== undefined) this.malformed ??= TWO_HOSTS;
				else if (!AUTHORITY.test(value)) this.malformed ??= BAD_HOST;
				this.host = value;
				break;
			case CONTENT_LENGTH:
				this.#length(value);
				break;
			case TRANSFER_ENCODING:
				if (this.transferEncoding !== undefined) this.malformed ??= TWO_CODINGS;
				this.transferEncoding = value;
				break;
			case CONNECTION:
				this.named = namedByConnection(value, this.named);
				break;
			case UPGRADE:
				if (value.trim().toLowerCase() !== 'h2c') this.wantsUpgrade = true;
				this.upgrade = this.upgrade === undefined ? value.trim().toLowerCase() : null;
				break;
			case EXPECT:
				if (value.toLowerCase() === '100-continue') this.expectsContinue = true;
				break;
			case COOKIE:
				// HTTP/2 may send a cookie in crumbs; HTTP/1.1 knows one line (RFC 9113 section 8.2.3).
				this.#cookie = this.#cookie === undefined ? value : `${this.#cookie}; ${value}`;
				break;
			case TE:
				if (ASKS_FOR_TRAILERS.test(value)) this.acceptsTrailers = true;
				break;
			case TRAILER:
				this.announcedTrailers += this.announcedTrailers === '' ? value : `, ${value}`;
				break;
			case TRACEPARENT:
				this.traceparent = this.traceparent === undefined ? value : null;
				break;
			case TRACESTATE:
				this.tracestate += `tracestate: ${value}\r\n`;
				break;
			case REQUEST_ID:
				this.requestId = this.requestId === undefined ? value : null;
				break;
		}
		return false;
	}

	/** Whether `Connection` has named fields: lines with these names are not forwarded, wherever they are. */
	get namesFields(): boolean {
		return this.named !== undefined;
	}

	/** @param raw all fields; may be empty unless it `namesFields`. */
	finishHttp1(minor: number, raw: readonly string[]): RequestHead | Rejection {
		if (this.malformed) return this.malformed;
		if (this.host === undefined && minor !== 0) return NO_HOST;
		if (this.transferEncoding !== undefined) {
			if (minor === 0) return CODING_IN_HTTP10;
			if (this.bodyLength !== 0 || this.hasLength) return TWO_FRAMINGS;
			if (this.transferEncoding.toLowerCase() !== 'chunked') return UNKNOWN_CODING;
			this.bodyLength = UNDECLARED;
		}
		this.finish(raw);
		if (minor === 1 && this.upgrade === WEB_SOCKET) {
			const hasBody = this.hasLength || this.bodyLength !== 0;
			this.readHandshake(raw, { protocol: 'http/1.1', hasBody, isEnded: false });
		}
		return this;
	}

	#length(value: string): void {
		const length = parseContentLength(value);
		if (this.hasLength) this.malformed ??= TWO_LENGTHS;
		else if (length === undefined) this.malformed ??= BAD_LENGTH;
		else this.bodyLength = length;
		this.hasLength = true;
	}

	finish(raw: readonly string[]): void {
		this.authority ??= this.host;
		const named = this.named;
		if (named !== undefined) {
			this.lines = withoutNamed(raw, named, this.#fields);
			if (named.has('traceparent')) this.traceparent = undefined;
			if (named.has('tracestate')) this.tracestate = '';
			if (named.has('x-request-id')) this.requestId = undefined;
			if (named.has('content-type')) this.isGrpc = false;
		}
		if (this.#cookie !== undefined && !named?.has('cookie')) this.lines += `cookie: ${this.#cookie}\r\n`;
		if (this.#timeouts !== undefined && !named?.has('grpc-timeout')) this.#takeTimeouts(this.#timeouts);
	}

	/** Called after all fields: only then is it known whether this is a gRPC call. */
	#takeTimeouts(values: readonly string[]): void {
		if (!this.isGrpc) for (const value of values) this.lines += `grpc-timeout: ${value}\r\n`;
		else this.grpcTimeout = values.length > 1 ? null : (parseGrpcTimeout(values[0]!) ?? null);
	}

	readHandshake(raw: readonly string[], frame: Omit<HandshakeFrame, 'isNamed'>): void {
		const isNamed = frame.protocol === 'h2' || this.named?.has('upgrade') === true;
		this.webSocket = readHandshake(raw, { ...frame, isNamed });
		this.lines = withoutFields(this.lines, HANDSHAKE_FIELDS);
	}
}

/** Looks among the last names first: each request brings the same few, as new strings. */
function kindOf(name: string, table: FieldTable): number {
	const { recent, lengths } = table;
	if (lengths[name.length] === 0) return FORWARD;
	const place = placeOf(name);
	const known = recent[place];
	if (known !== undefined && known.name === name) return known.kind;
	const kind = findKind(name, table);
	if (name.length <= MAX_RECENT_NAME) recent[place] = { name: Buffer.from(name, 'latin1').toString('latin1'), kind };
	return kind;
}

/** Spreads the usual fields over the places: two in one place would evict each other with each request. */
function placeOf(name: string): number {
	const { length } = name;
	const ends = name.charCodeAt(0) * 31 + name.charCodeAt(length - 1);
	const mixed = (ends * 31 + name.charCodeAt(length >> 1)) * 31 + length;
	return Math.imul(mixed, 0x9e3779b1) >>> PLACE_SHIFT;
}

function findKind(name: string, { kinds }: FieldTable): number {
	const kind = kinds.get(name) ?? kinds.get(name.toLowerCase());
	if (kind !== undefined) return kind;
	// CGI and its descendants fold `-` and `_` into one (RFC 3875 section 4.1.18), some of them every character other than a letter
	// or digit. They would trust X_Proxy_Tenant.
	if (!/[^A-Za-z0-9-]/.test(name)) return FORWARD;
	const read = kinds.get(foldedName(name));
	if (read === undefined || read === CONTENT_TYPE || read === GRPC_TIMEOUT) return FORWARD;
	return read === ORIGIN || read === PATH ? read : FOLDED;
}

/** A name as the reader sees it that folds the most characters. */
export function foldedName(name: string): string {
	return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '-');
}

/**
 * Header lines without those of some names, in any spelling that could be taken for one of them.
 *
 * @param lines each ended by CRLF.
 * @param names folded.
 */
export function withoutFields(lines: string, names: ReadonlySet<string>): string {
	const kept = lines.split('\r\n').filter((line) => !names.has(foldedName(line.slice(0, line.indexOf(':')))));
	return kept.join('\r\n');
}

/** How a field reaches the upstream, or why it does not. */
export type FieldFate = 'forwarded' | 'rewritten' | 'hop-by-hop' | 'own' | 'path' | 'folded' | 'named by connection';

const HOP_BY_HOP_KINDS: ReadonlySet<number> = new Set([DROP, CONNECTION, UPGRADE, EXPECT, TE, TRAILER]);
const FORWARDED_KINDS: ReadonlySet<number> = new Set([FORWARD, AUTHORIZATION, COOKIE, ORIGIN, CONTENT_TYPE]);

/**
 * For explanations of a head that has been read.
 *
 * @param named by all the `Connection` fields of the head (`namedByConnection`).
 * @param apart as the head was read.
 */
export function fateOf(name: string, named: ReadonlySet<string> | undefined, apart: Identifiers): FieldFate {
	const kind = kindOf(name, FIELDS_READ[apart]);
	if (kind === OWN) return 'own';
	if (kind === PATH) return 'path';
	if (kind === FOLDED) return 'folded';
	if (kind === HOST || kind === CONTENT_LENGTH || kind === TRANSFER_ENCODING) return 'rewritten';
	if (HOP_BY_HOP_KINDS.has(kind)) return 'hop-by-hop';
	if (named?.has(name.toLowerCase())) return 'named by connection';
	return FORWARDED_KINDS.has(kind) ? 'forwarded' : 'rewritten';
}

/** Adds the fields that a `Connection` value declares hop-by-hop (RFC 9110 section 7.6.1). */
export function namedByConnection(value: string, named: Set<string> | undefined): Set<string> | undefined {
	const lower = value.toLowerCase();
	// Nearly every client sends one of these; they name no field.
	if (lower === 'keep-alive' || lower === 'close') return named;
	const names = named ?? new Set<string>();
	for (const option of lower.split(',')) names.add(option.trim());
	return names;
}

/** Builds the forwarded lines again, for the rare request whose `Connection` names fields. */
function withoutNamed(raw: readonly string[], named: ReadonlySet<string>, fields: FieldTable): string {
	let lines = '';
	for (let i = 0; i < raw.length; i += 2) {
		const name = raw[i]!;
		if (name.charCodeAt(0) === COLON) continue;
		const kind = kindOf(name, fields);
		// The crumbs of a cookie are joined after the other lines.
		if (kind !== COOKIE && FORWARDED_KINDS.has(kind) && !named.has(name.toLowerCase())) {
			lines += `${name}: ${raw[i + 1]}\r\n`;
		}
	}
	return lines;
}

/** The lengths end at 256; `undefined === 0` is false for longer names. */
function fieldTable(entries: Iterable<readonly [name: string, kind: number]>): FieldTable {
	const kinds = new Map(entries);
	const lengths = new Uint8Array(256);
	for (const name of kinds.keys()) lengths[name.length] = 1;
	return { kinds, lengths, recent: new Array(RECENT_NAMES).fill(undefined) };
}
