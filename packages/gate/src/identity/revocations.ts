import type { X509Certificate } from 'node:crypto';
import { type Rejection, TOKEN_INVALID } from '../gates/rejection.ts';
import type { VerifiedToken } from '../gates/token-cache.ts';
import { factsOf } from './certificate-facts.ts';
import { eitherWayKey, readName } from './distinguished-name.ts';
import { readNameText } from './name-text.ts';

/** The operator's revocations (`revoked_path`), as values that can be cloned. */
export interface RevocationList {
	/** SHA-256 of certificates' DER, upper-case hexadecimal. */
	readonly certificates: readonly string[];
	/** Certificates by their issuer's name (`issuerKey`) and serial number (`canonicalSerial`). */
	readonly serials: readonly { readonly issuer: string; readonly serial: string }[];
	/** `jti`s. */
	readonly tokens: readonly string[];
	readonly tenants: readonly string[];
}

export const NOTHING_REVOKED: RevocationList = { certificates: [], serials: [], tokens: [], tenants: [] };

const REVOKED_JTI = TOKEN_INVALID.because('revoked jti');
const REVOKED_TENANT = TOKEN_INVALID.because('revoked tenant');

/** Tokens that are refused although they are otherwise valid. */
export class RevokedTokens {
	readonly #tokens: ReadonlySet<unknown>;
	readonly #tenants: ReadonlySet<string>;

	constructor({ tokens, tenants }: RevocationList) {
		// A `jti` should be a string (RFC 7519 section 4.1.7), but some issuers use numbers.
		this.#tokens = new Set([...tokens, ...tokens.filter((jti) => NUMBER.test(jti)).map(Number)]);
		this.#tenants = new Set(tenants);
	}

	refuse({ claims, tenant }: Pick<VerifiedToken, 'claims' | 'tenant'>): Rejection | undefined {
		if (this.#tokens.has(claims.payload.jti)) return REVOKED_JTI;
		return this.#tenants.has(tenant) ? REVOKED_TENANT : undefined;
	}
}

/** RFC 8259 section 6. */
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d+)?$/i;

/** Certificates that are refused whatever a CRL says. If one belongs to a CA, all certificates that the CA has issued are refused. */
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
		const { issuer, serial: octets } = factsOf(certificate);
		const name = eitherWayKey(readName(issuer));
		return serialSpellings(octets).some((serial) => this.#serials.has(`${serial} ${name}`));
	}
}

/** SHA-256 of a certificate as people write it: in either case, with or without colons and a prefix of `sha256:`. */
export const THUMBPRINT = /^(?:sha256:)?(?:[\da-f]{2}:?){31}[\da-f]{2}$/i;
/** A serial number as people write it. */
export const SERIAL = /^-?[\da-f]{1,2}(?::?[\da-f]{2})*$|^-?[\da-f]+$/i;
/** 64 hexadecimal digits in upper case. */
export function canonicalThumbprint(thumbprint: string): string {
	return thumbprint
		.replace(/^sha256:/i, '')
		.replaceAll(':', '')
		.toUpperCase();
}

/**
 * Normalises a serial number, written as by `openssl x509 -serial` and our log (`FF` for 255, `-01` for -1) or as in DER (`00FF` and
 * `FF`): upper case, whole octets, no colons, no redundant zeros. `FF` may mean either number, and remains ambiguous.
 */
export function canonicalSerial(serial: string): string {
	const sign = serial.startsWith('-') ? '-' : '';
	const digits = inOctets(serial.replace('-', '').replaceAll(':', '').toUpperCase());
	const number = inOctets(digits.replace(/^0+(?=.)/, ''));
	const isDer = sign === '' && number.length < digits.length && isHigh(number);
	return `${sign}${isDer ? '00' : ''}${number}`;
}

/** @param serial the DER content. @returns every `canonicalSerial` that can mean it. */
function serialSpellings(serial: string): readonly string[] {
	// OpenSSL omits the zero octet before a number whose first bit is set.
	if (serial.startsWith('00') && serial.length > 2) return [serial, serial.slice(2)];
	if (!isHigh(serial)) return [serial];
	const negated = (1n << BigInt(4 * serial.length)) - BigInt(`0x${serial}`);
	return [serial, `-${inOctets(negated.toString(16).toUpperCase())}`];
}

function inOctets(digits: string): string {
	return digits.length % 2 === 0 ? digits : `0${digits}`;
}

/** Whether the first bit is set, which in DER makes a number negative. */
function isHigh(octets: string): boolean {
	return octets >= '8';
}

/**
 * One key for all spellings of an issuer's name: that of our log, and those of `openssl x509 -issuer`.
 *
 * @returns `undefined` if the text is not a name.
 */
export function issuerKey(name: string): string | undefined {
	const read = readNameText(name);
	return read && eitherWayKey(read);
}
