import { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import { ClientCertificate } from '../identity/client-certificate.ts';

/** A client's certificate: as Node has it, or as DER. */
export type CallerCertificate = X509Certificate | Uint8Array;

/** What a gate may want to know of a request besides its token. */
export interface Caller {
	/**
	 * The certificate that the client has shown on this connection. A token that is bound to a certificate (RFC 8705) is refused
	 * without it. A function is called for such tokens alone.
	 */
	readonly certificate?: CallerCertificate | (() => CallerCertificate | undefined) | undefined;
	/** The token must have all of these; otherwise the request is refused with 403 `insufficient scope` (RFC 6750 section 3.1). */
	readonly scopes?: readonly string[] | undefined;
}

/**
 * The certificate of the client on the other end of a request's or an upgrade's socket; `undefined` where there is none.
 *
 * @param request of `node:http`, `node:https` or `node:http2`.
 */
export function certificateOf(request: { readonly socket?: unknown }): X509Certificate | undefined {
	return certificateIn(request.socket);
}

/** @internal */
export function certificateIn(socket: unknown): X509Certificate | undefined {
	const tls = socket as Partial<TLSSocket> | null | undefined;
	if (tls?.getPeerX509Certificate === undefined) return undefined;
	let certificate = CERTIFICATES.get(tls);
	if (certificate === undefined) {
		certificate = tls.getPeerX509Certificate();
		if (certificate !== undefined) CERTIFICATES.set(tls, certificate);
	}
	return certificate;
}

/** By socket: Node reads a connection's certificate anew each time, which takes longer than all the rest of a gate. */
const CERTIFICATES = new WeakMap<object, X509Certificate>();
/** What has been worked out about a certificate. */
const FACTS = new WeakMap<X509Certificate, ClientCertificate>();

/**
 * SHA-256 of the caller's certificate as DER, 32 bytes; `undefined` where there is none.
 *
 * @throws Error for something that is no certificate.
 *
 * @internal
 */
export function thumbprintOf(caller: Caller): Buffer | undefined {
	const x509 = x509Of(caller);
	if (x509 === undefined) return undefined;
	let facts = FACTS.get(x509);
	if (facts === undefined) {
		facts = new ClientCertificate(x509);
		FACTS.set(x509, facts);
	}
	return facts.thumbprint;
}

/**
 * The caller's certificate; `undefined` where there is none.
 *
 * @throws Error for something that is no certificate.
 *
 * @internal
 */
export function x509Of({ certificate }: Caller): X509Certificate | undefined {
	const given = typeof certificate === 'function' ? certificate() : certificate;
	return given === undefined || given instanceof X509Certificate ? given : new X509Certificate(given);
}
