import type { X509Certificate } from 'node:crypto';
import { inOneLine } from '@mtls-edge-proxy/gate/identity/distinguished-name.ts';
import { readCertificates } from '@mtls-edge-proxy/gate/tls/certificates.ts';
import type { CrlSeed } from '../../identity/client-chain.ts';
import type { TlsMaterial, UpstreamTlsSeed } from '../../shared/messages.ts';

/** TLS material that expires, for metrics and the status page. */

export const EXPIRING_KINDS = ['server', 'server_chain', 'client_ca', 'crl', 'upstream_client', 'upstream_ca'] as const;

export interface Expiring {
	/**
	 * The server's certificate, the others of its chain, each CA of the clients' bundle, or a CA's CRL; the certificates presented
	 * to upstreams, or the CAs that verify upstreams.
	 */
	readonly kind: (typeof EXPIRING_KINDS)[number];
	/** Distinguished name in one line; for a CRL, the name of its CA. */
	readonly subject: string;
	/** Hexadecimal; tells certificates of one name apart. Empty for a CRL. */
	readonly serial: string;
	/** `notAfter`, for a CRL `nextUpdate`: seconds since the epoch. */
	readonly expiresSeconds: number;
}

/** Everything in the listener's material that expires; computed once. No two entries have the same kind, subject and serial. */
export function expiringOf(material: TlsMaterial): readonly Expiring[] {
	return once(material, () => {
		const { cert, ca, clients } = material;
		return [
			...distinct([
				...ofBundle('server', cert).map((one, i) => (i === 0 ? one : { ...one, kind: 'server_chain' as const })),
				...ofBundle('client_ca', ca),
			]),
			...ofCrls(clients?.crls ?? []),
		];
	});
}

/** The same for TLS to upstreams. */
export function expiringOfUpstreams(upstreams: readonly UpstreamTlsSeed[]): readonly Expiring[] {
	return once(upstreams, () =>
		distinct(
			upstreams.flatMap(({ cert, ca }) => [
				...(cert === undefined ? [] : ofBundle('upstream_client', cert)),
				...(ca === undefined ? [] : ofBundle('upstream_ca', ca)),
			]),
		),
	);
}

function once(material: object, list: () => readonly Expiring[]): readonly Expiring[] {
	const known = KNOWN.get(material) ?? list();
	KNOWN.set(material, known);
	return known;
}

const KNOWN = new WeakMap<object, readonly Expiring[]>();

function ofBundle(kind: Expiring['kind'], pem: string): Expiring[] {
	return readCertificates(pem).map((certificate) => ofCertificate(kind, certificate));
}

function distinct(all: readonly Expiring[]): Expiring[] {
	return [...new Map(all.map((one) => [JSON.stringify([one.kind, one.subject, one.serial]), one])).values()];
}

function ofCrls(crls: readonly CrlSeed[]): Expiring[] {
	return Array.from(
		crlsDue(crls, ({ caId }) => caId),
		([issuer, expiresSeconds]) => {
			return { kind: 'crl', subject: inOneLine(issuer), serial: '', expiresSeconds };
		},
	);
}

/**
 * When the next CRL is due, by name of the CA. If CAs share a name, because one was renewed with another key, the one whose CRL is
 * due first represents both.
 *
 * @param keyOf of CRLs with the same key, the freshest counts, as it does at a handshake. By default: of a CA, for the same certificates.
 */
export function crlsDue(crls: readonly CrlSeed[], keyOf = coverageOf): ReadonlyMap<string, number> {
	const freshest = new Map<string, CrlSeed>();
	for (const crl of crls) {
		const key = keyOf(crl);
		if ((freshest.get(key)?.nextUpdate ?? Number.NEGATIVE_INFINITY) < crl.nextUpdate) freshest.set(key, crl);
	}
	const due = new Map<string, number>();
	for (const { issuer, nextUpdate } of freshest.values()) {
		due.set(issuer, Math.min(nextUpdate, due.get(issuer) ?? Number.POSITIVE_INFINITY));
	}
	return due;
}

function coverageOf({ caId, covers, points }: CrlSeed): string {
	return JSON.stringify([caId, covers, points]);
}

function ofCertificate(kind: Expiring['kind'], certificate: X509Certificate): Expiring {
	return {
		kind,
		subject: inOneLine(certificate.subject ?? ''),
		serial: certificate.serialNumber.toLowerCase(),
		expiresSeconds: certificate.validToDate.getTime() / 1000,
	};
}
