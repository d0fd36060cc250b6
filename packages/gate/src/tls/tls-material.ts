import { createPrivateKey, type KeyObject, type X509Certificate } from 'node:crypto';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import type { PemMaterial } from '../shared/pem-material.ts';
import { isPrivateKey, nth, readBlocks, readCertificates } from './certificates.ts';
import { secureContextOptions } from './tls-options.ts';

/**
 * Checks the PEM texts of a TLS identity and its CA bundle before any listener uses them. Messages have only names, positions and
 * remedies, never content.
 */

/** One of the three texts. */
type TlsText = 'cert' | 'key' | 'ca';

/** The names of the texts in messages: a configuration key and the file, or a variable. */
export type TlsNames = Readonly<Record<TlsText, string>>;

/** A sentence about one of the texts, without its name. */
interface TlsFinding {
	readonly of: TlsText;
	readonly message: string;
	/** Set on a warning if peers refuse the certificate. */
	readonly failsCheck?: true;
}

interface TlsJudgement {
	/**
	 * Why the material cannot be used: unreadable or missing certificates, an unreadable or encrypted key, a key that
	 * belongs to another certificate, a bundle without a CA, or what OpenSSL refuses.
	 */
	readonly problems: readonly TlsFinding[];
	/** Faults that a listener tolerates but its operator should know. */
	readonly warnings: readonly TlsFinding[];
}

/**
 * Whether the material can be used.
 *
 * @throws Error with a line for each problem, which names the text at fault and the remedy.
 */
export function validateTlsMaterial(material: PemMaterial, names: TlsNames): void {
	const { problems } = judgeTlsMaterial(material, names, new Date());
	if (problems.length > 0) throw new Error(problems.map(({ of, message }) => `${names[of]}: ${message}`).join('\n'));
}

/** Which end of connections shows the certificate and trusts the bundle. */
export interface TlsRole {
	/** Of the certificate: extended key usage (RFC 5280 section 4.2.1.12), its name, and who refuses a certificate without it. */
	readonly usage: string;
	readonly usageName: string;
	readonly refusers: string;
	/** The remedy for a certificate without it: what to issue it for. */
	readonly purpose: string;
	/** Whose certificates the CAs of the bundle issue. */
	readonly peers: string;
	/** Whether peers look for a name in the certificate. */
	readonly needsName: boolean;
	/** Whether none of the three texts may be missing. */
	readonly needsAll: boolean;
	readonly contextOptions: (material: Partial<PemMaterial>) => SecureContextOptions;
}

/** The role of a listener. */
const SERVER: TlsRole = {
	usage: '1.3.6.1.5.5.7.3.1',
	usageName: 'serverAuth',
	refusers: 'clients',
	purpose: 'servers',
	peers: 'the clients',
	needsName: true,
	needsAll: true,
	contextOptions: (material) => secureContextOptions(material as PemMaterial),
};

/** @param material the existing ones of the three texts; each is judged, even if another one is missing. */
export function judgeTlsMaterial(
	material: Partial<PemMaterial>,
	names: TlsNames,
	now: Date,
	role: TlsRole = SERVER,
): TlsJudgement {
	const problems: TlsFinding[] = [];
	const read = <T>(of: TlsText, reader: (pem: string) => T): T | undefined => {
		try {
			return material[of] === undefined ? undefined : reader(material[of]);
		} catch (error) {
			problems.push({ of, message: (error as Error).message });
			return undefined;
		}
	};
	const chain = read('cert', readCertificates);
	const key = read('key', readPrivateKey);
	const bundle = read('ca', (pem) => readBundle(pem, role));
	if (chain && key) problems.push(...keyProblems(chain, key, names));
	const isComplete = !role.needsAll || (chain && key && bundle);
	if (isComplete && problems.length === 0) problems.push(...policyProblems(role.contextOptions(material), chain ?? []));
	const warnings = [
		...(chain ? chainWarnings(chain, now, role) : []).map((finding) => ({ of: 'cert', ...finding }) as const),
		...(bundle ? bundleWarnings(bundle, material.ca!, now) : []).map((message) => ({ of: 'ca', message }) as const),
	];
	return { problems, warnings };
}

function readPrivateKey(pem: string): KeyObject {
	const blocks = readBlocks(pem).filter(isPrivateKey);
	if (blocks.some(({ label, text }) => label.startsWith('ENCRYPTED') || /^Proc-Type: 4,ENCRYPTED/m.test(text))) {
		throw new Error('the key is encrypted, and there is no way to enter a passphrase; decrypt it (openssl pkey)');
	}
	if (!blocks.some(({ label }) => /^(?:RSA |EC )?PRIVATE KEY$/.test(label))) {
		throw new Error('contains no PEM private key (PKCS#8, PKCS#1 or SEC1)');
	}
	try {
		return createPrivateKey(pem);
	} catch {
		throw new Error('the private key is not readable; replace the file');
	}
}

function readBundle(pem: string, { peers }: TlsRole): X509Certificate[] {
	const bundle = readCertificates(pem);
	if (bundle.some((certificate) => certificate.ca)) return bundle;
	throw new Error(`contains no CA certificate (basicConstraints CA:TRUE); give the CA that issues ${peers}`);
}

function keyProblems([leaf, ...issuers]: readonly X509Certificate[], key: KeyObject, names: TlsNames): TlsFinding[] {
	if (leaf!.checkPrivateKey(key)) return [];
	const remedy = issuers.some((certificate) => certificate.checkPrivateKey(key))
		? 'it matches a later certificate in the file: put the leaf first, then its issuers'
		: 'give the key that this certificate was issued for';
	return [{ of: 'key', message: `the key does not match the first certificate of ${names.cert}; ${remedy}` }];
}

