import { createHash, type X509Certificate } from 'node:crypto';
import { canonicalSerial, type RevokedCertificates } from './revocations.ts';

/** A CRL whose signature has been verified, as values that can be cloned. */
export interface CrlSeed {
	/** `authorityId` of the CA that has issued it. */
	readonly authority: string;
	/** The CA's name, for people. */
	readonly issuer: string;
	/** Seconds since the epoch. */
	readonly nextUpdate: number;
	/** Which of the CA's certificates it speaks of. */
	readonly covers: 'all' | 'users' | 'authorities';
	/** `canonicalSerial`s. */
	readonly serials: readonly string[];
}

/** What is wrong with a client's chain. OpenSSL has judged it before: signatures, validity, purposes, constraints. */
export type ChainFault = 'no fresh CRL' | 'revoked' | 'unknown CA';

/** Tells CAs apart: by name and key, so that a CA that has been renewed is the same one. */
export function authorityId(ca: X509Certificate): string {
	const key = ca.publicKey.export({ type: 'spki', format: 'der' });
	return `${createHash('sha256').update(key).digest('base64')} ${ca.subject}`;
}

/** @returns `undefined` where the key is of a kind that OpenSSL does not know: clients may present what they like. */
function readableId(ca: X509Certificate): string | undefined {
	try {
		return authorityId(ca);
	} catch {
		return undefined;
	}
}

/**
 * The CAs that clients' chains end at, and what is revoked below them. OpenSSL's own check of CRLs is not used: it refuses every
 * client of a CA that has no CRL, or none that is fresh, and does not tell apart a client that is revoked.
 */
export class ClientAuthorities {
	readonly #bundle: readonly Authority[];
	readonly #byIssuer = new Map<string, IssuedCrls>();
	readonly #revoked: RevokedCertificates;
	readonly #crlRequired: boolean;

	constructor(
		bundle: readonly X509Certificate[],
		crls: readonly CrlSeed[],
		crlRequired: boolean,
		revoked: RevokedCertificates,
	) {
		this.#revoked = revoked;
		this.#crlRequired = crlRequired;
		for (const crl of crls) {
			const known = this.#byIssuer.get(crl.authority);
			if (known === undefined) this.#byIssuer.set(crl.authority, new IssuedCrls(crl));
			else known.add(crl);
		}
		this.#bundle = bundle.map(
			(certificate) => new Authority(certificate, this.#byIssuer.get(authorityId(certificate))),
		);
		for (const authority of this.#bundle) {
			authority.isRevoked =
				revoked.has(authority.certificate) ||
				this.#bundle.some((other) => other.crls?.has(authority.certificate) && hasIssued(other, authority.certificate));
		}
	}

	/**
	 * Whether a chain of certificates that are not revoked leads from the client's certificate to a CA of the bundle, and with
	 * `crlRequired`, whether for each of them there is a fresh CRL of its issuer. Whatever else the client has presented counts
	 * for nothing.
	 *
	 * @param nowSeconds wall-clock time, seconds since the epoch.
	 */
	judge(leaf: X509Certificate, nowSeconds: number): ChainFault | undefined {
		const presented: Authority[] = [];
		for (let next = leaf.issuerCertificate; next && presented.length < MAX_PRESENTED; next = next.issuerCertificate) {
			// What is no CA issues nothing, and what a key has signed that OpenSSL cannot read is nothing that it has let in.
			const id = next.ca ? readableId(next) : undefined;
			if (id !== undefined) presented.push(new Authority(next, this.#byIssuer.get(id)));
		}
		const fault = this.#follow(leaf, presented, nowSeconds);
		return fault === GOOD ? undefined : FAULTS[fault];
	}

	/** The best that can be said of any chain from there to the bundle. @param presented not on the way to here. */
	#follow(certificate: X509Certificate, presented: Authority[], nowSeconds: number): number {
		if (this.#revoked.has(certificate)) return REVOKED;
		let best = UNKNOWN_CA;
		for (const authority of this.#bundle) {
			if (authority.certificate.fingerprint256 === certificate.fingerprint256) {
				return authority.isRevoked ? REVOKED : GOOD;
			}
			if (!hasIssued(authority, certificate)) continue;
			const said = authority.isRevoked ? REVOKED : this.#says(authority, certificate, nowSeconds);
			best = Math.min(best, said);
			if (best === GOOD) return GOOD;
		}
		for (let i = presented.length - 1; i >= 0; i--) {
			const issuer = presented[i]!;
			if (!hasIssued(issuer, certificate)) continue;
			// Each is followed once, so that no client can make a maze of its chain.
			presented.splice(i, 1);
			const said = this.#says(issuer, certificate, nowSeconds);
			best = Math.min(best, Math.max(said, this.#follow(issuer.certificate, presented, nowSeconds)));
			if (best === GOOD) return GOOD;
			i = Math.min(i, presented.length);
		}
		return best;
	}

	#says({ crls }: Authority, certificate: X509Certificate, nowSeconds: number): number {
		if (crls?.has(certificate)) return REVOKED;
		return this.#crlRequired && !crls?.isFresh(certificate, nowSeconds) ? NO_FRESH_CRL : GOOD;
	}
}

/** OpenSSL takes up to a hundred; chains of people have two or three. */
const MAX_PRESENTED = 10;

/** From the best to the worst. */
const GOOD = 0;
const NO_FRESH_CRL = 1;
const REVOKED = 2;
const UNKNOWN_CA = 3;
const FAULTS: readonly ChainFault[] = ['no fresh CRL', 'no fresh CRL', 'revoked', 'unknown CA'];

class Authority {
	readonly certificate: X509Certificate;
	readonly crls: IssuedCrls | undefined;
	isRevoked = false;

	constructor(certificate: X509Certificate, crls: IssuedCrls | undefined) {
		this.certificate = certificate;
		this.crls = crls;
	}
}

/** The name alone does not tell: a CA that was replaced may go by the name of the one before. */
function hasIssued({ certificate: issuer }: Authority, certificate: X509Certificate): boolean {
	return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
}

/** All CRLs of one CA. */
class IssuedCrls {
	readonly #serials = new Set<string>();
	#usersUntil = 0;
	#authoritiesUntil = 0;

	constructor(crl: CrlSeed) {
		this.add(crl);
	}

	add({ serials, covers, nextUpdate }: CrlSeed): void {
		for (const serial of serials) this.#serials.add(serial);
		if (covers !== 'authorities') this.#usersUntil = Math.max(this.#usersUntil, nextUpdate);
		if (covers !== 'users') this.#authoritiesUntil = Math.max(this.#authoritiesUntil, nextUpdate);
	}

	has({ serialNumber }: X509Certificate): boolean {
		return this.#serials.has(canonicalSerial(serialNumber));
	}

	isFresh({ ca }: X509Certificate, nowSeconds: number): boolean {
		return nowSeconds < (ca ? this.#authoritiesUntil : this.#usersUntil);
	}
}
