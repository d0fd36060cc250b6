import { constants, type KeyObject, verify, type X509Certificate } from 'node:crypto';
import { extensionsOf, factsOf, pointNames } from '@mtls-edge-proxy/gate/identity/certificate-facts.ts';
import { DerError, DerReader, oidText, TAG } from '@mtls-edge-proxy/gate/identity/der.ts';
import { nameKey } from '@mtls-edge-proxy/gate/identity/distinguished-name.ts';
import { MAX_SERIAL_OCTETS } from '../../identity/serial-table.ts';
import type { Pause } from '../slices.ts';

/** One certificate revocation list (RFC 5280 section 5), read and not yet verified. */
export interface Crl {
	/** `nameKey` of the issuer. */
	readonly issuer: string;
	/** Seconds since the epoch. */
	readonly thisUpdate: number;
	readonly nextUpdate: number;
	/** The certificates of its issuer that it covers. */
	readonly covers: CrlScope;
	/** DER of the names of its distribution point, hexadecimal; `undefined`: it covers all certificates in its scope. */
	readonly points: readonly string[] | undefined;
	/** Serial numbers of revoked certificates: contents of DER INTEGERs. */
	readonly serials: readonly Buffer[];
	readonly signed: Buffer;
	readonly algorithm: SignatureAlgorithm;
	readonly signature: Buffer;
}

type CrlScope = 'all' | 'users' | 'authorities';

/** `null`: the key decides (EdDSA). */
interface SignatureAlgorithm {
	readonly digest: string | null;
	readonly pss: boolean;
}

/** Why a CRL cannot be used, and what to do about it. It never quotes the file. */
export class CrlError extends Error {
	override readonly name = 'CrlError';
}

/**
 * @param pause called regularly, since a list may have hundreds of thousands of entries.
 * @throws CrlError
 */
export async function readCrl(der: Buffer, pause: Pause = () => undefined): Promise<Crl> {
	try {
		return await readCertificateList(der, pause);
	} catch (error) {
		if (!(error instanceof DerError)) throw error;
		throw new CrlError('is not readable; replace the file', { cause: error });
	}
}

