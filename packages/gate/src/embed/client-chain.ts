import type { X509Certificate } from 'node:crypto';
import type { Server, TLSSocket } from 'node:tls';
import { hasSigned, MAX_ATTEMPTS } from '../identity/possible-chains.ts';
import { readCertificates } from '../tls/certificates.ts';
import { acceptedBy, trustOf, trustOfServer } from '../tls/node-internals.ts';

/**
 * Every certificate that can belong to the chain by which OpenSSL has accepted a client, its own first. Node does not show that chain. It
 * shows what the client has sent, in any order, and a chain that follows names without a check of signatures. So all certificates that the
 * client has sent and all CAs of the server count. An extra certificate may lock out a client; a missing one could let in a revoked one.
 *
 * @param leaf linked by `issuerCertificate` to the certificates that the client has sent.
 * @returns `undefined` if the server's CAs are not known, if none of the certificates is one of them, as in a resumed session that lacks the
 *   intermediate CAs, or if the search takes too long.
 */
export function possibleCertificates(leaf: X509Certificate, socket: TLSSocket): X509Certificate[] | undefined {
	const cas = casOf(socket);
	if (cas === undefined) return undefined;
	const all = new Map(cas);
	// Both, because a client may have sent others since, in a renegotiation.
	for (const first of [socket.getPeerX509Certificate(), leaf]) {
		for (let one = first; one; one = one.issuerCertificate) all.set(one.fingerprint256, one);
	}
	const found = new Set([leaf]);
	let attempts = 0;
	// Also visits what it adds.
	for (const one of found) {
		for (const issuer of all.values()) {
			if (found.has(issuer) || !one.checkIssued(issuer)) continue;
			if (++attempts > MAX_ATTEMPTS) return undefined;
			if (hasSigned(issuer, one)) found.add(issuer);
		}
	}
	const possible = [...found];
	return possible.some(({ fingerprint256 }) => cas.has(fingerprint256)) ? possible : undefined;
}

type Cas = ReadonlyMap<string, X509Certificate>;
/** The CAs of a server's context. A server may get another one, with other CAs, while connections are open. */
const CAS = new WeakMap<object, Cas | undefined>();

/** `undefined` if they are not known: they may be those of another context than the server's present one. */
function casOf(socket: TLSSocket): Cas | undefined {
	const context = acceptedBy(socket);
	if (context === undefined) return undefined;
	if (!CAS.has(context)) {
		const { context: present, ca } = trustOf(socket);
		if (present !== context) return undefined;
		CAS.set(context, readCas(ca));
	}
	return CAS.get(context);
}

/** Reads the CAs of the server's present context, for connections that are judged only when the server has another one. */
export function rememberCas(server: Server): void {
	const { context, ca } = trustOfServer(server);
	CAS.set(context, readCas(ca));
}

/** @param given the option `ca`. */
function readCas(given: unknown): Cas | undefined {
	if (given === undefined) return undefined;
	try {
		const cas = [given].flat().flatMap((pem) => readCertificates(Buffer.from(pem as string).toString('latin1')));
		return new Map(cas.map((ca) => [ca.fingerprint256, ca]));
	} catch {
		return undefined;
	}
}
