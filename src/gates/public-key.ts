import { createPublicKey, type KeyObject } from 'node:crypto';

/** The key that verifies RS256 signatures. Messages say what was found and what to give; they never quote the text. */

/** Least public exponent, and least size of the modulus in bits (FIPS 186-5 section 5.1; RFC 7518 section 3.3). */
const MIN_EXPONENT = 65_537n;
const MIN_BITS = 2048;

/**
 * Reads the key of `[jwt] jwks_path`: one RSA public key as PEM, SPKI or PKCS#1.
 *
 * @throws Error that says what is wrong with the text and what is wanted; it never quotes the text.
 */
export function readPublicKey(pem: string): KeyObject {
	const labels = [...pem.matchAll(/-----BEGIN ([A-Z0-9 ]+)-----/g)].map((match) => match[1]!);
	if (labels.some((label) => label.endsWith('PRIVATE KEY'))) throw new Error(privateKeyFound(pem));
	if (labels.length === 0) throw new Error(otherTextFound(pem));
	if (labels.length > 1) throw new Error(`holds ${labels.length} PEM blocks; give the one PEM public key ${WANTED}`);
	const [label] = labels as [string];
	if (label !== 'PUBLIC KEY' && label !== 'RSA PUBLIC KEY') throw new Error(otherBlockFound(label));
	let key: KeyObject;
	try {
		key = createPublicKey(pem);
	} catch {
		throw new Error('is not a readable PEM public key: it is cut off or damaged; write it anew');
	}
	return checkPublicKey(key);
}

/**
 * Whether a key may verify RS256: RSA (not RSA-PSS), at least 2048 bits, an odd public exponent of at least 65537.
 *
 * @returns the key.
 * @throws Error that says what is wrong with it.
 */
export function checkPublicKey(key: KeyObject): KeyObject {
	if (key.type !== 'public') throw new Error(`holds a ${key.type} key; give the public key that belongs to the signer`);
	if (key.asymmetricKeyType !== 'rsa') {
		throw new Error(`holds a key of type ${key.asymmetricKeyType}; RS256 needs an RSA key`);
	}
	const { modulusLength = 0, publicExponent = 0n } = key.asymmetricKeyDetails ?? {};
	if (modulusLength < MIN_BITS) {
		throw new Error(`holds an RSA key of ${modulusLength} bits; at least 2048 are needed (RFC 7518 section 3.3)`);
	}
	// With a small exponent a signature can be forged wherever a verifier reads its padding carelessly.
	if (publicExponent < MIN_EXPONENT) {
		throw new Error(`holds an RSA key with the public exponent ${publicExponent}; at least 65537 is needed`);
	}
	if (publicExponent % 2n === 0n) throw new Error('holds an RSA key with an even public exponent, which is no RSA key');
	return key;
}

const WANTED = '("BEGIN PUBLIC KEY" or "BEGIN RSA PUBLIC KEY")';

function privateKeyFound(pem: string): string {
	const encrypted = /-----BEGIN ENCRYPTED|^Proc-Type: 4,ENCRYPTED/m.test(pem);
	const what = encrypted ? 'an encrypted private key' : 'a private key';
	return `holds ${what}; give the public key alone (openssl pkey -in KEY -pubout)`;
}

function otherBlockFound(label: string): string {
	if (/^(?:X509 |TRUSTED )?CERTIFICATE$/.test(label)) {
		return 'holds a certificate, not a PEM public key; take the key out of it (openssl x509 -in FILE -noout -pubkey)';
	}
	if (/^(?:NEW )?CERTIFICATE REQUEST$/.test(label)) {
		return 'holds a certificate request, not a PEM public key; take the key out of it (openssl req -in FILE -noout -pubkey)';
	}
	// A label is one of the few words of PEM, and no secret.
	return `holds a PEM block of type ${label.slice(0, 40)}, not a PEM public key ${WANTED}`;
}

/** For a text without any PEM block. */
function otherTextFound(text: string): string {
	const trimmed = text.trim();
	if (trimmed === '') return `is empty; a PEM public key is wanted ${WANTED}`;
	if (/^\{\s*"/.test(trimmed)) {
		return /"keys"\s*:\s*\[/.test(trimmed)
			? `holds a JWK Set (JSON), not a PEM public key; write the signer's key of it as PEM (${jwkToPem('.keys[0]')})`
			: `holds JSON, perhaps a JWK, not a PEM public key; write it as PEM (${jwkToPem('')})`;
	}
	if (/^(?:ssh-|ecdsa-|---- BEGIN SSH2)/.test(trimmed)) {
		return 'holds an OpenSSH key, not a PEM public key; write it as PEM (ssh-keygen -e -m PKCS8 -f FILE)';
	}
	// The first bytes of DER, 0x30 0x82, read as UTF-8.
	if (text.startsWith('0\ufffd')) {
		return 'holds bytes that may be DER, not a PEM public key; write it as PEM (openssl pkey -pubin -inform DER -in FILE)';
	}
	return `is not one PEM public key ${WANTED}`;
}

function jwkToPem(member: string): string {
	const jwk = `JSON.parse(fs.readFileSync('FILE'))${member}`;
	return `node -p "crypto.createPublicKey({ format: 'jwk', key: ${jwk} }).export({ type: 'spki', format: 'pem' })"`;
}
