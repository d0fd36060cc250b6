import { X509Certificate } from 'node:crypto';
import { factsOf } from '@mtls-edge-proxy/gate/identity/certificate-facts.ts';
import { eitherWayKey, inOneLine, readName } from '@mtls-edge-proxy/gate/identity/distinguished-name.ts';
import { NOTHING_REVOKED, type RevocationList } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import { casOf } from '@mtls-edge-proxy/gate/tls/certificates.ts';
import type { ConfigFiles } from '../../config/config.ts';
import { type RevocationReading, readRevocationList } from '../../config/revocation-list.ts';
import { nobodysTenant } from '../../config/tenant-names.ts';
import type { TlsMaterial } from '../../shared/messages.ts';
import { judgeCrlFiles } from '../crl/files.ts';
import type { Findings } from './findings.ts';

/** Reads and judges the files of `[tls]` and of revocations. Messages never quote a file. @returns `undefined` if one is missing. */
export async function judgeTlsFiles(found: Findings, now: Date): Promise<TlsMaterial | undefined> {
	const { certPath, keyPath, clientCaPath, minVersion, ...tls } = found.files.tls;
	const places = {
		cert: ['tls.cert_path', certPath],
		key: ['tls.key_path', keyPath],
		ca: ['tls.client_ca_path', clientCaPath],
	} as const;
	const { cert, key, ca, isUsable } = await found.pemTexts(places, minVersion, now);
	const bundle = isUsable('ca') ? ca : undefined;
	const crls = await judgeCrlFiles(found, bundle, now);
	const revoked = await judgeRevocationList(found, bundle);
	if (cert === undefined || key === undefined || ca === undefined) return undefined;
	const { endAtExpiry = true, endAtCaRemoval = false, crlRequired = false } = tls;
	return { cert, key, ca, minVersion, clients: { crls, revoked, crlRequired, endAtExpiry, endAtCaRemoval } };
}

/**
 * Reads and judges the file of `revoked_path`, if there is one.
 *
 * @param bundle text of `tls.client_ca_path`; `undefined` if that is wrong.
 */
async function judgeRevocationList(found: Findings, bundle: string | undefined): Promise<RevocationList> {
	const file = found.file('revoked_path', found.files.revokedPath);
	const text = await file.text();
	if (text === undefined) return NOTHING_REVOKED;
	const { list, problems, about } = readRevocationList(text);
	for (const problem of problems) file.fault(problem);
	if (list === undefined) return NOTHING_REVOKED;
	for (const warning of strangers(list, about, bundle)) file.warn(warning);
	for (const warning of nobodies(list, about, found.files)) file.warn(warning);
	return list;
}

type InList = RevocationReading['about'];

/** Entries that no tenant can match: they revoke nothing, although their author believes that a tenant is stopped. */
function nobodies({ tenants }: RevocationList, inList: InList, { issuers = [] }: ConfigFiles): string[] {
	return tenants.flatMap((tenant, i) => {
		const nobody = nobodysTenant(tenant, issuers);
		return nobody === undefined ? [] : [inList(`tenants[${i}]`, nobody)];
	});
}

/** Entries with an unknown issuer: they revoke nothing, and are probably misspelt. */
function strangers({ serials }: RevocationList, inList: InList, bundle: string | undefined): string[] {
	if (bundle === undefined || serials.length === 0) return [];
	const cas = casOf(bundle).map((pem) => new X509Certificate(pem));
	const keys = cas.map((ca) => eitherWayKey(readName(factsOf(ca).subject)));
	const names = cas.slice(0, MAX_NAMES).map(({ subject }) => `"${inOneLine(subject ?? '')}"`);
	const message =
		`is not the name of a CA in tls.client_ca_path, which has ${names.join(', ')}; check its spelling, unless it is an ` +
		'intermediate that clients send';
	return serials.flatMap(({ issuer }, i) => (keys.includes(issuer) ? [] : [inList(`serials[${i}].issuer`, message)]));
}

/** As many names as fit in a line. */
const MAX_NAMES = 5;
