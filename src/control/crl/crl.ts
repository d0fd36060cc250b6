import { constants, type KeyObject, verify, type X509Certificate } from 'node:crypto';
import { DerError, DerReader, oidText, TAG } from './der.ts';

/** One certificate revocation list (RFC 5280 section 5), read and not yet verified. */
export interface Crl {
	/** DER of the issuer's name. */
	readonly issuer: Buffer;
	/** Seconds since the epoch. */
	readonly thisUpdate: number;
	readonly nextUpdate: number;
	/** Which certificates of its issuer it speaks of. */
	readonly covers: CrlScope;
	/** Upper-case hexadecimal without leading zeros. */
	readonly serials: readonly string[];
	/** What is signed, how, and the signature. */
	readonly signed: Buffer;
	readonly algorithm: SignatureAlgorithm;
	readonly signature: Buffer;
}

export type CrlScope = 'all' | 'users' | 'authorities';

/** `null`: the key decides (EdDSA). */
interface SignatureAlgorithm {
	readonly digest: string | null;
	readonly pss: boolean;
}

/** Why a CRL cannot be used, and what to do about it. It never quotes the file. */
export class CrlError extends Error {
	override readonly name = 'CrlError';
}

/** @throws CrlError */
export function readCrl(der: Buffer): Crl {
	try {
		return readCertificateList(der);
	} catch (error) {
		if (!(error instanceof DerError)) throw error;
		throw new CrlError('is not readable; write the file anew', { cause: error });
	}
}

/** Whether the CA of that certificate has issued it: by its name and by its key. */
export function isIssuedBy({ issuer, signed, algorithm, signature }: Crl, ca: X509Certificate): boolean {
	if (!issuer.equals(factsOf(ca).subject)) return false;
	const key = algorithm.pss ? { key: ca.publicKey, ...PSS } : ca.publicKey;
	try {
		return verify(algorithm.digest, signed, key as KeyObject, signature);
	} catch {
		// A key of another kind than the algorithm wants.
		return false;
	}
}

const PSS = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_AUTO };

/** Whether the CA's key may sign CRLs (RFC 5280 section 6.3.3 (f)). Without a key usage it may be used for anything. */
export function maySignCrls(ca: X509Certificate): boolean {
	const { keyUsage } = factsOf(ca);
	return keyUsage === undefined || (keyUsage[1]! & CRL_SIGN) !== 0;
}

/** Bit 6 (RFC 5280 section 4.2.1.3); the first octet says how many bits are unused. */
const CRL_SIGN = 0x80 >> 6;

/** What Node does not tell of a certificate. Node has read it, so it is whole. */
function factsOf({ raw }: X509Certificate): { subject: Buffer; keyUsage: Buffer | undefined } {
	const tbs = new DerReader(raw).open(TAG.sequence).open(TAG.sequence);
	if (tbs.next === TAG.contextConstructed) tbs.read(TAG.contextConstructed);
	tbs.read(TAG.integer);
	// Signature algorithm, issuer, validity.
	for (let i = 0; i < 3; i++) tbs.read(TAG.sequence);
	const subject = tbs.readWhole(TAG.sequence);
	let keyUsage: Buffer | undefined;
	while (tbs.next !== -1) {
		const tag = tbs.next;
		const member = tbs.open(tag);
		if (tag !== CERTIFICATE_EXTENSIONS) continue;
		for (const { id, value } of extensionsOf(member.open(TAG.sequence))) {
			if (id === EXTENSION.keyUsage) keyUsage = new DerReader(value).read(TAG.bitString);
		}
	}
	return { subject, keyUsage };
}

/** `[3]`, behind the public key and the unique identifiers. */
const CERTIFICATE_EXTENSIONS = 0xa3;

/** RFC 5280 section 5.1. */
function readCertificateList(der: Buffer): Crl {
	const file = new DerReader(der);
	const list = file.open(TAG.sequence);
	file.end();
	const signed = list.readWhole(TAG.sequence);
	const algorithm = list.readWhole(TAG.sequence);
	const signature = list.read(TAG.bitString);
	list.end();
	// The first octet says how many bits of the last one are unused.
	if (signature[0] !== 0) throw new DerError('bad signature');

	const tbs = new DerReader(signed).open(TAG.sequence);
	if (tbs.next === TAG.integer) tbs.read(TAG.integer);
	// Section 5.1.1.2: the same twice, once of it signed.
	if (!tbs.readWhole(TAG.sequence).equals(algorithm)) throw new DerError('two algorithms');
	const issuer = tbs.readWhole(TAG.sequence);
	const thisUpdate = readTime(tbs);
	const nextUpdate = isTime(tbs.next) ? readTime(tbs) : undefined;
	const serials = tbs.next === TAG.sequence ? readEntries(tbs.open(TAG.sequence)) : [];
	const covers =
		tbs.next === TAG.contextConstructed ? readExtensions(tbs.open(TAG.contextConstructed).open(TAG.sequence)) : 'all';
	tbs.end();
	if (nextUpdate === undefined) {
		throw new CrlError(
			'says nothing of the next update, so nobody could tell whether it is fresh; issue it with nextUpdate',
		);
	}
	return {
		issuer,
		thisUpdate,
		nextUpdate,
		covers,
		serials,
		signed,
		algorithm: signatureAlgorithm(new DerReader(algorithm).open(TAG.sequence)),
		signature: signature.subarray(1),
	};
}

