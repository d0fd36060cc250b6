import { X509Certificate } from 'node:crypto';

/**
 * The CAs of a bundle, one PEM text each. Any other certificate in it is no CA of anybody, and must not become the end of a
 * chain: it would let in who has its key.
 */
export function authoritiesOf(bundle: string): string[] {
	return readCertificates(bundle, 'the CA bundle')
		.filter((certificate) => certificate.ca)
		.map((certificate) => certificate.toString());
}

/** All certificates of a PEM text, at least one. Text between the blocks is allowed, as `openssl x509 -text` writes it. */
export function readCertificates(pem: string, name: string): X509Certificate[] {
	const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
	const begun = pem.match(/-----BEGIN CERTIFICATE-----/g)?.length ?? 0;
	if (begun === 0) throw new Error(`${name}: holds no PEM certificate ("BEGIN CERTIFICATE")`);
	if (blocks.length < begun) throw new Error(`${name}: a certificate in it is cut off or damaged; write the file anew`);
	return blocks.map((block, i) => {
		try {
			return new X509Certificate(block);
		} catch {
			throw new Error(`${name}: ${nth(i)} is not readable; write the file anew`);
		}
	});
}

/** @param index from 0. */
export function nth(index: number): string {
	return `certificate ${index + 1}`;
}
