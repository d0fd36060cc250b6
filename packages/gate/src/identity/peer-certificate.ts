import type { X509Certificate } from 'node:crypto';

/**
 * Facts about a connection's client certificate. Each is computed once, on first use, because most connections need none. The
 * certificate has already been verified (RFC 5280); nothing here decides whether it is valid.
 */
export class PeerCertificate {
	readonly x509: X509Certificate;
	#thumbprint: Buffer | undefined;

	constructor(x509: X509Certificate) {
		this.x509 = x509;
	}

	/** SHA-256 of the DER encoding, 32 bytes. */
	get thumbprint(): Buffer {
		this.#thumbprint ??= Buffer.from(this.x509.fingerprint256.replaceAll(':', ''), 'hex');
		return this.#thumbprint;
	}
}
