import { NOTHING_REVOKED } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import type { ConfigFiles } from '../../config/config.ts';
import type { TlsMaterial } from '../../shared/messages.ts';
import { judgeCrlFiles } from '../crl/files.ts';
import { type Judged, judgePemFiles } from './named-file.ts';
import { judgeRevocationList } from './revocation-file.ts';

/** Checks the files of `[tls]`, for the start, a reload and `proxy check` alike. */

/**
 * Reads and judges the files of `[tls]` and of revocations that the configuration names. Messages name line, key, file and remedy, and
 * never quote a file.
 */
export async function judgeTlsFiles(
	files: ConfigFiles,
	now: Date,
): Promise<Judged<{ readonly material: TlsMaterial }>> {
	const { certPath, keyPath, clientCaPath, minVersion } = files.tls;
	const places = {
		cert: ['tls.cert_path', certPath],
		key: ['tls.key_path', keyPath],
		ca: ['tls.client_ca_path', clientCaPath],
	} as const;
	const { texts, wrong, ...judged } = await judgePemFiles(files, places, minVersion, now);
	const revoked = await judgeRevocationFiles(files, wrong.has('ca') ? undefined : texts.ca, now);
	const problems = [...judged.problems, ...revoked.problems];
	const warnings = [...judged.warnings, ...revoked.warnings];
	const { cert, key, ca } = texts;
	if (problems.length > 0 || cert === undefined || key === undefined || ca === undefined) return { problems, warnings };
	const { endAtExpiry = true, endAtCaRemoval = false, crlRequired = false } = files.tls;
	const clients = { ...revoked.found, crlRequired, endAtExpiry, endAtCaRemoval };
	return { material: { cert, key, ca, minVersion, clients }, problems, warnings };
}

/** All files that revoke certificates or tokens. */
async function judgeRevocationFiles(files: ConfigFiles, bundle: string | undefined, now: Date) {
	const crls = await judgeCrlFiles(files, bundle, now);
	const list = await judgeRevocationList(files, bundle);
	return {
		found: { crls: crls.crls ?? [], revoked: list.revoked ?? NOTHING_REVOKED },
		problems: [...crls.problems, ...list.problems],
		warnings: [...crls.warnings, ...list.warnings],
	};
}
