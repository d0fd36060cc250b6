import type { X509Certificate } from 'node:crypto';
import { type ClientBundle, possibleChains } from '@mtls-edge-proxy/gate/identity/possible-chains.ts';
import { RevokedCertificates } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import { type Admission, type ChainFault, ChainRevocation } from '../identity/client-chain.ts';
import type { ConnectionEnd } from '../memory/worker-stats.ts';
import type { TlsMaterial } from '../shared/messages.ts';

/** What clients' certificates must satisfy beyond OpenSSL's verdict: at the handshake, at expiry, and at each reload. */
export class ClientPolicy {
	/** `undefined`: nothing is revoked, and no CRL is required. */
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
	 * Called at the handshake, after OpenSSL's verdict.
	 *
	 * @param nowSeconds wall-clock time, seconds since the epoch.
	 */
	refuse(certificate: X509Certificate, admission: Admission, nowSeconds: number): ChainFault | undefined {
		return this.#revocation?.judge(certificate, admission, nowSeconds);
	}

	/** Whether this policy can end live connections when it takes effect. */
	get asksLiveConnections(): boolean {
		return this.#revocation !== undefined || this.#endAtCaRemoval;
	}

	/**
	 * Why a connection that an earlier policy admitted must end. A stale CRL ends no connection: it says nothing new about the
	 * client. A chain that cannot be judged does, since it may contain a revoked certificate.
	 *
	 * @param admission when the client was admitted, and by which CAs.
	 * @param bundle the current CAs.
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

	/** Whether CA removal ends connections, and no chain of the client leads to a current CA. */
	isRemoved(certificate: X509Certificate, admission: Admission, bundle: ClientBundle): boolean {
		if (!this.#endAtCaRemoval || admission.bundle === bundle) return false;
		const chains = possibleChains(certificate, bundle, admission.seconds);
		return chains === undefined || chains.length === 0;
	}

	/**
	 * When a certificate ends its connections, wall-clock seconds; infinite: never. Only the leaf counts: CAs outlive the
	 * certificates that they issue.
	 */
	endOf(certificate: X509Certificate): number {
		return this.endAtExpiry ? certificate.validToDate.getTime() / 1000 : Number.POSITIVE_INFINITY;
	}
}
