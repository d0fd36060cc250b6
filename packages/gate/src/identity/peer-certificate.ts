import type { X509Certificate } from 'node:crypto';

/**
 * What one connection's client certificate says, each fact worked out when it is first asked for, and once: most connections need none
 * of them. The certificate has been judged before (RFC 5280); nothing here decides whether it is good.
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
