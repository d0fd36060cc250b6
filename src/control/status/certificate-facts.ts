import type { X509Certificate } from 'node:crypto';
import { readCertificates } from '../../shared/certificates.ts';
import type { TlsMaterial } from '../../shared/messages.ts';
import type { CertificateFacts } from './facts.ts';

/** What is in force ends at some time: the server's chain, the CAs of clients, CRLs. Read once for each material. */
export function readCertificateFacts(tls: TlsMaterial): readonly CertificateFacts[] {
	let facts = known.get(tls);
	if (facts === undefined) {
		facts = factsOf(tls);
		known.set(tls, facts);
	}
	return facts;
}

const known = new WeakMap<TlsMaterial, readonly CertificateFacts[]>();

function factsOf({ cert, ca, clients }: TlsMaterial): CertificateFacts[] {
	const [leaf, ...issuers] = readCertificates(cert);
	const authorities = readCertificates(ca).filter((certificate) => certificate.ca);
	return [
		factOf('server', leaf!),
		...issuers.map((certificate) => factOf('server chain', certificate)),
		...authorities.map((certificate) => factOf('client CA', certificate)),
		// Of several CRLs of one CA the freshest one counts, as it does at a handshake.
		...Array.from(
			Map.groupBy(clients?.crls ?? [], ({ issuer }) => issuer),
			([issuer, crls]) => ({
				use: 'CRL' as const,
				subject: issuer,
				notAfterMs: Math.max(...crls.map(({ nextUpdate }) => nextUpdate)) * 1000,
			}),
		),
	];
}

function factOf(use: CertificateFacts['use'], { subject, validToDate }: X509Certificate): CertificateFacts {
	// Node writes one part of a name on each line.
	return { use, subject: subject?.replaceAll('\n', ', ') ?? '(no subject)', notAfterMs: validToDate.getTime() };
}
