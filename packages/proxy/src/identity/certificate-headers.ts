import type { X509Certificate } from 'node:crypto';
import type { CertificateNames, NameReader } from './certificate-names.ts';
import { forwardedClientCert, type XfccMember } from './forwarded-client-cert.ts';

/** The fields that tell a route's upstream about the client's certificate. */
export interface CertificateHeadersSeed {
	/** `Client-Cert`, and with `chain` also `Client-Cert-Chain` (RFC 9440). */
	readonly clientCert: 'none' | 'leaf' | 'chain';
	/** Members of `x-forwarded-client-cert`; `undefined`: no such field. */
	readonly xfcc: readonly XfccMember[] | undefined;
}

/** A client's certificate and its names. */
export interface CertificateSource {
	readonly certificate: X509Certificate;
	/** @returns `undefined` if the names cannot be read. */
	names(read: NameReader): CertificateNames | undefined;
}

/** The header lines about a client's certificate, in the form for the upstream of one route. */
export class CertificateHeaders {
	/** Equal for all routes that write the same lines. */
	readonly key: string;
	readonly #seed: CertificateHeadersSeed;
	readonly #read: NameReader | undefined;

	/** @param read for seeds with `xfcc`. */
	constructor(seed: CertificateHeadersSeed, read: NameReader | undefined) {
		this.key = JSON.stringify([seed.clientCert, seed.xfcc]);
		this.#seed = seed;
		this.#read = read;
	}

	/**
	 * @param own the proxy's own certificate.
	 * @returns lines, each ended by CRLF.
	 */
	write(client: CertificateSource, own: () => X509Certificate | undefined): string {
		const { clientCert, xfcc } = this.#seed;
		const { certificate } = client;
		const needsChain = clientCert === 'chain' || xfcc?.includes('chain');
		const issuers = needsChain ? presentedIssuers(certificate) : [];
		let lines = clientCert === 'none' ? '' : `client-cert: ${byteSequence(certificate)}\r\n`;
		if (clientCert === 'chain' && issuers.length > 0) {
			lines += `client-cert-chain: ${issuers.map(byteSequence).join(', ')}\r\n`;
		}
		if (xfcc !== undefined) {
			const read = this.#read!;
			const ownCertificate = own();
			const value = forwardedClientCert({
				members: xfcc,
				certificate,
				issuers,
				names: client.names(read),
				ownUris: (ownCertificate && read(ownCertificate)?.uris) ?? [],
			});
			lines += `x-forwarded-client-cert: ${value}\r\n`;
		}
		return lines;
	}
}

/**
 * The other certificates that the client has sent, in its order, as long as each has signed the one before it. They are not
 * verified: OpenSSL may have accepted another chain, and Node does not expose which one.
 */
function presentedIssuers(leaf: X509Certificate): X509Certificate[] {
	const issuers: X509Certificate[] = [];
	let size = 0;
	let last = leaf;
	while (issuers.length < MAX_ISSUERS) {
		const next = last.issuerCertificate;
		if (next === undefined || !isIssuedBy(last, next)) break;
		size += next.raw.length;
		if (size > MAX_ISSUER_BYTES) break;
		issuers.push(next);
		last = next;
	}
	return issuers;
}

/** Bounds, since these certificates go out with each request. Real chains are a quarter as long. */
const MAX_ISSUERS = 8;
/** Of DER. */
const MAX_ISSUER_BYTES = 16_384;

function isIssuedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
	try {
		return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
	} catch {
		// A key of a kind that OpenSSL does not know.
		return false;
	}
}

/** RFC 9440 section 2.1: a Byte Sequence (RFC 8941 section 3.3.5) of the DER. */
function byteSequence({ raw }: X509Certificate): string {
	return `:${raw.toString('base64')}:`;
}
