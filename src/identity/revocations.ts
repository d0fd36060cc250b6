import type { X509Certificate } from 'node:crypto';
import { type Rejection, TOKEN_INVALID } from '../gates/rejection.ts';
import type { VerifiedToken } from '../gates/token-cache.ts';

/** What an operator has revoked by hand (`revoked_path`), as values that can be cloned. */
export interface RevocationList {
	/** SHA-256 of certificates' DER, upper-case hexadecimal. */
	readonly certificates: readonly string[];
	/** Certificates by their issuer's name (`canonicalName`) and serial number (`canonicalSerial`). */
	readonly serials: readonly { readonly issuer: string; readonly serial: string }[];
	/** `jti`s. */
	readonly tokens: readonly string[];
	readonly tenants: readonly string[];
}

export const NOTHING_REVOKED: RevocationList = { certificates: [], serials: [], tokens: [], tenants: [] };

const REVOKED_JTI = TOKEN_INVALID.because('revoked jti');
const REVOKED_TENANT = TOKEN_INVALID.because('revoked tenant');

/** The tokens that are refused although they would be good. */
export class RevokedTokens {
	readonly #tokens: ReadonlySet<unknown>;
	readonly #tenants: ReadonlySet<string>;

	constructor({ tokens, tenants }: RevocationList) {
		this.#tokens = new Set(tokens);
		this.#tenants = new Set(tenants);
	}

	refuse({ claims, tenant }: Pick<VerifiedToken, 'claims' | 'tenant'>): Rejection | undefined {
		if (this.#tokens.has(claims.payload.jti)) return REVOKED_JTI;
		return this.#tenants.has(tenant) ? REVOKED_TENANT : undefined;
	}
}

/** The certificates that are refused whatever a CRL says of them; a CA's among them refuses all that it has issued. */
export class RevokedCertificates {
	readonly #thumbprints: ReadonlySet<string>;
	readonly #serials: ReadonlySet<string>;

	constructor({ certificates, serials }: RevocationList) {
		this.#thumbprints = new Set(certificates);
		this.#serials = new Set(serials.map(({ issuer, serial }) => `${serial} ${issuer}`));
	}

	get isEmpty(): boolean {
		return this.#thumbprints.size === 0 && this.#serials.size === 0;
	}

	has(certificate: X509Certificate): boolean {
		if (this.#thumbprints.size > 0 && this.#thumbprints.has(certificate.fingerprint256.replaceAll(':', '')))
			return true;
		if (this.#serials.size === 0) return false;
		// Node has no empty names, whatever its types say; a client may present one behind its own certificate.
		const issuer: string | undefined = certificate.issuer;
		return this.#serials.has(`${canonicalSerial(certificate.serialNumber)} ${canonicalName(issuer ?? '')}`);
	}
}

/** SHA-256 of a certificate as people write it: with colons or without, in either case, `sha256:` before it or not. */
export const THUMBPRINT = /^(?:sha256:)?(?:[\da-f]{2}:?){31}[\da-f]{2}$/i;
/** A serial number as people write it. */
export const SERIAL = /^[\da-f]{1,2}(?::?[\da-f]{2})*$|^[\da-f]+$/i;
/** An issuer's name as people write it; see `canonicalName`. */
export const ISSUER_NAME = /^[^=]+=./s;

/** 64 hexadecimal digits in upper case. */
export function canonicalThumbprint(thumbprint: string): string {
	return thumbprint
		.replace(/^sha256:/i, '')
		.replaceAll(':', '')
		.toUpperCase();
}

/** Hexadecimal, in upper case, without leading zeros and colons. */
export function canonicalSerial(serial: string): string {
	return serial.replaceAll(':', '').toUpperCase().replace(/^0+/, '');
}

/**
 * A distinguished name, attributes in the order of the certificate, as Node has it (one a line), as our log has it (`C=DE, CN=x`)
 * or as `openssl x509 -issuer` has it (`C = DE, CN = x`).
 */
export function canonicalName(name: string): string {
	return name
		.split(/\n|(?<!\\),/)
		.map((attribute) => attribute.trim().replace(/\s*=\s*/, '='))
		.join(', ');
}
