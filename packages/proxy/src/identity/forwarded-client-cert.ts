import type { X509Certificate } from 'node:crypto';
import type { CertificateNames } from './certificate-names.ts';

/**
 * `x-forwarded-client-cert`, as Envoy writes it with SANITIZE_SET: one element, since earlier hops are not trusted. It always
 * contains `By` (if the proxy's own certificate has a URI) and `Hash`; these members are optional.
 */
export const XFCC_MEMBERS = ['cert', 'chain', 'subject', 'uri', 'dns'] as const;
export type XfccMember = (typeof XFCC_MEMBERS)[number];

interface ForwardedClientCert {
	readonly members: readonly XfccMember[];
	readonly certificate: X509Certificate;
	/** The certificates after the leaf. */
	readonly issuers: readonly X509Certificate[];
	/** `undefined` if they cannot be read. */
	readonly names: CertificateNames | undefined;
	/** URIs of the proxy's own certificate. */
	readonly ownUris: readonly string[];
}

/** The field's value. Names with other characters than visible ASCII are left out: readers decode them differently. */
export function forwardedClientCert({ members, certificate, issuers, names, ownUris }: ForwardedClientCert): string {
	const { uris = [], dns = [] } = names ?? {};
	const written: Readonly<Record<XfccMember, () => string[]>> = {
		cert: () => [`Cert="${urlEncodedPem([certificate])}"`],
		chain: () => [`Chain="${urlEncodedPem([certificate, ...issuers])}"`],
		subject: () => [`Subject="${rfc2253(certificate.subject)}"`],
		uri: () => pairs('URI', uris),
		dns: () => pairs('DNS', dns),
	};
	return [
		...pairs('By', ownUris),
		`Hash=${certificate.fingerprint256.replaceAll(':', '').toLowerCase()}`,
		// In Envoy's order, not the configuration's.
		...XFCC_MEMBERS.filter((one) => members.includes(one)).flatMap((one) => written[one]()),
	].join(';');
}

/** Quotes a value that contains a comma, a semicolon or an equals sign. Values with a quote or backslash are left out. */
function pairs(key: string, values: readonly string[]): string[] {
	const plain = values.filter((value) => /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(value));
	return plain.map((value) => `${key}=${/[,;=]/.test(value) ? `"${value}"` : value}`);
}

function urlEncodedPem(certificates: readonly X509Certificate[]): string {
	return certificates.map((one) => encodeURIComponent(one.toString())).join('');
}

/**
 * A distinguished name in one line (RFC 2253), the last attribute first. Node has one attribute a line, with escaped values.
 * Quotes, backslashes and non-ASCII bytes become pairs of hexadecimal digits: some readers of the field end the value at `\"`,
 * others do not end it at `\\"`.
 */
function rfc2253(subject: string | undefined): string {
	return (subject ?? '')
		.split('\n')
		.reverse()
		.map((line) => line.replaceAll(' + ', '+').replaceAll(/\\(["\\])/g, (_, char: string) => hexPairs(char)))
		.join(',')
		.replaceAll(/[^\x20-\x7e]+/g, hexPairs);
}

function hexPairs(text: string): string {
	return Buffer.from(text).toString('hex').toUpperCase().replaceAll(/../g, '\\$&');
}
