import { createHash, type KeyObject, type X509Certificate } from 'node:crypto';
import { DerError, DerReader, oidText, TAG } from './der.ts';
import { nameKey } from './distinguished-name.ts';

/** Certificate fields that Node does not expose, or exposes in a form in which two certificates can look alike. */
export interface CertificateFacts {
	/** Content of the DER INTEGER, upper-case hexadecimal: `00FF` is 255, `FF` is -1. */
	readonly serial: string;
	/** DER of the names. */
	readonly issuer: Buffer;
	readonly subject: Buffer;
	readonly keyUsage: Buffer | undefined;
	readonly basicConstraints: BasicConstraints | undefined;
	/** Names of its CRL distribution points, DER in hexadecimal (RFC 5280 section 4.2.1.13). */
	readonly crlPoints: readonly string[];
}

/** RFC 5280 section 4.2.1.9. */
interface BasicConstraints {
	readonly isCa: boolean;
	/** How many intermediates may follow in a chain; infinite if not limited. */
	readonly pathLength: number;
}

/** Cached for each certificate object. A malformed extension counts as absent: OpenSSL refuses every chain that has one. */
export function factsOf(certificate: X509Certificate): CertificateFacts {
	let facts = FACTS.get(certificate);
	if (facts === undefined) {
		facts = readFacts(certificate.raw);
		FACTS.set(certificate, facts);
	}
	return facts;
}

const FACTS = new WeakMap<X509Certificate, CertificateFacts>();

/** Identifies a CA by key and name, in any encoding of the two. A renewed CA keeps its identifier. */
export function caId(ca: X509Certificate): string {
	let id = IDS.get(ca);
	if (id === undefined) {
		id = `${createHash('sha256').update(keyOctets(ca.publicKey)).digest('base64')} ${nameKey(factsOf(ca).subject)}`;
		IDS.set(ca, id);
	}
	return id;
}

const IDS = new WeakMap<X509Certificate, string>();

/**
 * Equal for all encodings of a key, because a CA can be certified twice. Only the first coordinate of an EC key's point is used: the
 * second one may be omitted (SEC 1 section 2.3.3). The algorithm identifier is ignored: RSA has one for each padding.
 */
function keyOctets(key: KeyObject): Buffer {
	const info = new DerReader(key.export({ type: 'spki', format: 'der' })).open(TAG.sequence);
	// Algorithm.
	info.read(TAG.sequence);
	// The first octet says how many bits of the last one are unused.
	const octets = info.read(TAG.bitString).subarray(1);
	if (key.asymmetricKeyType !== 'ec') return octets;
	return octets.subarray(1, octets[0]! < UNCOMPRESSED ? octets.length : (octets.length + 1) / 2);
}

/** First octet of a point in both coordinates; `02` and `03` are the compressed form. */
const UNCOMPRESSED = 4;

/** RFC 5280 section 4.1. */
function readFacts(raw: Buffer): CertificateFacts {
	const tbs = new DerReader(raw).open(TAG.sequence).open(TAG.sequence);
	if (tbs.next === TAG.contextConstructed) tbs.read(TAG.contextConstructed);
	const serial = tbs.read(TAG.integer).toString('hex').toUpperCase();
	// Signature algorithm.
	tbs.read(TAG.sequence);
	const issuer = tbs.readWhole(TAG.sequence);
	// Validity.
	tbs.read(TAG.sequence);
	const subject = tbs.readWhole(TAG.sequence);
	return { serial, issuer, subject, ...readExtensions(tbs) };
}

function readExtensions(tbs: DerReader): Pick<CertificateFacts, 'keyUsage' | 'basicConstraints' | 'crlPoints'> {
	let keyUsage: Buffer | undefined;
	let basicConstraints: BasicConstraints | undefined;
	const crlPoints: string[] = [];
	try {
		while (tbs.next !== -1) {
			const tag = tbs.next;
			const member = tbs.open(tag);
			if (tag !== CERTIFICATE_EXTENSIONS) continue;
			for (const { id, value } of extensionsOf(member.open(TAG.sequence))) {
				if (id === KEY_USAGE) keyUsage = new DerReader(value).read(TAG.bitString);
				else if (id === BASIC_CONSTRAINTS) basicConstraints = readConstraints(new DerReader(value).open(TAG.sequence));
				else if (id === CRL_DISTRIBUTION_POINTS) crlPoints.push(...readPoints(new DerReader(value).open(TAG.sequence)));
			}
		}
	} catch (error) {
		if (!(error instanceof DerError)) throw error;
	}
	return { keyUsage, basicConstraints, crlPoints };
}

/** `[3]`, after the public key and the unique identifiers. */
const CERTIFICATE_EXTENSIONS = 0xa3;

const KEY_USAGE = '2.5.29.15';
const BASIC_CONSTRAINTS = '2.5.29.19';
const CRL_DISTRIBUTION_POINTS = '2.5.29.31';

function readPoints(points: DerReader): string[] {
	const names: string[] = [];
	while (points.next !== -1) {
		const point = points.open(TAG.sequence);
		if (point.next === TAG.contextConstructed) names.push(...pointNames(point.open(TAG.contextConstructed)));
	}
	return names;
}

/** @param point a DistributionPointName. A name relative to the CRL's issuer gives an empty list. */
export function pointNames(point: DerReader): string[] {
	if (point.next !== TAG.contextConstructed) return [];
	const names: string[] = [];
	for (const all = point.open(TAG.contextConstructed); all.next !== -1; ) {
		names.push(all.readWhole(all.next).toString('hex'));
	}
	return names;
}

function readConstraints(members: DerReader): BasicConstraints {
	const isCa = members.next === TAG.boolean && members.read(TAG.boolean)[0] !== 0;
	const length = members.next === TAG.integer ? members.read(TAG.integer) : undefined;
	return { isCa, pathLength: length?.length === 1 ? length[0]! : Number.POSITIVE_INFINITY };
}

interface DerExtension {
	readonly id: string;
	readonly critical: boolean;
	readonly value: Buffer;
}

/** RFC 5280 section 4.2. @throws DerError */
export function* extensionsOf(extensions: DerReader): Generator<DerExtension> {
	while (extensions.next !== -1) {
		const extension = extensions.open(TAG.sequence);
		const id = oidText(extension.read(TAG.oid));
		const critical = extension.next === TAG.boolean && extension.read(TAG.boolean)[0] !== 0;
		const value = extension.read(TAG.octetString);
		extension.end();
		yield { id, critical, value };
	}
}
