import type { X509Certificate } from 'node:crypto';
import { caId, factsOf } from '@mtls-edge-proxy/gate/identity/certificate-facts.ts';
import { type ClientBundle, hasSigned, possibleChains } from '@mtls-edge-proxy/gate/identity/possible-chains.ts';
import type { RevokedCertificates } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import { type SerialMemory, SerialTable } from './serial-table.ts';

/** A CRL whose signature has been verified, as structured-clone data. */
export interface CrlSeed {
	/** `caId` of the CA that has issued it. */
	readonly caId: string;
	/** The CA's name, for operators. */
	readonly issuer: string;
	/** Seconds since the epoch. */
	readonly thisUpdate: number;
	readonly nextUpdate: number;
	/** Which of the CA's certificates the CRL covers. */
	readonly covers: 'all' | 'users' | 'authorities';
	/** If the CRL is one of several: it covers only certificates that name one of these points (`CertificateFacts.crlPoints`). */
	readonly points?: readonly string[] | undefined;
	/** Serial numbers of the revoked certificates, for `SerialTable`. */
	readonly serials: SerialMemory;
}

/** The fault in a client's chain that OpenSSL has accepted. */
export type ChainFault = 'no fresh CRL' | 'revoked' | 'unknown CA' | 'bad certificate';

/** When OpenSSL verified a client, and against which CAs. */
export interface Admission {
	readonly bundle: ClientBundle;
	/** Wall-clock seconds since the epoch. */
	readonly seconds: number;
}

/**
 * Revocation below the CAs of a bundle. OpenSSL's own check of CRLs is not used: it refuses every client of a CA without a fresh
 * CRL, and does not distinguish these from revoked ones.
 */
export class ChainRevocation {
	readonly #byIssuer = new Map<string, IssuedCrls>();
	readonly #revoked: RevokedCertificates;
	readonly #crlRequired: boolean;

	constructor(crls: readonly CrlSeed[], crlRequired: boolean, revoked: RevokedCertificates) {
		this.#revoked = revoked;
		this.#crlRequired = crlRequired;
		for (const crl of crls) {
			const known = this.#byIssuer.get(crl.caId);
			if (known === undefined) this.#byIssuer.set(crl.caId, new IssuedCrls(crl));
			else known.add(crl);
		}
	}

	/**
	 * Whether a certificate is revoked in any chain that OpenSSL could have accepted. With `crlRequired`, also whether each
	 * certificate of these chains is covered by a fresh CRL of its issuer. Other certificates that the client has presented are
	 * ignored.
	 *
	 * @param nowSeconds wall-clock time, seconds since the epoch.
	 */
	judge(leaf: X509Certificate, { bundle, seconds }: Admission, nowSeconds: number): ChainFault | undefined {
		if (this.#revoked.has(leaf)) return 'revoked';
		const chains = possibleChains(leaf, bundle, seconds);
		if (chains === undefined) return 'bad certificate';
		if (chains.length === 0) return 'unknown CA';
		if (chains.some((chain) => this.#isRevoked(chain, bundle))) return 'revoked';
		const isCovered = !this.#crlRequired || chains.every((chain) => this.#isCovered(chain, nowSeconds));
		return isCovered ? undefined : 'no fresh CRL';
	}

	#isRevoked(chain: readonly X509Certificate[], bundle: ClientBundle): boolean {
		if (chain.some((certificate) => this.#revoked.has(certificate))) return true;
		if (chain.some((certificate, i) => this.#crlsAbove(chain, i)?.has(certificate))) return true;
		const last = chain.at(-1)!;
		return bundle.cas.some(
			(ca) => this.#byIssuer.get(caId(ca))?.has(last) && last.checkIssued(ca) && hasSigned(ca, last),
		);
	}

	/** The operator trusts the CAs of the bundle explicitly: they need no CRL that covers them. */
	#isCovered(chain: readonly X509Certificate[], nowSeconds: number): boolean {
		return chain.slice(0, -1).every((certificate, i) => this.#crlsAbove(chain, i)?.isFresh(certificate, nowSeconds));
	}

	#crlsAbove(chain: readonly X509Certificate[], i: number): IssuedCrls | undefined {
		const issuer = chain[i + 1];
		return issuer && this.#byIssuer.get(caId(issuer));
	}
}

/** All CRLs of one CA. */
class IssuedCrls {
	readonly #tables: SerialTable[] = [];
	readonly #crls: CrlSeed[] = [];

	constructor(crl: CrlSeed) {
		this.add(crl);
	}

	add(crl: CrlSeed): void {
		this.#tables.push(new SerialTable(crl.serials));
		this.#crls.push(crl);
	}

	has(certificate: X509Certificate): boolean {
		const serial = Buffer.from(factsOf(certificate).serial, 'hex');
		return this.#tables.some((table) => table.has(serial));
	}

	/** Whether a CRL that covers the certificate is fresh. */
	isFresh(certificate: X509Certificate, nowSeconds: number): boolean {
		const others = certificate.ca ? 'users' : 'authorities';
		return this.#crls.some(
			({ covers, points, thisUpdate, nextUpdate }) =>
				thisUpdate <= nowSeconds &&
				nowSeconds < nextUpdate &&
				covers !== others &&
				(points === undefined || factsOf(certificate).crlPoints.some((point) => points.includes(point))),
		);
	}
}
