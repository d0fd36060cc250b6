/**
 * Development certificates: authorities, chains and leaves for `proxy init`, `proxy demo` and for the tests. Never for production:
 * nothing here keeps an authority's key safe, revokes or renews.
 *
 * Keys are ECDSA P-256, signatures ECDSA with SHA-256. Validity is an argument, because tests need certificates that
 * have expired or are not yet valid.
 */
import { createPrivateKey, KeyObject, randomBytes, webcrypto } from 'node:crypto';
import { isIP } from 'node:net';
import type { Extension, X509Certificate } from '@peculiar/x509';
import { loadX509 } from '../../identity/x509.ts';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256' };

/** The validity of a certificate (RFC 5280 section 4.1.2.5, whole seconds). */
export interface Validity {
	readonly notBefore: Date;
	readonly notAfter: Date;
}

/** Other clocks, such as those of a container, may lag behind this one. */
export const CLOCK_SKEW_MS = 5 * 60_000;
const DAY_MS = 86_400_000;

/** @param now milliseconds since the epoch. */
export function validFor(days: number, now: number): Validity {
	return { notBefore: new Date(now - CLOCK_SKEW_MS), notAfter: new Date(now + days * DAY_MS) };
}

/** A root or an intermediate that can issue. Its private key stays in memory, unless it was asked for as `exportable`. */
export interface Authority {
	/** Its own certificate, PEM. A root's goes into a CA bundle. */
	readonly certPem: string;
	/** The intermediates from this authority up to the root, which is excluded, PEM; empty for a root. */
	readonly chainPem: string;
	readonly certificate: X509Certificate;
	readonly privateKey: webcrypto.CryptoKey;
}

interface AuthorityOptions extends Validity {
	readonly commonName: string;
	/** Makes this an intermediate below `issuer`; without it the authority is a self-signed root. */
	readonly issuer?: Authority;
	/** Whether `authorityKey` can export its private key, so that it can issue again later. */
	readonly exportable?: boolean;
}

interface LeafOptions extends Validity {
	readonly commonName: string;
	/** DNS names, IP literals and URIs; a server is checked against only these, never its common name (RFC 9110 4.3.4). */
	readonly sans?: readonly string[];
	/** The one extended key usage: `server` is serverAuth, `client` is clientAuth. */
	readonly usages: 'client' | 'server';
}

/** A leaf and its key, ready for `cert_path` and `key_path`. */
export interface Issued {
	/** The chain, PEM: the leaf first, then its intermediates, without the root. */
	readonly certPem: string;
	/** PKCS#8, PEM. */
	readonly keyPem: string;
	/** Upper-case hexadecimal, as `node:tls` shows it in `getPeerCertificate().serialNumber`. */
	readonly serialNumber: string;
}

/** Makes a root, or an intermediate when `issuer` is given. Throws what WebCrypto throws. */
export async function createAuthority(options: AuthorityOptions): Promise<Authority> {
	const x509 = await loadX509();
	const keys = await generateKeys(options.exportable ?? false);
	const { certificate } = await sign({
		...options,
		publicKey: keys.publicKey,
		signingKey: options.issuer?.privateKey ?? keys.privateKey,
		extensions: [
			new x509.BasicConstraintsExtension(true, undefined, true),
			new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
		],
	});
	const certPem = pem(certificate);
	const chainPem = options.issuer === undefined ? '' : certPem + options.issuer.chainPem;
	return { certPem, chainPem, certificate, privateKey: keys.privateKey };
}

/** PKCS#8, PEM. Throws if the authority is not `exportable`. */
export function authorityKey({ privateKey }: Authority): string {
	return pkcs8(privateKey);
}

/**
 * Loads an existing root.
 *
 * @param keyPem from `authorityKey`.
 * @throws what WebCrypto and the certificate library throw.
 */
export async function loadAuthority(certPem: string, keyPem: string): Promise<Authority> {
	const x509 = await loadX509();
	const privateKey = createPrivateKey(keyPem).toCryptoKey(ALGORITHM, false, ['sign']);
	return { certPem, chainPem: '', certificate: new x509.X509Certificate(certPem), privateKey };
}

/** Issues a leaf below `issuer`, with a new key. Throws what WebCrypto throws. */
export async function issue(issuer: Authority, options: LeafOptions): Promise<Issued> {
	const x509 = await loadX509();
	const keys = await generateKeys(true);
	const usage = options.usages === 'client' ? x509.ExtendedKeyUsage.clientAuth : x509.ExtendedKeyUsage.serverAuth;
	const extensions: Extension[] = [
		new x509.BasicConstraintsExtension(false, undefined, true),
		new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
		new x509.ExtendedKeyUsageExtension([usage]),
	];
	const names = (options.sans ?? []).map((value) => ({ type: typeOfName(value), value }));
	if (names.length > 0) extensions.push(new x509.SubjectAlternativeNameExtension(names));
	const { certificate, serialNumber } = await sign({
		...options,
		issuer,
		publicKey: keys.publicKey,
		signingKey: issuer.privateKey,
		extensions,
	});
	return {
		certPem: pem(certificate) + issuer.chainPem,
		keyPem: pkcs8(keys.privateKey),
		serialNumber,
	};
}

function typeOfName(value: string): 'dns' | 'ip' | 'url' {
	if (isIP(value) !== 0) return 'ip';
	return value.includes(':') ? 'url' : 'dns';
}

interface ToBeSigned extends Validity {
	readonly commonName: string;
	readonly issuer?: Authority;
	readonly publicKey: webcrypto.CryptoKey;
	readonly signingKey: webcrypto.CryptoKey;
	readonly extensions: Extension[];
}

async function sign(tbs: ToBeSigned): Promise<{ certificate: X509Certificate; serialNumber: string }> {
	const x509 = await loadX509();
	const subject = [{ CN: [tbs.commonName] }];
	const serialNumber = newSerialNumber();
	const certificate = await x509.X509CertificateGenerator.create(
		{
			serialNumber,
			subject,
			issuer: tbs.issuer?.certificate.subjectName.toJSON() ?? subject,
			notBefore: tbs.notBefore,
			notAfter: tbs.notAfter,
			publicKey: tbs.publicKey,
			signingKey: tbs.signingKey,
			signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
			extensions: [
				...tbs.extensions,
				await x509.SubjectKeyIdentifierExtension.create(tbs.publicKey, false, webcrypto as Crypto),
				// Only this key identifier distinguishes two authorities of one name (a rotated CA).
				await x509.AuthorityKeyIdentifierExtension.create(
					tbs.issuer?.certificate.publicKey ?? tbs.publicKey,
					false,
					webcrypto as Crypto,
				),
			],
		},
		webcrypto as Crypto,
	);
	return { certificate, serialNumber: serialNumber.toUpperCase() };
}

/** 16 random bytes, with the top bits `01`: a positive DER integer without padding (RFC 5280 section 4.1.2.2). */
function newSerialNumber(): string {
	const bytes = randomBytes(16);
	bytes[0] = (bytes[0]! & 0x3f) | 0x40;
	return bytes.toString('hex');
}

async function generateKeys(extractable: boolean): Promise<webcrypto.CryptoKeyPair> {
	return webcrypto.subtle.generateKey(ALGORITHM, extractable, ['sign', 'verify']);
}

function pkcs8(key: webcrypto.CryptoKey): string {
	return KeyObject.from(key).export({ type: 'pkcs8', format: 'pem' }) as string;
}

function pem(certificate: X509Certificate): string {
	return `${certificate.toString('pem')}\n`;
}
