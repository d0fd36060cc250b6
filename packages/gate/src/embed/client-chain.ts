import { X509Certificate } from 'node:crypto';
import type { DetailedPeerCertificate, TLSSocket } from 'node:tls';
import { hasSigned, MAX_ATTEMPTS } from '../identity/possible-chains.ts';
import { readCertificates } from '../tls/certificates.ts';
import { serverOf } from '../tls/node-internals.ts';

/**
 * Every certificate that can belong to the chain by which OpenSSL has accepted a client, its own first. Node shows two chains, and neither
 * is the accepted one. The first is what the client has sent, in any order. The second follows names without a check of signatures,
 * so a client can hide a CA of the server behind a certificate of that name. An extra certificate may lock out a client; a missing one
 * could let in a revoked one.
 *
 * @param leaf linked by `issuerCertificate` to the certificates that the client has sent.
 * @returns `undefined` if none is a CA of the server, as in a resumed session that lacks the intermediate CAs, or if the search takes too
 *   long.
 */
export function possibleCertificates(leaf: X509Certificate, socket: TLSSocket): X509Certificate[] | undefined {
	const sent = new Map<string, X509Certificate>();
	// Both, because a client may have sent others since, in a renegotiation.
	for (const first of [socket.getPeerX509Certificate(), leaf]) {
		for (let one = first; one; one = one.issuerCertificate) sent.set(one.fingerprint256, one);
	}
	const trusted = new Map(casOf(socket).map((ca) => [ca.fingerprint256, ca]));
	for (const { fingerprint256, raw } of shownBy(socket)) {
		// Whatever the client has not sent comes from the server's CAs.
		if (!sent.has(fingerprint256)) trusted.set(fingerprint256, new X509Certificate(raw));
	}
	const all = [...new Map([...trusted, ...sent]).values()];
	const found = new Set([leaf]);
	let attempts = 0;
	// Also visits what it adds.
	for (const one of found) {
		for (const issuer of all) {
			if (found.has(issuer) || !one.checkIssued(issuer)) continue;
			if (++attempts > MAX_ATTEMPTS) return undefined;
			if (hasSigned(issuer, one)) found.add(issuer);
		}
	}
	const possible = [...found];
	return possible.some(({ fingerprint256 }) => trusted.has(fingerprint256)) ? possible : undefined;
}

/** The client's chain as Node completes it. */
function shownBy(socket: TLSSocket): Iterable<DetailedPeerCertificate> {
	const shown = new Set<DetailedPeerCertificate>();
	let next: DetailedPeerCertificate | null = socket.getPeerCertificate(true);
	// The last one is its own issuer, or has none.
	for (; next?.raw !== undefined && !shown.has(next); next = next.issuerCertificate) shown.add(next);
	return shown;
}

/** The server's option `ca`. */
function casOf(socket: TLSSocket): readonly X509Certificate[] {
	const server = serverOf(socket);
	if (server?.ca === undefined) return [];
	let read = CAS.get(server);
	if (read?.given !== server.ca) {
		read = { given: server.ca, cas: readCas(server.ca) };
		CAS.set(server, read);
	}
	return read!.cas;
}

const CAS = new WeakMap<object, { readonly given: unknown; readonly cas: readonly X509Certificate[] }>();

function readCas(given: unknown): X509Certificate[] {
	try {
		return [given].flat().flatMap((pem) => readCertificates(Buffer.from(pem as string).toString('latin1')));
	} catch {
		// Those that Node itself adds to a chain are found nevertheless.
		return [];
	}
}
