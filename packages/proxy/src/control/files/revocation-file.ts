import { X509Certificate } from 'node:crypto';
import { factsOf } from '@mtls-edge-proxy/gate/identity/certificate-facts.ts';
import { eitherWayKey, inOneLine, readName } from '@mtls-edge-proxy/gate/identity/distinguished-name.ts';
import type { RevocationList } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import { casOf } from '@mtls-edge-proxy/gate/tls/certificates.ts';
import type { ConfigFiles } from '../../config/config.ts';
import { type RevocationReading, readRevocationList } from '../../config/revocation-list.ts';
import { nobodysTenant } from '../../config/tenant-names.ts';
import { type Judged, readNamed } from './named-file.ts';

/**
 * Reads and judges the file of `revoked_path`, if there is one.
 *
 * @param bundle text of `tls.client_ca_path`; `undefined` if that is wrong.
 */
export async function judgeRevocationList(
	files: ConfigFiles,
	bundle: string | undefined,
): Promise<Judged<{ readonly revoked: RevocationList }>> {
	const { text, problems, about } = await readNamed(files, 'revoked_path', files.revokedPath);
	if (text === undefined) return { problems, warnings: [] };
	const { list, problems: faults, about: inList } = readRevocationList(text);
	if (list === undefined) return { problems: faults.map(about), warnings: [] };
	const warnings = [...strangers(list, inList, bundle), ...nobodies(list, inList, files)];
	return { revoked: list, problems: [], warnings: warnings.map(about) };
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