function readEntries(entries: DerReader): string[] {
	const serials: string[] = [];
	while (entries.next !== -1) {
		const entry = entries.open(TAG.sequence);
		serials.push(entry.read(TAG.integer).toString('hex').toUpperCase().replace(/^0+/, ''));
		readTime(entry);
		if (entry.next === TAG.sequence) {
			for (const { id, critical } of extensionsOf(entry.open(TAG.sequence))) {
				if (id === EXTENSION.certificateIssuer) throw new CrlError(INDIRECT);
				if (critical) throw unknownExtension(id);
			}
		}
		entry.end();
	}
	return serials;
}

const EXTENSION = {
	keyUsage: '2.5.29.15',
	deltaCrlIndicator: '2.5.29.27',
	issuingDistributionPoint: '2.5.29.28',
	certificateIssuer: '2.5.29.29',
} as const;

const INDIRECT = 'is an indirect CRL, which speaks for other issuers than its own; give the CRL of each CA itself';

function unknownExtension(id: string): CrlError {
	return new CrlError(`has a critical extension (${id}) that is not known here; issue it without`);
}

function readExtensions(extensions: DerReader): CrlScope {
	let covers: CrlScope = 'all';
	for (const { id, critical, value } of extensionsOf(extensions)) {
		if (id === EXTENSION.deltaCrlIndicator) {
			throw new CrlError('is a delta CRL, which says only what has changed; give the complete CRL');
		}
		if (id === EXTENSION.issuingDistributionPoint) covers = readDistributionPoint(value);
		else if (critical) throw unknownExtension(id);
	}
	return covers;
}

/** RFC 5280 section 5.2.5. The name of the distribution point itself is not asked for. */
function readDistributionPoint(value: Buffer): CrlScope {
	const point = new DerReader(value).open(TAG.sequence);
	if (point.next === TAG.contextConstructed) point.read(TAG.contextConstructed);
	const flags: boolean[] = [];
	while (point.next !== -1) {
		const tag = point.next;
		const member = tag & ~TAG.context;
		const value = point.read(tag);
		flags[member] = member === SOME_REASONS || value[0] !== 0;
	}
	if (flags[INDIRECT_CRL]) throw new CrlError(INDIRECT);
	if (flags[SOME_REASONS] || flags[ATTRIBUTES_ONLY]) {
		throw new CrlError('is for some reasons of revocation or for attribute certificates alone; give the complete CRL');
	}
	if (flags[USERS_ONLY]) return 'users';
	return flags[AUTHORITIES_ONLY] ? 'authorities' : 'all';
}

/** Context-specific numbers of the members. */
const USERS_ONLY = 1;
const AUTHORITIES_ONLY = 2;
const SOME_REASONS = 3;
const INDIRECT_CRL = 4;
const ATTRIBUTES_ONLY = 5;

function* extensionsOf(extensions: DerReader): Generator<{ id: string; critical: boolean; value: Buffer }> {
	while (extensions.next !== -1) {
		const extension = extensions.open(TAG.sequence);
		const id = oidText(extension.read(TAG.oid));
		const critical = extension.next === TAG.boolean && extension.read(TAG.boolean)[0] !== 0;
		const value = extension.read(TAG.octetString);
		extension.end();
		yield { id, critical, value };
	}
}

function isTime(tag: number): boolean {
	return tag === TAG.utcTime || tag === TAG.generalizedTime;
}

/** @returns seconds since the epoch. */
function readTime(reader: DerReader): number {
	const tag = isTime(reader.next) ? reader.next : TAG.utcTime;
	const text = reader.read(tag).toString('latin1');
	const [, year, ...rest] = /^(\d\d|\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(text) ?? [];
	if (year === undefined || (year.length === 2) !== (tag === TAG.utcTime)) throw new DerError('bad time');
	// Section 4.1.2.5.1.
	const full = year.length === 4 ? Number(year) : Number(year) + (Number(year) < 50 ? 2000 : 1900);
	const [month, day, hour, minute, second] = rest.map(Number) as [number, number, number, number, number];
	return Date.UTC(full, month - 1, day, hour, minute, second) / 1000;
}

/** RFC 4055, 5758, 8410. */
const DIGESTS = new Map<string, string | null>([
	['1.2.840.113549.1.1.11', 'sha256'],
	['1.2.840.113549.1.1.12', 'sha384'],
	['1.2.840.113549.1.1.13', 'sha512'],
	['1.2.840.10045.4.3.2', 'sha256'],
	['1.2.840.10045.4.3.3', 'sha384'],
	['1.2.840.10045.4.3.4', 'sha512'],
	['1.3.101.112', null],
	['1.3.101.113', null],
]);

const RSASSA_PSS = '1.2.840.113549.1.1.10';
const HASHES = new Map([
	['2.16.840.1.101.3.4.2.1', 'sha256'],
	['2.16.840.1.101.3.4.2.2', 'sha384'],
	['2.16.840.1.101.3.4.2.3', 'sha512'],
]);

function signatureAlgorithm(algorithm: DerReader): SignatureAlgorithm {
	const id = oidText(algorithm.read(TAG.oid));
	const digest = id === RSASSA_PSS ? pssHash(algorithm.open(TAG.sequence)) : DIGESTS.get(id);
	if (digest === undefined) {
		throw new CrlError(
			'is signed by an algorithm that is not taken here; sign it with SHA-256, SHA-384, SHA-512 or EdDSA',
		);
	}
	return { digest, pss: id === RSASSA_PSS };
}

/** RFC 4055 section 3.1; the default is SHA-1, which is not taken. */
function pssHash(parameters: DerReader): string | undefined {
	if (parameters.next !== TAG.contextConstructed) return undefined;
	return HASHES.get(oidText(parameters.open(TAG.contextConstructed).open(TAG.sequence).read(TAG.oid)));
}
