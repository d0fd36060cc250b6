import type { X509Certificate } from 'node:crypto';
import type { CertificateNames } from './certificate-names.ts';

/**
 * `x-forwarded-client-cert`, as Envoy writes it with SANITIZE_SET: one element, since what came before us is not believed. `By`
 * (where the proxy's own certificate has a URI) and `Hash` are always in it; these are in it on request.
 */
export const XFCC_MEMBERS = ['cert', 'chain', 'subject', 'uri', 'dns'] as const;
export type XfccMember = (typeof XFCC_MEMBERS)[number];

export interface ForwardedClientCert {
	readonly members: readonly XfccMember[];
	readonly certificate: X509Certificate;
	/** After the leaf. */
	readonly issuers: readonly X509Certificate[];
	/** `undefined` if they cannot be read. */
	readonly names: CertificateNames | undefined;
	/** URIs of the proxy's own certificate. */
	readonly ownUris: readonly string[];
}

/** The field's value. Names that are not of visible ASCII are left out: readers would not agree on what they are. */
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
		// In Envoy's order, whatever the configuration's.
		...XFCC_MEMBERS.filter((one) => members.includes(one)).flatMap((one) => written[one]()),
	].join(';');
}

/** A value with a comma, a semicolon or an equals sign is quoted, and a quote in it escaped. */
function pairs(key: string, values: readonly string[]): string[] {
	const plain = values.filter((value) => /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(value));
	return plain.map((value) => `${key}=${/[,;=]/.test(value) ? `"${value}"` : value}`);
}

function urlEncodedPem(certificates: readonly X509Certificate[]): string {
	return certificates.map((one) => encodeURIComponent(one.toString())).join('');
}

/**
 * A distinguished name in one line (RFC 2253), the last attribute first. Node has them in several lines, with the values already
 * escaped. Quotes, backslashes and non-ASCII bytes become pairs of hexadecimal digits: some readers of the field take `\"`
 * for the end of the value, and others `\\"` for no end.
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
