import { NOTHING_REVOKED } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import { judgeTlsMaterial, type TlsNames } from '@mtls-edge-proxy/gate/tls/tls-material.ts';
import type { Config, ConfigFiles } from '../../config/config.ts';
import { ConfigError, type ConfigProblem } from '../../config/error.ts';
import type { TlsMaterial } from '../../shared/messages.ts';
import { judgeCrlFiles } from '../crl/files.ts';
import { type Judged, readNamed } from './named-file.ts';
import { judgeRevocationList } from './revocation-file.ts';

/** Checks the files of `[tls]`, for the start, a reload and `proxy check` alike. */

/** A usable TLS identity, with warnings for the operator. */
interface TlsFiles {
	readonly material: TlsMaterial;
	readonly warnings: readonly ConfigProblem[];
}

/**
 * Reads and judges the files of `[tls]` and of revocations that the configuration names. Messages name line, key, file and remedy, and
 * never quote a file.
 */
export async function judgeTlsFiles(files: ConfigFiles, now: Date): Promise<Judged<TlsFiles>> {
	const { certPath, keyPath, clientCaPath } = files.tls;
	const cert = await readNamed(files, 'tls.cert_path', certPath);
	const key = await readNamed(files, 'tls.key_path', keyPath);
	const ca = await readNamed(files, 'tls.client_ca_path', clientCaPath);
	const named = { cert, key, ca };
	const names: TlsNames = {
		cert: `tls.cert_path (${certPath})`,
		key: `tls.key_path (${keyPath})`,
		ca: `tls.client_ca_path (${clientCaPath})`,
	};
	const texts = {
		cert: cert.text,
		key: key.text,
		ca: ca.text,
		minVersion: files.tls.minVersion,
	} as Partial<TlsMaterial>;
	const judgement = judgeTlsMaterial(texts, names, now);
	const problems = [
		...Object.values(named).flatMap(({ problem }) => (problem === undefined ? [] : [problem])),
		...judgement.problems.map(({ of, message }) => named[of].about(message)),
	];
	const warnings: ConfigProblem[] = judgement.warnings.map(({ of, message, failsCheck }) => {
		return { ...named[of].about(message), ...(failsCheck && { failsCheck }) };
	});
	const bundle = ca.problem || judgement.problems.some(({ of }) => of === 'ca') ? undefined : ca.text;
	const revoked = await judgeRevocationFiles(files, bundle, now);
	problems.push(...revoked.problems);
	warnings.push(...revoked.warnings);
	const usable = problems.length === 0 && Object.values(named).every(({ text }) => text !== undefined);
	const { endAtExpiry = true, endAtCaRemoval = false, crlRequired = false } = files.tls;
	const clients = { ...revoked.found, crlRequired, endAtExpiry, endAtCaRemoval };
	return { ...(usable && { material: { ...texts, clients } as TlsMaterial }), problems, warnings };
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

/**
 * The same for callers that need usable material.
 *
 * @throws ConfigError naming every problem.
 */
export async function readTlsFiles(config: Config, now: Date): Promise<TlsFiles> {
	const { material, problems, warnings } = await judgeTlsFiles(config, now);
	if (material === undefined) throw new ConfigError(config.path, problems);
	return { material, warnings };
}
