import { X509Certificate } from 'node:crypto';
import { caId } from '@mtls-edge-proxy/gate/identity/certificate-facts.ts';
import { inOneLine } from '@mtls-edge-proxy/gate/identity/distinguished-name.ts';
import { hasSigned } from '@mtls-edge-proxy/gate/identity/possible-chains.ts';
import { casOf, nth, readBlocks } from '@mtls-edge-proxy/gate/tls/certificates.ts';
import { problemAt } from '../../config/error.ts';
import type { CrlSeed } from '../../identity/client-chain.ts';
import { shareSerials } from '../../memory/serial-memory.ts';
import type { Findings, NamedFile } from '../files/findings.ts';
import { type Pause, pauses } from '../slices.ts';
import { type Crl, CrlError, isIssuedBy, maySignCrls, readCrl } from './crl.ts';

/**
 * Reads and judges the files of `tls.crl_path`: CRLs issued by CAs of the bundle. The certificate of an intermediate that is not in
 * the bundle may be in the file of its CRL.
 *
 * @param bundle text of `tls.client_ca_path`; `undefined` if that is wrong: the lists are not verified then.
 */
export async function judgeCrlFiles(found: Findings, bundle: string | undefined, now: Date): Promise<CrlSeed[]> {
	const { tls, lines } = found.files;
	const before = found.problems.length;
	const lists: (CrlFile['crls'][number] & { readonly file: NamedFile })[] = [];
	const ofBundle = bundle === undefined ? [] : casOf(bundle).map((pem) => new X509Certificate(pem));
	const besides: X509Certificate[] = [];
	const pause = pauses();
	for (const [i, path] of (tls.crlPath ?? []).entries()) {
		const listed = lines[`tls.crl_path[${i}]`] !== undefined;
		const file = found.file(listed ? `tls.crl_path[${i}]` : 'tls.crl_path', path);
		const bytes = await file.bytes(MAX_CRL_BYTES);
		if (bytes === undefined) continue;
		const { crls, certificates, faults } = await readCrlFile(bytes, pause);
		for (const fault of faults) file.fault(fault);
		lists.push(...crls.map((one) => ({ ...one, file })));
		besides.push(...certificates);
	}
	if (bundle === undefined) return [];
	const cas = belowBundle(ofBundle, besides);
	const seeds: CrlSeed[] = [];
	for (const { crl, which, file } of lists) {
		const issuer = cas.find((ca) => isIssuedBy(crl, ca));
		if (issuer === undefined) file.fault(`${which} ${FOREIGN}`);
		else if (!maySignCrls(issuer)) file.fault(`${which} ${NOT_MEANT_TO}`);
		else seeds.push(await seedOf(crl, issuer, pause));
		if (issuer !== undefined) for (const warning of ageWarnings(crl, now)) file.warn(`${which} ${warning}`);
	}
	if (lists.length > 0 && found.problems.length === before) warnOfAbsence(found, ofBundle, seeds);
	return seeds;
}

/** CAs without any CRL, fresh or stale. */
function warnOfAbsence(
	{ files: { lines, tls }, warnings }: Findings,
	bundle: readonly X509Certificate[],
	crls: readonly CrlSeed[],
): void {
	const what = tls.crlRequired ? 'its clients are refused' : 'its certificates are not checked for revocation';
	for (const ca of bundle) {
		if (crls.some((crl) => crl.caId === caId(ca))) continue;
		const which = `the CA "${inOneLine(ca.subject)}" of tls.client_ca_path`;
		warnings.push(problemAt(lines, 'tls.crl_path', `there is no CRL of ${which}: ${what}; add its CRL`));
	}
}

const FOREIGN =
	'is not signed by a CA of tls.client_ca_path; give the CRL of a CA that issues client certificates. For an intermediate, put its ' +
	'certificate into the same file, too';
