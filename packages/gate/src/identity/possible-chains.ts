import type { X509Certificate } from 'node:crypto';
import { factsOf } from './certificate-facts.ts';
import { nameKey } from './distinguished-name.ts';

/** The CAs of one configuration at which clients' chains may end. */
export interface ClientBundle {
	readonly cas: readonly X509Certificate[];
}

/**
 * Every chain that OpenSSL could have accepted for a client, leaf first, the CA of the bundle last. OpenSSL has accepted one of them,
 * but Node does not say which. An extra chain may lock out a client; a missing chain could let in a revoked one. So each link gets
 * the checks of OpenSSL, and a check that is impossible here (name constraints, policies) counts as passed.
 *
 * A client may present several certificates of one CA. OpenSSL looks for an issuer in the bundle first, and among the client's
 * certificates only if the bundle has none of that name (X509_V_FLAG_TRUSTED_FIRST). The chain ends at the first CA of the bundle
 * (X509_V_FLAG_PARTIAL_CHAIN).
 *
 * @param leaf linked by `issuerCertificate` to the certificates that the client has presented.
 * @param seconds when OpenSSL verified the client, wall-clock seconds since the epoch.
 * @returns `undefined` if the client has presented so many certificates that the search takes too long.
 */
export function possibleChains(
	leaf: X509Certificate,
	bundle: ClientBundle,
	seconds: number,
): readonly (readonly X509Certificate[])[] | undefined {
	const search = new Search(leaf, bundle, seconds);
	return search.follow([leaf]) ? search.chains : undefined;
}

/**
 * Limit on tried links to certificates from the client. A normal chain has two or three; a maze, or many certificates with the name of
 * one CA, is deliberate.
 */
export const MAX_ATTEMPTS = 32;

/** Seconds. OpenSSL verified the client a moment before, and clocks of whole seconds may differ by one. */
const MOMENT = 60;

class Search {
	readonly chains: (readonly X509Certificate[])[] = [];
	readonly #bundle: ClientBundle;
	readonly #seconds: number;
	readonly #presented: X509Certificate[] = [];
	#attempts = 0;

	constructor(leaf: X509Certificate, bundle: ClientBundle, seconds: number) {
		this.#bundle = bundle;
		this.#seconds = seconds;
		for (let next = leaf.issuerCertificate; next; next = next.issuerCertificate) this.#presented.push(next);
	}

	/** @returns `false` after too many attempts. */
	follow(path: readonly X509Certificate[]): boolean {
		const top = path.at(-1)!;
		const trusted = this.#bundle.cas.filter((ca) => top.checkIssued(ca));
		for (const ca of trusted) {
			if (isSame(ca, top)) this.chains.push(path);
			else if (this.#accepts(ca, path)) this.chains.push([...path, ca]);
		}
		if (trusted.length > 0) return true;
		if (this.#bundle.cas.some((ca) => isSame(ca, top))) this.chains.push(path);
		for (const issuer of this.#presented) {
			if (!top.checkIssued(issuer) || path.some((one) => isSame(one, issuer))) continue;
			if (++this.#attempts > MAX_ATTEMPTS) return false;
			if (!mayIssue(issuer) || !this.#accepts(issuer, path)) continue;
			if (!this.follow([...path, issuer])) return false;
		}
		return true;
	}

	#accepts(issuer: X509Certificate, path: readonly X509Certificate[]): boolean {
		const from = issuer.validFromDate.getTime() / 1000;
		const to = issuer.validToDate.getTime() / 1000;
		if (from > this.#seconds || to < this.#seconds - MOMENT) return false;
		const { basicConstraints } = factsOf(issuer);
		if (basicConstraints !== undefined && intermediatesIn(path) > basicConstraints.pathLength) return false;
		return hasSigned(issuer, path.at(-1)!);
	}
}

function isSame(a: X509Certificate, b: X509Certificate): boolean {
	return a === b || a.fingerprint256 === b.fingerprint256;
}

/** OpenSSL may accept a CA certificate without basic constraints. `checkIssued` has already checked the key usage. */
function mayIssue(issuer: X509Certificate): boolean {
	if (factsOf(issuer).basicConstraints?.isCa === false) return false;
	// In Node, `keyUsage` is the extended key usage.
	const purposes: readonly string[] | undefined = issuer.keyUsage;
	return purposes === undefined || purposes.includes(CLIENT_AUTH) || purposes.includes(ANY_PURPOSE);
}

const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';
const ANY_PURPOSE = '2.5.29.37.0';

/** Certificates that count for the path length: neither the leaf nor self-issued ones (RFC 5280 section 4.2.1.9). */
function intermediatesIn(path: readonly X509Certificate[]): number {
	return path.slice(1).filter((one) => nameKey(factsOf(one).subject) !== nameKey(factsOf(one).issuer)).length;
}

/** `false` for a key that OpenSSL cannot read: a client may present anything. */
export function hasSigned(issuer: X509Certificate, certificate: X509Certificate): boolean {
	try {
		return certificate.verify(issuer.publicKey);
	} catch {
		return false;
	}
}