/** Problems of readable material are OpenSSL's policy: keys that are too short, digests that are too weak. */
function policyProblems(options: SecureContextOptions, chain: readonly X509Certificate[]): TlsFinding[] {
	const refusal = refusalOf(() => createSecureContext({ ...options, ca: [] }));
	if (refusal !== undefined) return [{ of: 'cert', message: inPlainWords(refusal, chain) }];
	const refusalOfBundle = refusalOf(() => createSecureContext(options));
	return refusalOfBundle === undefined ? [] : [{ of: 'ca', message: `refused by OpenSSL: ${refusalOfBundle}` }];
}

/** @returns OpenSSL's own words, as "ee key too small"; they name rules, never data. */
function refusalOf(create: () => unknown): string | undefined {
	try {
		create();
		return undefined;
	} catch (error) {
		const { reason, code } = error as { reason?: string; code?: string };
		return reason ?? code ?? 'no reason given';
	}
}

/** "ee" is the end entity, the leaf; "ca" any other certificate of the chain. */
function inPlainWords(refusal: string, [leaf, ...issuers]: readonly X509Certificate[]): string {
	const tooShort = /^(ee|ca) key too small$/.exec(refusal)?.[1];
	const at = tooShort === 'ca' ? issuers.findIndex((certificate) => strength(certificate) < LEAST_BITS.rsa) : -1;
	const certificate = tooShort === 'ee' ? leaf : issuers[at];
	if (certificate === undefined) return `refused by OpenSSL: ${refusal}`;
	const { asymmetricKeyType: type = '', asymmetricKeyDetails: details = {} } = certificate.publicKey;
	const size = details.modulusLength === undefined ? (details.namedCurve ?? '') : `${details.modulusLength} bits`;
	return (
		`the key of ${tooShort === 'ee' ? 'the leaf' : nth(at + 1)} is too small (${type.toUpperCase()}, ${size}); OpenSSL requires ` +
		`RSA of ${LEAST_BITS.rsa} bits or EC of ${LEAST_BITS.ec} bits at least: issue it with a larger key`
	);
}

/** Key sizes for 112 bits of security, OpenSSL's level 2 (NIST SP 800-57 part 1, table 2). */
const LEAST_BITS = { rsa: 2048, ec: 224 } as const;

function strength({ publicKey }: X509Certificate): number {
	return publicKey.asymmetricKeyDetails?.modulusLength ?? LEAST_BITS.rsa;
}

function chainWarnings(
	chain: readonly X509Certificate[],
	now: Date,
	{ usage, usageName, refusers, purpose, needsName }: TlsRole,
): Omit<TlsFinding, 'of'>[] {
	const [leaf, ...issuers] = chain;
	const warnings = issuers.flatMap((certificate, i) => validityWarning(certificate, nth(i + 1), now));
	if (needsName && leaf!.subjectAltName === undefined) {
		warnings.push(
			'the leaf has no subject alternative name, and clients check no other name; issue it with its names there',
		);
	}
	// In Node, `keyUsage` has the extended key usages. Without the extension a certificate may be used for anything.
	if (leaf!.keyUsage !== undefined && !leaf!.keyUsage.includes(usage)) {
		warnings.push(
			`the leaf has an extended key usage without ${usageName}: ${refusers} will refuse it; issue it for ${purpose}`,
		);
	}
	const stray = chain.findIndex((certificate, i) => i > 0 && !chain[i - 1]!.checkIssued(certificate));
	if (stray !== -1) {
		warnings.push(`${nth(stray)} did not issue the one before it; give the leaf, then each issuer in turn`);
	}
	const failsCheck = needsName && leaf!.validToDate < now ? ({ failsCheck: true } as const) : {};
	return [
		...validityWarning(leaf!, 'the leaf', now).map((message) => ({ message, ...failsCheck })),
		...warnings.map((message) => ({ message })),
	];
}

function bundleWarnings(bundle: readonly X509Certificate[], pem: string, now: Date): string[] {
	const warnings = bundle.flatMap((certificate, i) => [
		...validityWarning(certificate, nth(i), now),
		...(certificate.ca ? [] : [`${nth(i)} is not a CA (basicConstraints CA:TRUE), and is ignored`]),
	]);
	for (const block of readBlocks(pem)) {
		if (isPrivateKey(block)) {
			warnings.push(
				`contains a private key on line ${block.line}, which is not needed here: remove it, and check who could read it`,
			);
		} else if (block.label !== 'CERTIFICATE') {
			warnings.push(`contains a block "${block.label}" on line ${block.line}, which is ignored`);
		}
	}
	return warnings;
}

/** Enough time to see the warning and to renew by hand. */
const EXPIRES_SOON_MS = 30 * 24 * 3_600_000;

function validityWarning({ validFromDate, validToDate }: X509Certificate, which: string, now: Date): string[] {
	const leftMs = validToDate.getTime() - now.getTime();
	if (leftMs < 0) return [`${which} expired on ${validToDate.toISOString()}; renew it`];
	if (now < validFromDate) return [`${which} is not valid before ${validFromDate.toISOString()}`];
	if (leftMs <= EXPIRES_SOON_MS)
		return [`${which} expires on ${validToDate.toISOString()}, ${inDays(leftMs)}; renew it`];
	return [];
}

function inDays(ms: number): string {
	const days = Math.floor(ms / (24 * 3_600_000));
	return days === 0 ? 'in less than a day' : `in ${days} day${days === 1 ? '' : 's'}`;
}
