import { BAD_REQUEST, type Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { UNDECLARED } from './body-limit.ts';
import type { Identifiers } from './field-kinds.ts';
import { BAD_HOST, isAuthority, NO_HOST, type RequestHead, RequestReader, TWO_HOSTS, WEB_SOCKET } from './headers.ts';
import { refuseMethod } from './method.ts';

/** An HTTP/2 request head with its control data (RFC 9113 section 8.3.1). */
export interface Http2RequestHead extends RequestHead {
	readonly method: string;
	readonly path: string;
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
	if (authority !== undefined && !isAuthority(authority)) return BAD_HOST;
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

const CODING_IN_HTTP2 = BAD_REQUEST.because('transfer-encoding in HTTP/2');
const MISSING_BODY = BAD_REQUEST.because('content-length without a body');
const WRONG_SCHEME = BAD_REQUEST.because('scheme other than https');
const PADDED_FIELD = BAD_REQUEST.because('whitespace around a field value');

/** RFC 9113 section 8.2.1: no space or tab at either end. An HTTP/1.1 reader would trim the value. */
export function isPadded(value: string): boolean {
	const first = value.charCodeAt(0);
	const last = value.charCodeAt(value.length - 1);
	return first === SPACE || first === TAB || last === SPACE || last === TAB;
}

const COLON = 0x3a;
const SPACE = 0x20;
const TAB = 0x09;
