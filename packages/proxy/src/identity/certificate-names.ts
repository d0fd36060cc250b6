import type { X509Certificate } from 'node:crypto';
import { loadX509 } from './x509.ts';

/** Names as the certificate spells them, of any form. */
export interface CertificateNames {
	/** Subject alternative names of type URI. */
	readonly uris: readonly string[];
	/** Subject alternative names of type DNS. */
	readonly dns: readonly string[];
	/** All common names of the subject. */
	readonly commonNames: readonly string[];
}

/** @returns `undefined` if the certificate is unreadable or ambiguous. */
export type NameReader = (certificate: X509Certificate) => CertificateNames | undefined;

/**
 * A library reads the names from the DER. Node's own `subjectAltName` joins all names in one string, in which one name can look
 * like another (CVE-2021-44532, CVE-2021-44533).
 */
export async function loadNameReader(): Promise<NameReader> {
	const x509 = await loadX509();
	return ({ raw }) => {
		try {
			const certificate = new x509.X509Certificate(raw);
			// RFC 5280 section 4.2: one extension of a kind. Of two, readers would pick different ones.
			const [extension, second] = certificate.getExtensions(SUBJECT_ALT_NAME);
			if (second !== undefined) return undefined;
			const commonNames = certificate.subjectName.getField(COMMON_NAME);
			if (extension === undefined) return { uris: [], dns: [], commonNames };
			if (!(extension instanceof x509.SubjectAlternativeNameExtension)) return undefined;
			const names = extension.names.items;
			const valuesOf = (wanted: string) => names.filter(({ type }) => type === wanted).map(({ value }) => value);
			return { uris: valuesOf('url'), dns: valuesOf('dns'), commonNames };
		} catch {
			return undefined;
		}
	};
}

/** RFC 5280 section 4.2.1.6 and appendix A.1. */
const SUBJECT_ALT_NAME = '2.5.29.17';
const COMMON_NAME = '2.5.4.3';
