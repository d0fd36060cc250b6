import { createHash } from 'node:crypto';
import { TOKEN_SOURCE } from '@mtls-edge-proxy/gate/gates/grammar.ts';
import { BAD_REQUEST, Rejection, UPGRADE_UNSUPPORTED } from '@mtls-edge-proxy/gate/gates/rejection.ts';

/** A handshake whose fields are valid (RFC 6455 section 4.1; over HTTP/2 RFC 8441 section 5). */
export interface WebSocketHandshake {
	/** `undefined` over HTTP/2, which has none. */
	readonly key: string | undefined;
	/** Subprotocols that the client speaks. */
	readonly protocols: ReadonlySet<string>;
	/** Names of extensions that it offers, in lower case. */
	readonly extensions: ReadonlySet<string>;
	/** Handshake lines for the upstream, without a key, each ended by CRLF. */
	readonly lines: string;
}

/**
 * Admits a handshake only on routes that take WebSockets.
 *
 * @param handshake of the request's head.
 * @param isTaken its route takes WebSockets.
 * @param isExtended it is an extended CONNECT (RFC 8441); otherwise it has to be a GET.
 */
export function admitHandshake(
	handshake: WebSocketHandshake | Rejection,
	{ isTaken, isExtended, method }: { isTaken: boolean; isExtended: boolean; method: string },
): WebSocketHandshake | Rejection {
	if (!isTaken) return UPGRADE_UNSUPPORTED;
	return handshake instanceof Rejection || isExtended || method === 'GET' ? handshake : NOT_GET;
}

/** Facts of a head, other than its handshake fields, that decide about the handshake. */
export interface HandshakeFrame {
	readonly protocol: 'http/1.1' | 'h2';
	/** `Connection` names `upgrade`; over HTTP/2 there is none. */
	readonly isNamed: boolean;
	/**
	 * There is a body or a declared length. A length of 0 counts as well: over HTTP/2 the bytes of the tunnel would violate it (RFC
	 * 9113 section 8.1.1), and over HTTP/1.1 a GET should not have one (RFC 9110 section 8.6).
	 */
	readonly hasBody: boolean;
	/** The client has ended its side with the head (HTTP/2 only). */
	readonly isEnded: boolean;
}

/** Names of the handshake's fields. The upstream gets only the proxy's own. */
export const HANDSHAKE_FIELDS: ReadonlySet<string> = new Set([
	'sec-websocket-key',
	'sec-websocket-version',
	'sec-websocket-protocol',
	'sec-websocket-extensions',
	// Only a server may send it.
	'sec-websocket-accept',
]);

/**
 * Reads the handshake of a request that asks for `websocket` and nothing else.
 *
 * @param raw names and values in turn.
 */
export function readHandshake(
	raw: readonly string[],
	{ protocol, isNamed, hasBody, isEnded }: HandshakeFrame,
): WebSocketHandshake | Rejection {
	const fields: Record<string, string[]> = { key: [], version: [], protocol: [], extensions: [] };
	for (let i = 0; i < raw.length; i += 2) {
		const name = raw[i]!.toLowerCase();
		if (name.startsWith(PREFIX)) fields[name.slice(PREFIX.length)]?.push(raw[i + 1]!.trim());
	}
	if (!isNamed) return NOT_NAMED;
	if (hasBody) return WITH_BODY;
	if (isEnded) return ENDED;
	const [version, ...versions] = fields.version!;
	if (version !== '13' || versions.length > 0) return OTHER_VERSION;
	const [key, ...keys] = fields.key!;
	// RFC 8441 section 5: over HTTP/2 the key has no meaning.
	if (protocol === 'http/1.1' && (key === undefined || keys.length > 0 || !KEY.test(key))) return BAD_KEY;
	const protocols = listOf(fields.protocol!, TOKEN);
	if (protocols === undefined || new Set(protocols).size < protocols.length) return BAD_PROTOCOLS;
	const extensions = listOf(fields.extensions!, EXTENSION);
	if (extensions === undefined) return BAD_EXTENSIONS;
	return {
		key: protocol === 'http/1.1' ? key : undefined,
		protocols: new Set(protocols),
		extensions: namesOf(extensions),
		lines: `${PREFIX}version: 13\r\n${line('protocol', protocols)}${line('extensions', extensions)}`,
	};
}

