import { X509Certificate } from 'node:crypto';
import { type PemBlock, readPem } from '../gates/pem.ts';

/**
 * The CAs of a bundle, one PEM text each. Other certificates are left out, because no chain may end at them: that would admit the
 * holder of the key.
 */
export function casOf(bundle: string): string[] {
	return readCertificates(bundle)
		.filter((certificate) => certificate.ca)
		.map((certificate) => certificate.toString());
}

/**
 * All certificates of a PEM text, at least one. Other blocks are allowed, such as the key of a file that holds
 * both, and text, as `openssl x509 -text` writes it.
 *
 * @throws Error with the fault and the remedy; it never quotes the text.
 */
export function readCertificates(pem: string): X509Certificate[] {
	const all = readBlocks(pem);
	const others = all.find(({ label }) => OTHER_CERTIFICATES.test(label));
	// OpenSSL reads some of these in some places and skips them in others; a certificate must not be lost that way.
	if (others !== undefined) {
		throw new Error(
			`contains a block "${others.label}" on line ${others.line}; write it as "CERTIFICATE" (openssl x509 -in FILE -out FILE)`,
		);
	}
	const blocks = all.filter(({ label }) => label === 'CERTIFICATE');
	if (blocks.length === 0) throw new Error('contains no PEM certificate ("BEGIN CERTIFICATE")');
	return blocks.map(({ text }, i) => {
		try {
			return new X509Certificate(text);
		} catch {
			throw new Error(`${nth(i)} is not readable; replace the file`);
		}
	});
}

/**
 * The blocks of a PEM text.
 *
 * @throws Error that names the damaged part and the remedy.
 */
export function readBlocks(pem: string): PemBlock[] {
	const blocks = readPem(pem);
	if (typeof blocks === 'string') throw new Error(blocks);
	return blocks;
}

export function isPrivateKey({ label }: PemBlock): boolean {
	return label.endsWith('PRIVATE KEY');
}

/** @param index from 0. */
export function nth(index: number): string {
	return `certificate ${index + 1}`;
}

/** "TRUSTED CERTIFICATE" (with OpenSSL's own trust settings), "X509 CERTIFICATE" (before 1998), and whole bundles. */
const OTHER_CERTIFICATES = /. CERTIFICATE$|^PKCS ?#?7|^CMS$/;
