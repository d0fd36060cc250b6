import type { X509Certificate } from 'node:crypto';
import { authorityId, factsOf } from '@mtls-edge-proxy/gate/identity/certificate-facts.ts';
import { type ClientBundle, hasSigned, possibleChains } from '@mtls-edge-proxy/gate/identity/possible-chains.ts';
import type { RevokedCertificates } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import { type SerialMemory, SerialTable } from './serial-table.ts';

/** A CRL whose signature has been verified, as values that can be cloned. */
export interface CrlSeed {
	/** `authorityId` of the CA that has issued it. */
	readonly authority: string;
	/** The CA's name, for people. */
	readonly issuer: string;
	/** Seconds since the epoch. */
	readonly nextUpdate: number;
	/** Which of the CA's certificates it covers. */
	readonly covers: 'all' | 'users' | 'authorities';
	/** Where it is one of several lists, as `CertificateFacts.crlPoints`: only of certificates that name one of these. */
	readonly points?: readonly string[] | undefined;
	/** Serial numbers of the revoked certificates, for `SerialTable`. */
	readonly serials: SerialMemory;
}

/** What is wrong with a client's chain that OpenSSL has accepted. */
export type ChainFault = 'no fresh CRL' | 'revoked' | 'unknown CA' | 'bad certificate';

/** When and by which CAs OpenSSL has judged a client. */
export interface Admission {
	readonly bundle: ClientBundle;
	/** Wall-clock seconds since the epoch. */
	readonly seconds: number;
}

/**
 * What is revoked below the CAs of a bundle. OpenSSL's own check of CRLs is not used: it refuses every client of a CA that has no CRL,
 * or none that is fresh, and does not tell apart a client that is revoked.
 */
export class ChainRevocation {
	readonly #byIssuer = new Map<string, IssuedCrls>();
	readonly #revoked: RevokedCertificates;
	readonly #crlRequired: boolean;

	constructor(crls: readonly CrlSeed[], crlRequired: boolean, revoked: RevokedCertificates) {
		this.#revoked = revoked;
		this.#crlRequired = crlRequired;
		for (const crl of crls) {
			const known = this.#byIssuer.get(crl.authority);
			if (known === undefined) this.#byIssuer.set(crl.authority, new IssuedCrls(crl));
			else known.add(crl);
		}
	}

	/**
	 * Whether anybody is revoked in any chain that OpenSSL could have accepted, and with `crlRequired`, whether for each certificate of
	 * these chains there is a fresh CRL of its issuer. Whatever else the client has presented counts for nothing.
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
		return bundle.authorities.some(
			(ca) => this.#byIssuer.get(authorityId(ca))?.has(last) && last.checkIssued(ca) && hasSigned(ca, last),
		);
	}

	/** A CA of the bundle is the operator's own word: a CRL that covers it is not required. */
	#isCovered(chain: readonly X509Certificate[], nowSeconds: number): boolean {
		return chain.slice(0, -1).every((certificate, i) => this.#crlsAbove(chain, i)?.isFresh(certificate, nowSeconds));
	}

	#crlsAbove(chain: readonly X509Certificate[], i: number): IssuedCrls | undefined {
		const issuer = chain[i + 1];
		return issuer && this.#byIssuer.get(authorityId(issuer));
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
			({ covers, points, nextUpdate }) =>
				nowSeconds < nextUpdate &&
				covers !== others &&
				(points === undefined || factsOf(certificate).crlPoints.some((point) => points.includes(point))),
		);
	}
}