function line(name: string, values: readonly string[]): string {
	return values.length === 0 ? '' : `${PREFIX}${name}: ${values.join(', ')}\r\n`;
}

/** Lines that ask an upstream for a WebSocket over HTTP/1.1. @param key the proxy's own: the client's key is for its own connection. */
export function upgradeLines({ lines }: WebSocketHandshake, key: string): string {
	return `${lines}sec-websocket-key: ${key}\r\nconnection: upgrade\r\nupgrade: websocket\r\n`;
}

/**
 * What is wrong with the response of an upstream that has taken the handshake, in words for operators (RFC 6455 section 4.1).
 *
 * @param fields names in lower case and values in turn.
 * @param accept the value that belongs to the key sent to the upstream; `undefined` over HTTP/2, which has none.
 */
export function problemOfResponse(
	{ protocols, extensions }: WebSocketHandshake,
	fields: readonly string[],
	accept: string | undefined,
): string | undefined {
	const of = (name: string) => fields.filter((_, i) => i % 2 === 1 && fields[i - 1] === PREFIX + name);
	const accepts = of('accept');
	if (accept !== undefined && (accepts.length !== 1 || accepts[0]!.trim() !== accept)) {
		return 'the response to the WebSocket handshake has a wrong Sec-WebSocket-Accept';
	}
	const chosen = of('protocol');
	if (chosen.length > 1 || (chosen.length === 1 && !protocols.has(chosen[0]!.trim()))) {
		return 'the response to the WebSocket handshake chooses a subprotocol that the client did not offer';
	}
	const agreed = listOf(of('extensions'), EXTENSION);
	if (agreed === undefined || [...namesOf(agreed)].some((name) => !extensions.has(name))) {
		return 'the response to the WebSocket handshake has an extension that the client did not offer';
	}
	return undefined;
}

/** Whether the two ends have agreed on an extension: then the reserved bits of frames may be in use. */
export function hasExtensions(fields: readonly string[]): boolean {
	return fields.some((name, i) => i % 2 === 0 && name === `${PREFIX}extensions` && fields[i + 1]!.trim() !== '');
}

/** `Sec-WebSocket-Accept` for a key (RFC 6455 section 4.2.2). */
export function acceptOf(key: string): string {
	return createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
}

/** @returns the members of all lines, without empty ones (RFC 9110 section 5.6.1); `undefined` if one is malformed. */
function listOf(lines: readonly string[], member: RegExp): string[] | undefined {
	const members = lines
		.flatMap((text) => text.split(','))
		.map((text) => text.trim())
		.filter((text) => text !== '');
	return members.every((text) => member.test(text)) ? members : undefined;
}

function namesOf(extensions: readonly string[]): Set<string> {
	return new Set(extensions.map((extension) => extension.split(';', 1)[0]!.trim().toLowerCase()));
}

const PREFIX = 'sec-websocket-';
const TOKEN = new RegExp(`^${TOKEN_SOURCE}$`);
/** RFC 6455 section 9.1: a quoted value must be a token as well. */
const PARAMETER = `[ \\t]*;[ \\t]*${TOKEN_SOURCE}(?:[ \\t]*=[ \\t]*(?:${TOKEN_SOURCE}|"${TOKEN_SOURCE}"))?`;
const EXTENSION = new RegExp(`^${TOKEN_SOURCE}(?:${PARAMETER})*$`);
/** 16 bytes in base64: the four unused bits of the last digit are zero. */
const KEY = /^[A-Za-z0-9+/]{21}[AQgw]==$/;

const NOT_GET = BAD_REQUEST.because('WebSocket handshake with a method other than GET');
const NOT_NAMED = BAD_REQUEST.because('Connection does not name the upgrade');
const WITH_BODY = BAD_REQUEST.because('WebSocket handshake with a body or a body length');
const ENDED = BAD_REQUEST.because('WebSocket handshake that ends its stream');
/** RFC 6455 section 4.4: the response names the supported version. */
const OTHER_VERSION = BAD_REQUEST.withHeaders(['sec-websocket-version', '13']).because(
	'WebSocket version other than 13',
);
const BAD_KEY = BAD_REQUEST.because('Sec-WebSocket-Key is not 16 bytes of base64');
const BAD_PROTOCOLS = BAD_REQUEST.because('malformed Sec-WebSocket-Protocol');
const BAD_EXTENSIONS = BAD_REQUEST.because('malformed Sec-WebSocket-Extensions');