const NOT_MEANT_TO =
	'is signed by a CA that may not sign CRLs (keyUsage without cRLSign); reissue the CA certificate with cRLSign, or sign the CRL with one that has it';

async function seedOf(
	{ thisUpdate, nextUpdate, covers, points, serials }: Crl,
	issuer: X509Certificate,
	pause: Pause,
): Promise<CrlSeed> {
	return {
		caId: caId(issuer),
		issuer: inOneLine(issuer.subject),
		thisUpdate,
		nextUpdate,
		covers,
		points,
		serials: await shareSerials(serials, pause),
	};
}

/** The CAs of the bundle, and those of `others` that chain to it: other CAs cannot revoke clients. */
function belowBundle(bundle: readonly X509Certificate[], others: readonly X509Certificate[]): X509Certificate[] {
	const known = [...bundle];
	for (const issuer of known) {
		const issued = others.filter((one) => one.ca && one.checkIssued(issuer) && hasSigned(issuer, one));
		known.push(...issued.filter((one) => !known.includes(one)));
	}
	return known;
}

/** Lists of 300,000 entries have some 15 MiB, a third more in PEM. */
const MAX_CRL_BYTES = 64 * 1024 * 1024;

function ageWarnings({ thisUpdate, nextUpdate }: Crl, now: Date): string[] {
	const seconds = now.getTime() / 1000;
	if (seconds >= nextUpdate) return [`has been out of date since ${inWords(nextUpdate)}; fetch the next one`];
	return seconds < thisUpdate ? [`is not valid before ${inWords(thisUpdate)}`] : [];
}

function inWords(seconds: number): string {
	return new Date(seconds * 1000).toISOString();
}

interface CrlFile {
	readonly crls: { readonly crl: Crl; readonly which: string }[];
	readonly certificates: X509Certificate[];
	readonly faults: string[];
}

/** DER holds one list; PEM may hold several, and certificates of their issuers. */
async function readCrlFile(bytes: Buffer, pause: Pause): Promise<CrlFile> {
	const file: CrlFile = { crls: [], certificates: [], faults: [] };
	const lists = bytes[0] === DER_SEQUENCE ? [{ der: bytes, which: 'the CRL' }] : readPemFile(bytes, file);
	for (const { der, which } of lists) {
		try {
			file.crls.push({ crl: await readCrl(der, pause), which });
		} catch (error) {
			if (!(error instanceof CrlError)) throw error;
			file.faults.push(`${which} ${error.message}`);
		}
	}
	return file;
}

/** First octet of every CRL in DER, and in ASCII the digit 0. */
const DER_SEQUENCE = 0x30;

/** @returns its lists, not read yet; certificates and faults go into `file`. */
function readPemFile(bytes: Buffer, file: CrlFile): { readonly der: Buffer; readonly which: string }[] {
	try {
		const blocks = readBlocks(new TextDecoder().decode(bytes));
		const lists = blocks.filter(({ label }) => label === 'X509 CRL');
		for (const { label, line } of blocks) {
			if (label !== 'X509 CRL' && label !== 'CERTIFICATE')
				file.faults.push(`contains a block "${label}" on line ${line}, which is not a CRL; remove it`);
		}
		const certificates = blocks.filter(({ label }) => label === 'CERTIFICATE');
		for (const [i, { text, line }] of certificates.entries()) {
			try {
				file.certificates.push(new X509Certificate(text));
			} catch {
				file.faults.push(`${nth(i)} (line ${line}) is not readable; replace the file`);
			}
		}
		if (lists.length === 0) {
			file.faults.push('contains no CRL ("BEGIN X509 CRL", or DER); give the list that the CA publishes');
		}
		return lists.map(({ text, line }) => ({ der: derOf(text), which: `the CRL on line ${line}` }));
	} catch (error) {
		file.faults.push((error as Error).message);
		return [];
	}
}

function derOf(pem: string): Buffer {
	return Buffer.from(pem.split('\n').slice(1, -2).join(''), 'base64');
}
