import { X509Certificate } from 'node:crypto';
import { type ChainFault, ClientAuthorities } from '../identity/client-chain.ts';
import { RevokedCertificates } from '../identity/revocations.ts';
import { authoritiesOf } from './certificates.ts';
import type { TlsMaterial } from './messages.ts';
import type { ConnectionEnd } from './stats.ts';

/** What is asked of clients' certificates beyond OpenSSL's verdict: at the handshake, at their end, and at each reload. */
export class ClientPolicy {
	readonly #authorities: ClientAuthorities | undefined;
	readonly #asksRevocation: boolean;
	readonly #endAtExpiry: boolean;
	readonly #endAtCaRemoval: boolean;

	constructor({ ca, clients }: Pick<TlsMaterial, 'ca' | 'clients'>) {
		const revoked = clients && new RevokedCertificates(clients.revoked);
		this.#asksRevocation = revoked !== undefined && (!revoked.isEmpty || clients!.crls.length > 0);
		this.#endAtExpiry = clients?.endAtExpiry === true;
		this.#endAtCaRemoval = clients?.endAtCaRemoval === true;
		if (!this.asksLiveConnections) return;
		const bundle = authoritiesOf(ca).map((pem) => new X509Certificate(pem));
		this.#authorities = new ClientAuthorities(bundle, clients!.crls, clients!.crlRequired, revoked!);
	}

	/**
	 * At the handshake, behind OpenSSL's verdict.
	 *
	 * @param nowSeconds wall-clock time, seconds since the epoch.
	 */
	refuse(certificate: X509Certificate, nowSeconds: number): ChainFault | undefined {
		return this.#asksRevocation ? this.#authorities!.judge(certificate, nowSeconds) : undefined;
	}

	/** Whether a connection that is up may have to end because this policy has come into force. */
	get asksLiveConnections(): boolean {
		return this.#asksRevocation || this.#endAtCaRemoval;
	}

	/**
	 * Why a connection that an earlier policy has let in has to end. That a CRL is no longer fresh ends none: of the client
	 * nothing has become known.
	 */
	ends(certificate: X509Certificate, nowSeconds: number): ConnectionEnd | undefined {
		const fault = this.#authorities?.judge(certificate, nowSeconds);
		if (fault === 'revoked') return 'revoked';
		return fault === 'unknown CA' && this.#endAtCaRemoval ? 'ca_removed' : undefined;
	}

	/** When a certificate ends its connections, wall-clock seconds; infinite: never. Of the leaf alone: CAs outlive what they issue. */
	endOf(certificate: X509Certificate): number {
		return this.#endAtExpiry ? certificate.validToDate.getTime() / 1000 : Number.POSITIVE_INFINITY;
	}
}
