import { X509Certificate } from 'node:crypto';
import type { Http2Session, Http2Stream } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import { PeerCertificate } from '../identity/peer-certificate.ts';
import { possibleCertificates } from './client-chain.ts';
import { GateError } from './error.ts';
import { answerNow } from './foreign.ts';

/** A client's certificate: as Node has it, or as DER. */
export type CallerCertificate = X509Certificate | Uint8Array;

/** What a gate can use of a request besides its token. */
export interface Caller {
	/**
	 * The client's certificate on this connection. Without it, a token that is bound to a certificate (RFC 8705) is refused, and every
	 * token while the gate has revoked certificates. These need the chain, which the gate knows for a certificate of `certificateOf` only.
	 * A function is called if the certificate is needed.
	 */
	readonly certificate?: CallerCertificate | (() => CallerCertificate | undefined) | undefined;
	/**
	 * The token must have all of these; otherwise the request is refused with 403 `insufficient scope` (RFC 6750 section 3.1). An
	 * explicit `undefined` is no list, and is refused.
	 */
	readonly scopes?: readonly string[];
}

/**
 * Any request with a raw list of its headers or a `Headers`: of `node:http` or `node:http2` (also of an `upgrade`, `connect` or
 * `checkContinue` event), or a web-standard `Request`.
 */
export type AnyRequest =
	| { readonly rawHeaders: readonly string[] }
	| { readonly headers: { get(name: string): string | null } };

/**
 * Reads the `Authorization` header for `gate.check`. Two headers are returned as two values, and the gate refuses them: the framework
 * behind it might read the one that the gate did not. `req.headers.authorization` is unsafe, because it shows the first only.
 *
 * @throws {GateError} `ERR_GATE_REQUEST` if the argument has no headers that can be read.
 */
export function authorizationOf(request: AnyRequest): string | readonly string[] | undefined {
	// JavaScript callers may pass anything.
	const { rawHeaders, headers } = (request ?? {}) as { rawHeaders?: readonly string[]; headers?: Partial<Headers> };
	if (Array.isArray(rawHeaders)) return authorizationIn(rawHeaders);
	// `Headers` joins two values with a comma. No token has one, so the gate refuses them.
	if (typeof headers?.get === 'function') return headers.get('authorization') ?? undefined;
	throw new GateError(
		'ERR_GATE_REQUEST',
		'the request must have rawHeaders (node:http, node:http2) or headers.get (fetch)',
	);
}

/**
 * Every value of the `Authorization` header in a raw list of names and values.
 *
 * @param rawHeaders `rawHeaders` of a request of `node:http` or `node:http2`.
 *
 * @internal
 */
export function authorizationIn(rawHeaders: readonly string[]): string | readonly string[] | undefined {
	let found: string | string[] | undefined;
	for (let i = 0; i < rawHeaders.length; i += 2) {
		const name = rawHeaders[i]!;
		// Most names differ in length, so no lower-case copy of them is made.
		if (name.length !== 13 || name.toLowerCase() !== 'authorization') continue;
		const value = rawHeaders[i + 1]!;
		found = found === undefined ? value : [found, value].flat();
	}
	return found;
}

/**
 * The client's certificate of a request's or an upgrade's connection; `undefined` if it has none. The gate remembers the connection, and
 * finds the certificate's chain there.
 *
 * @param request of `node:http`, `node:https` or `node:http2`.
 */
export function certificateOf(request: {
	readonly socket?: unknown;
	readonly stream?: unknown;
}): X509Certificate | undefined {
	const { session } = (request.stream ?? NO_STREAM) as Partial<Http2Stream>;
	// Over HTTP/2 `socket` is another object for each request.
	return certificateIn(request.socket, session);
}

const NO_STREAM: Partial<Http2Stream> = {};

/**
 * @param connection an object that identifies the connection for its whole life.
 *
 * @internal
 */
export function certificateIn(socket: unknown, connection: unknown = socket): X509Certificate | undefined {
	const tls = socket as Partial<TLSSocket> | null | undefined;
	if (tls?.getPeerX509Certificate === undefined) return undefined;
	let certificate = CERTIFICATES.get(connection as object);
	if (certificate === undefined) {
		certificate = tls.getPeerX509Certificate();
		if (certificate !== undefined) {
			CERTIFICATES.set(connection as object, certificate);
			CONNECTIONS.set(certificate, connection as Connection);
		}
	}
	return certificate;
}

/** By connection: Node parses the certificate anew at each call, which takes longer than all other checks of a gate. */
const CERTIFICATES = new WeakMap<object, X509Certificate>();
const CONNECTIONS = new WeakMap<X509Certificate, Connection>();
type Connection = TLSSocket | Http2Session;
/** Facts derived from a certificate, such as its thumbprint. */
const FACTS = new WeakMap<X509Certificate, PeerCertificate>();

/**
 * The certificates in the possible chains of a client's certificate, with itself; `undefined` if its chain is not known to the end.
 *
 * @throws Error if the connection is gone.
 *
 * @internal
 */
export function chainOf(certificate: X509Certificate): readonly X509Certificate[] | undefined {
	const connection = CONNECTIONS.get(certificate);
	if (connection === undefined) return undefined;
	const socket = 'getPeerCertificate' in connection ? connection : (connection.socket as TLSSocket);
	return possibleCertificates(certificate, socket);
}

/**
 * SHA-256 of the caller's certificate as DER, 32 bytes; `undefined` if there is none.
 *
 * @throws Error if the value is not a certificate.
 *
 * @internal
 */
export function thumbprintOf(caller: Caller): Buffer | undefined {
	const x509 = x509Of(caller);
	if (x509 === undefined) return undefined;
	let facts = FACTS.get(x509);
	if (facts === undefined) {
		facts = new PeerCertificate(x509);
		FACTS.set(x509, facts);
	}
	return facts.thumbprint;
}

/**
 * The caller's certificate; `undefined` if there is none.
 *
 * @throws Error if the value is not a certificate.
 *
 * @internal
 */
export function x509Of({ certificate }: Caller): X509Certificate | undefined {
	const given = typeof certificate === 'function' ? answerNow(certificate) : certificate;
	return given === undefined || given instanceof X509Certificate ? given : new X509Certificate(given);
}
