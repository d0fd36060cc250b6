import { createPublicKey, type KeyObject } from 'node:crypto';
import { type Algorithm, fitsAlgorithm } from './algorithm.ts';

/** The keys that verify tokens' signatures. Messages name what was found and what is expected; they never quote the text. */

/** Minimum public exponent, and minimum modulus size in bits (FIPS 186-5 section 5.1; RFC 7518 section 3.3). */
const MIN_EXPONENT = 65_537n;
const MIN_BITS = 2048;

const RS256: readonly Algorithm[] = ['RS256'];

/**
 * Reads one public key as PEM: SPKI, or PKCS#1 for RSA.
 *
 * @param algorithms it must fit one of these.
 * @throws Error whose message names the fault and the expected form; it never quotes the text.
 */
export function readPublicKey(pem: string, algorithms: readonly Algorithm[] = RS256): KeyObject {
	const labels = [...pem.matchAll(/-----BEGIN ([A-Z0-9 ]+)-----/g)].map((match) => match[1]!);
	if (labels.some((label) => label.endsWith('PRIVATE KEY'))) throw new Error(privateKeyFound(pem));
	if (labels.length === 0) throw new Error(otherTextFound(pem));
	if (labels.length > 1)
		throw new Error(`contains ${labels.length} PEM blocks; give a single PEM public key ${WANTED}`);
	const [label] = labels as [string];
	if (label !== 'PUBLIC KEY' && label !== 'RSA PUBLIC KEY') throw new Error(otherBlockFound(label));
	let key: KeyObject;
	try {
		key = createPublicKey(pem);
	} catch {
		throw new Error('is not a readable PEM public key: it is truncated or damaged; replace it');
	}
	return checkPublicKey(key, algorithms);
}

/**
 * Checks that a key may verify tokens: its type must fit one of the algorithms. An RSA key (not RSA-PSS) must have at least 2048 bits
 * and an odd public exponent of at least 65537.
 *
 * @returns the key.
 * @throws Error whose message names the fault.
 */
export function checkPublicKey(key: KeyObject, algorithms: readonly Algorithm[] = RS256): KeyObject {
	if (key.type !== 'public')
		throw new Error(`contains a ${key.type} key; give the public key that belongs to the signer`);
	if (!algorithms.some((algorithm) => fitsAlgorithm(key, algorithm))) {
		throw new UnfitKey(`contains a key of type ${typeOf(key, algorithms)}; ${needs(algorithms)}`);
	}
	if (key.asymmetricKeyType === 'rsa') checkStrength(key);
	return key;
}

/** The key is of a type for other algorithms. */
export class UnfitKey extends Error {}

function checkStrength(key: KeyObject): void {
	const { modulusLength = 0, publicExponent = 0n } = key.asymmetricKeyDetails ?? {};
	if (modulusLength < MIN_BITS) {
		throw new Error(`contains an RSA key of ${modulusLength} bits; at least 2048 are needed (RFC 7518 section 3.3)`);
	}
	// With a small exponent, a verifier that checks padding carelessly accepts forged signatures.
	if (publicExponent < MIN_EXPONENT) {
		throw new Error(`contains an RSA key with the public exponent ${publicExponent}; at least 65537 is needed`);
	}
	if (publicExponent % 2n === 0n) throw new Error('contains an RSA key with an even public exponent, which is invalid');
}

/** Includes the curve if an algorithm requires a particular one. */
function typeOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject, algorithms: readonly Algorithm[]): string {
	const curve = asymmetricKeyDetails?.namedCurve;
	return curve === undefined || !algorithms.some((algorithm) => algorithm.startsWith('ES'))
		? `${asymmetricKeyType}`
		: `${asymmetricKeyType} (${curve})`;
}

/** `RS256 needs an RSA key`, `ES256, EdDSA need a P-256 or an Ed25519 key` */
function needs(algorithms: readonly Algorithm[]): string {
	const kinds = new Set(algorithms.map((algorithm) => KINDS.get(algorithm) ?? 'an RSA'));
	return `${algorithms.join(', ')} ${algorithms.length === 1 ? 'needs' : 'need'} ${[...kinds].join(' or ')} key`;
}

const KINDS: ReadonlyMap<Algorithm, string> = new Map([
	['ES256', 'a P-256'],
	['ES384', 'a P-384'],
	['EdDSA', 'an Ed25519'],
]);

const WANTED = '("BEGIN PUBLIC KEY" or "BEGIN RSA PUBLIC KEY")';

function privateKeyFound(pem: string): string {
	const encrypted = /-----BEGIN ENCRYPTED|^Proc-Type: 4,ENCRYPTED/m.test(pem);
	const what = encrypted ? 'an encrypted private key' : 'a private key';
	return `contains ${what}; give only the public key (openssl pkey -in KEY -pubout)`;
}

function otherBlockFound(label: string): string {
	if (/^(?:X509 |TRUSTED )?CERTIFICATE$/.test(label)) {
		return 'contains a certificate, not a PEM public key; extract the key from it (openssl x509 -in FILE -noout -pubkey)';
	}
	if (/^(?:NEW )?CERTIFICATE REQUEST$/.test(label)) {
		return 'contains a certificate request, not a PEM public key; extract the key from it (openssl req -in FILE -noout -pubkey)';
	}
	// A label is one of a few PEM keywords, not a secret.
	return `contains a PEM block of type ${label.slice(0, 40)}, not a PEM public key ${WANTED}`;
}

/** For a text without any PEM block. */
function otherTextFound(text: string): string {
	const trimmed = text.trim();
	if (trimmed === '') return `is empty; give a PEM public key ${WANTED}`;
	if (/^\{\s*"/.test(trimmed)) {
		return /"keys"\s*:\s*\[/.test(trimmed)
			? `contains a JWK Set (JSON), not a PEM public key; write the signer's key from it as PEM (${jwkToPem('.keys[0]')})`
			: `contains JSON, perhaps a JWK, not a PEM public key; write it as PEM (${jwkToPem('')})`;
	}
	if (/^(?:ssh-|ecdsa-|---- BEGIN SSH2)/.test(trimmed)) {
		return 'contains an OpenSSH key, not a PEM public key; write it as PEM (ssh-keygen -e -m PKCS8 -f FILE)';
	}
	// The first bytes of DER, 0x30 0x82, read as UTF-8.
	if (text.startsWith('0\ufffd')) {
		return 'contains bytes that may be DER, not a PEM public key; write it as PEM (openssl pkey -pubin -inform DER -in FILE)';
	}
	return `is not a PEM public key ${WANTED}`;
}

function jwkToPem(member: string): string {
	const jwk = `JSON.parse(fs.readFileSync('FILE'))${member}`;
	return `node -p "crypto.createPublicKey({ format: 'jwk', key: ${jwk} }).export({ type: 'spki', format: 'pem' })"`;
}
