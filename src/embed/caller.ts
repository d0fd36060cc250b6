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
	return (socket as Partial<TLSSocket> | null | undefined)?.getPeerX509Certificate?.();
}

/**
 * SHA-256 of the caller's certificate as DER, 32 bytes; `undefined` where there is none.
 *
 * @throws Error for something that is no certificate.
 *
 * @internal
 */
export function thumbprintOf({ certificate }: Caller): Buffer | undefined {
	const given = typeof certificate === 'function' ? certificate() : certificate;
	if (given === undefined) return undefined;
	const x509 = given instanceof X509Certificate ? given : new X509Certificate(given);
	return new ClientCertificate(x509).thumbprint;
}
