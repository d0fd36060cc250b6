import type { X509Certificate } from 'node:crypto';
import { type ClientBundle, possibleChains } from '@mtls-edge-proxy/gate/identity/possible-chains.ts';
import { RevokedCertificates } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import { type Admission, type ChainFault, ChainRevocation } from '../identity/client-chain.ts';
import type { ConnectionEnd } from '../memory/stats.ts';
import type { TlsMaterial } from '../shared/messages.ts';

/** What is asked of clients' certificates beyond OpenSSL's verdict: at the handshake, at their end, and at each reload. */
export class ClientPolicy {
	/** `undefined`: nothing is revoked, and no CRL is asked for. */
	readonly #revocation: ChainRevocation | undefined;
	readonly endAtExpiry: boolean;
	readonly #endAtCaRemoval: boolean;

	constructor({ clients }: Pick<TlsMaterial, 'clients'>) {
		this.endAtExpiry = clients?.endAtExpiry === true;
		this.#endAtCaRemoval = clients?.endAtCaRemoval === true;
		if (clients === undefined) return;
		const revoked = new RevokedCertificates(clients.revoked);
		if (revoked.isEmpty && clients.crls.length === 0) return;
		this.#revocation = new ChainRevocation(clients.crls, clients.crlRequired, revoked);
	}

	/**
	 * At the handshake, after OpenSSL's verdict.
	 *
	 * @param nowSeconds wall-clock time, seconds since the epoch.
	 */
	refuse(certificate: X509Certificate, admission: Admission, nowSeconds: number): ChainFault | undefined {
		return this.#revocation?.judge(certificate, admission, nowSeconds);
	}

	/** Whether a connection that is up may have to end because this policy has come into force. */
	get asksLiveConnections(): boolean {
		return this.#revocation !== undefined || this.#endAtCaRemoval;
	}

	/**
	 * Why a connection that an earlier policy has let in has to end. A CRL that is no longer fresh ends none: it says
	 * nothing new about the client. A chain that cannot be judged could have anybody in it.
	 *
	 * @param admission by which CAs, and when, the client was let in.
	 * @param bundle the CAs that are in force now.
	 */
	ends(
		certificate: X509Certificate,
		admission: Admission,
		bundle: ClientBundle,
		nowSeconds: number,
	): ConnectionEnd | undefined {
		const fault = this.#revocation?.judge(certificate, admission, nowSeconds);
		if (fault !== undefined && fault !== 'no fresh CRL') return 'revoked';
		return this.isRemoved(certificate, admission, bundle) ? 'ca_removed' : undefined;
	}

	/** Whether no chain of the client leads to the CAs that are in force now, and that matters. */
	isRemoved(certificate: X509Certificate, admission: Admission, bundle: ClientBundle): boolean {
		if (!this.#endAtCaRemoval || admission.bundle === bundle) return false;
		const chains = possibleChains(certificate, bundle, admission.seconds);
		return chains === undefined || chains.length === 0;
	}

	/** When a certificate ends its connections, wall-clock seconds; infinite: never. Only the leaf counts: CAs outlive the certificates they issue. */
	endOf(certificate: X509Certificate): number {
		return this.endAtExpiry ? certificate.validToDate.getTime() / 1000 : Number.POSITIVE_INFINITY;
	}
}