/** Whether this CA has issued the list, by name and by key. */
export function isIssuedBy({ issuer, signed, algorithm, signature }: Crl, ca: X509Certificate): boolean {
	if (issuer !== nameKey(factsOf(ca).subject)) return false;
	const key = algorithm.pss ? { key: ca.publicKey, ...PSS } : ca.publicKey;
	try {
		return verify(algorithm.digest, signed, key as KeyObject, signature);
	} catch {
		// The key is of another kind than the algorithm needs.
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

/** RFC 5280 section 5.1. */
async function readCertificateList(der: Buffer, pause: Pause): Promise<Crl> {
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
	// Section 5.1.1.2: the algorithm comes twice, and one of the two is signed.
	if (!tbs.readWhole(TAG.sequence).equals(algorithm)) throw new DerError('two algorithms');
	const issuer = nameKey(tbs.readWhole(TAG.sequence));
	const thisUpdate = readTime(tbs);
	const nextUpdate = isTime(tbs.next) ? readTime(tbs) : undefined;
	const serials = tbs.next === TAG.sequence ? await readEntries(tbs.open(TAG.sequence), pause) : [];
	const scope =
		tbs.next === TAG.contextConstructed
			? readExtensions(tbs.open(TAG.contextConstructed).open(TAG.sequence))
			: EVERYTHING;
	tbs.end();
	if (nextUpdate === undefined) {
		throw new CrlError('has no nextUpdate, so its freshness is unknown; issue it with nextUpdate');
	}
	return {
		issuer,
		thisUpdate,
		nextUpdate,
		...scope,
		serials,
		signed,
		algorithm: signatureAlgorithm(new DerReader(algorithm).open(TAG.sequence)),
		signature: signature.subarray(1),
	};
}

async function readEntries(entries: DerReader, pause: Pause): Promise<Buffer[]> {
	const serials: Buffer[] = [];
	while (entries.next !== -1) {
		const paused = pause();
		if (paused) await paused;
		const entry = entries.open(TAG.sequence);
		const serial = entry.read(TAG.integer);
		if (serial.length > MAX_SERIAL_OCTETS || !isShortest(serial)) throw new DerError('bad serial number');
		serials.push(serial);
		// When it was revoked does not matter.
		entry.read(timeTag(entry));
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

/** X.690 section 8.3.2. OpenSSL reads no certificate with a longer form. */
function isShortest(integer: Buffer): boolean {
	const [first, second] = integer;
	if (first === undefined || second === undefined) return first !== undefined;
	return first !== (second < 0x80 ? 0 : 0xff);
}

const EXTENSION = {
	deltaCrlIndicator: '2.5.29.27',
	issuingDistributionPoint: '2.5.29.28',
	certificateIssuer: '2.5.29.29',
} as const;

const INDIRECT = 'is an indirect CRL, which covers issuers other than its own; give the CRL of each CA itself';

function unknownExtension(id: string): CrlError {
	return new CrlError(`has a critical extension (${id}) that is not supported; issue it without`);
}

type Scope = Pick<Crl, 'covers' | 'points'>;
const EVERYTHING: Scope = { covers: 'all', points: undefined };

function readExtensions(extensions: DerReader): Scope {
	let scope = EVERYTHING;
	for (const { id, critical, value } of extensionsOf(extensions)) {
		if (id === EXTENSION.deltaCrlIndicator) {
			throw new CrlError('is a delta CRL, which lists only changes; give the complete CRL');
		}
		if (id === EXTENSION.issuingDistributionPoint) scope = readDistributionPoint(value);
		else if (critical) throw unknownExtension(id);
	}
	return scope;
}

/** RFC 5280 section 5.2.5. A list with a distribution point may be one of many, each for some of the CA's certificates. */
function readDistributionPoint(value: Buffer): Scope {
	const point = new DerReader(value).open(TAG.sequence);
	const points =
		point.next === TAG.contextConstructed ? pointNames(point.open(TAG.contextConstructed)) : EVERYTHING.points;
	const flags: boolean[] = [];
	while (point.next !== -1) {
		const tag = point.next;
		const member = tag & ~TAG.context;
		const value = point.read(tag);
		flags[member] = member === SOME_REASONS || value[0] !== 0;
	}
	if (flags[INDIRECT_CRL]) throw new CrlError(INDIRECT);
	if (flags[SOME_REASONS] || flags[ATTRIBUTES_ONLY]) {
		throw new CrlError('covers only some reasons of revocation, or only attribute certificates; give the complete CRL');
	}
	return { covers: flags[USERS_ONLY] ? 'users' : flags[AUTHORITIES_ONLY] ? 'authorities' : 'all', points };
}

/** Context-specific numbers of the members. */
const USERS_ONLY = 1;
const AUTHORITIES_ONLY = 2;
const SOME_REASONS = 3;
const INDIRECT_CRL = 4;
const ATTRIBUTES_ONLY = 5;

function isTime(tag: number): boolean {
	return tag === TAG.utcTime || tag === TAG.generalizedTime;
}

function timeTag({ next }: DerReader): number {
	return isTime(next) ? next : TAG.utcTime;
}

/** @returns seconds since the epoch. */
function readTime(reader: DerReader): number {
	const tag = timeTag(reader);
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
			'is signed with an algorithm that is not supported; sign it with SHA-256, SHA-384, SHA-512 or EdDSA',
		);
	}
	return { digest, pss: id === RSASSA_PSS };
}

/** RFC 4055 section 3.1; the default is SHA-1, which is not accepted. */
function pssHash(parameters: DerReader): string | undefined {
	if (parameters.next !== TAG.contextConstructed) return undefined;
	return HASHES.get(oidText(parameters.open(TAG.contextConstructed).open(TAG.sequence).read(TAG.oid)));
}
