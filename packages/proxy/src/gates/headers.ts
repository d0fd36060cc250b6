import { isGrpc } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import { BAD_REQUEST, type Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { parseContentLength, UNDECLARED } from './body-limit.ts';
import {
	AUTHORIZATION,
	CONNECTION,
	CONTENT_LENGTH,
	CONTENT_TYPE,
	COOKIE,
	EXPECT,
	FIELDS_READ,
	type FieldTable,
	FORWARD,
	GRPC_TIMEOUT,
	HOST,
	type Identifiers,
	kindOf,
	namedByConnection,
	ORIGIN,
	REQUEST_ID,
	TE,
	TRACEPARENT,
	TRACESTATE,
	TRAILER,
	TRANSFER_ENCODING,
	UPGRADE,
	withoutFields,
	withoutNamed,
} from './field-kinds.ts';
import { parseGrpcTimeout } from './grpc-timeout.ts';
import { HANDSHAKE_FIELDS, type HandshakeFrame, readHandshake, type WebSocketHandshake } from './web-socket.ts';

/**
 * The header contract: the facts and the lines of a request head. Headers are flat lists of names and values as they came over the
 * wire. Objects would cost time and hide repeated fields, and attacks use repeated fields.
 */

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

export const WEB_SOCKET = 'websocket';
export const NO_HOST = BAD_REQUEST.because('no host');
export const BAD_HOST = BAD_REQUEST.because('malformed host');
export const TWO_HOSTS = BAD_REQUEST.because('two hosts');
const BAD_LENGTH = BAD_REQUEST.because('malformed content-length');
const TWO_LENGTHS = BAD_REQUEST.because('two content-lengths');
const TWO_CODINGS = BAD_REQUEST.because('two transfer-encodings');
const UNKNOWN_CODING = BAD_REQUEST.because('transfer-encoding other than chunked');
const CODING_IN_HTTP10 = BAD_REQUEST.because('transfer-encoding in HTTP/1.0');
const TWO_FRAMINGS = BAD_REQUEST.because('content-length and transfer-encoding');

/** Whether a value can be the authority of a request (RFC 9110 section 4.2.1): host, optional port, no user info. */
export function isAuthority(value: string): boolean {
	if (value === knownAuthority) return true;
	if (!AUTHORITY.test(value)) return false;
	knownAuthority = value;
	return true;
}

/** The last authority that was well-formed: most requests have the same. */
let knownAuthority: string | undefined;

const ASKS_FOR_TRAILERS = /(?:^|,)[ \t]*trailers[ \t]*(?:,|$)/i;

const AUTHORITY = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(?::[0-9]{0,5})?$/;

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
				else if (!isAuthority(value)) this.malformed ??= BAD_HOST;
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
