import { createPrivateKey, type KeyObject, type X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { nth, readCertificates } from './certificates.ts';
import type { TlsMaterial } from './messages.ts';
import { secureContextOptions } from './tls-options.ts';

/**
 * Judges the PEM texts of a TLS identity and its CA bundle before any listener sees them (decisions "TLS"). Nothing of
 * their content ever gets into a message: names, positions and remedies only.
 */

/** What messages call the three texts: a configuration key and the file, or a variable. */
export type TlsNames = Readonly<Record<'cert' | 'key' | 'ca', string>>;

/**
 * @throws Error naming the text that is to blame and the remedy: unreadable or missing certificates, an unreadable or
 *   encrypted key, a key that belongs to another certificate, a bundle without a CA, or what OpenSSL refuses.
 */
export function validateTlsMaterial(material: TlsMaterial, names: TlsNames): void {
	const chain = readCertificates(material.cert, names.cert);
	const key = readPrivateKey(material.key, names.key);
	checkKeyFits(chain, key, names);
	const authorities = readCertificates(material.ca, names.ca);
	if (!authorities.some((certificate) => certificate.ca)) {
		throw new Error(
			`${names.ca}: holds no CA certificate (basicConstraints CA:TRUE); give the CA that issues the clients`,
		);
	}
	try {
		createSecureContext(secureContextOptions(material));
	} catch (error) {
		// What is left is policy: a key that is too short, a digest that is too weak.
		throw new Error(`${names.cert}, ${names.key}, ${names.ca}: refused by OpenSSL: ${opensslReason(error)}`);
	}
}

/**
 * What a listener can live with and its operator should know: validity, and an order that some clients will not accept.
 *
 * @param material that `validateTlsMaterial` has passed.
 */
export function tlsWarnings(material: TlsMaterial, names: TlsNames, now: Date): string[] {
	const chain = readCertificates(material.cert, names.cert);
	const authorities = readCertificates(material.ca, names.ca);
	const warnings = [
		...chain.flatMap((certificate, i) => validityWarning(certificate, i === 0 ? 'the leaf' : nth(i), names.cert, now)),
		...authorities.flatMap((certificate, i) => [
			...validityWarning(certificate, nth(i), names.ca, now),
			...(certificate.ca ? [] : [`${names.ca}: ${nth(i)} is no CA (basicConstraints CA:TRUE) and counts for nothing`]),
		]),
	];
	const stray = chain.findIndex((certificate, i) => i > 0 && !chain[i - 1]!.checkIssued(certificate));
	if (stray !== -1) {
		warnings.push(
			`${names.cert}: ${nth(stray)} did not issue the one before it; give the leaf, then each issuer in turn`,
		);
	}
	return warnings;
}

function readPrivateKey(pem: string, name: string): KeyObject {
	if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(pem)) {
		throw new Error(
			`${name}: the key is encrypted and nobody is here to type a pass phrase; decrypt it (openssl pkey)`,
		);
	}
	if (!/-----BEGIN (?:RSA |EC )?PRIVATE KEY-----/.test(pem)) {
		throw new Error(`${name}: holds no PEM private key (PKCS#8, PKCS#1 or SEC1)`);
	}
	try {
		return createPrivateKey(pem);
	} catch {
		throw new Error(`${name}: the private key is not readable; write the file anew`);
	}
}

function checkKeyFits([leaf, ...issuers]: readonly X509Certificate[], key: KeyObject, names: TlsNames): void {
	if (leaf!.checkPrivateKey(key)) return;
	const remedy = issuers.some((certificate) => certificate.checkPrivateKey(key))
		? 'it fits a later certificate of the file: the leaf comes first, then its issuers'
		: 'give the key that this certificate was issued for';
	throw new Error(`${names.key}: the key does not fit the first certificate of ${names.cert}; ${remedy}`);
}

function validityWarning(certificate: X509Certificate, which: string, name: string, now: Date): string[] {
	const { validFromDate, validToDate } = certificate;
	if (now > validToDate) return [`${name}: ${which} expired on ${validToDate.toISOString()}; renew it`];
	if (now < validFromDate) return [`${name}: ${which} is not valid before ${validFromDate.toISOString()}`];
	return [];
}

/** OpenSSL's own words, as "ee key too small"; they name rules, never data. */
function opensslReason(error: unknown): string {
	const { reason, code } = error as { reason?: string; code?: string };
	return reason ?? code ?? 'no reason given';
}
