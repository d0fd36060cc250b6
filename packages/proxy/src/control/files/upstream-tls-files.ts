import { judgeTlsMaterial, type TlsNames } from '@mtls-edge-proxy/gate/tls/tls-material.ts';
import type { Config, ConfigFiles, UpstreamConfig, UpstreamTlsConfig } from '../../config/config.ts';
import { ConfigError, type ConfigProblem } from '../../config/error.ts';
import { upstreamKey } from '../../config/upstream.ts';
import type { UpstreamTlsSeed } from '../../shared/messages.ts';
import { UPSTREAM_ROLE } from '../../tls/upstream-tls.ts';
import { type Judged, readNamed } from './named-file.ts';

/**
 * Checks the files of `[upstreams.tls]`, for the start, a reload and `proxy check` alike. They are part of the routing table, and
 * replaced with it.
 */

/** For each upstream with TLS, by key (`upstreamKey`). */
export type UpstreamTlsMaterial = ReadonlyMap<string, UpstreamTlsSeed>;

interface UpstreamTlsFiles {
	readonly upstreamTls: UpstreamTlsMaterial;
}

/** @param config `undefined` if the configuration has faults elsewhere: its files are checked anyway. */
export async function judgeUpstreamTlsFiles(
	files: ConfigFiles,
	config: Config | undefined,
	now: Date,
): Promise<Judged<UpstreamTlsFiles>> {
	const problems: ConfigProblem[] = [];
	const warnings: ConfigProblem[] = [];
	const seeds = new Map<UpstreamTlsConfig, UpstreamTlsSeed>();
	for (const { tls } of files.upstreams ?? []) {
		if (tls === undefined) continue;
		const judged = await judgeFiles(files, tls, now);
		problems.push(...judged.problems);
		warnings.push(...judged.warnings);
		if (judged.seed !== undefined) seeds.set(tls, judged.seed);
	}
	if (config === undefined || problems.length > 0) return { problems, warnings };
	const upstreams = [...config.upstreams, ...config.routes.map(({ upstream }) => upstream)];
	return { upstreamTls: materialOf(upstreams, seeds), problems, warnings };
}

function materialOf(
	upstreams: readonly UpstreamConfig[],
	seeds: ReadonlyMap<UpstreamTlsConfig, UpstreamTlsSeed>,
): UpstreamTlsMaterial {
	return new Map(
		upstreams.flatMap((upstream) => {
			const { tls } = upstream;
			return tls === undefined ? [] : [[upstreamKey(upstream), seeds.get(tls) ?? toSeed(tls, {})] as const];
		}),
	);
}

/**
 * The same for callers that need usable material.
 *
 * @throws ConfigError naming every problem.
 */
export async function readUpstreamTlsFiles(
	config: Config,
	now: Date,
): Promise<UpstreamTlsFiles & { readonly warnings: readonly ConfigProblem[] }> {
	const { upstreamTls, problems, warnings } = await judgeUpstreamTlsFiles(config, config, now);
	if (upstreamTls === undefined) throw new ConfigError(config.path, problems);
	return { upstreamTls, warnings };
}

/** The paths that a reload reads. */
export function upstreamTlsPaths({ upstreams = [] }: Pick<ConfigFiles, 'upstreams'>): string[] {
	return upstreams.flatMap(({ tls }) => [tls?.caPath, tls?.certPath, tls?.keyPath].flatMap((path) => path ?? []));
}

async function judgeFiles(
	files: ConfigFiles,
	tls: UpstreamTlsConfig,
	now: Date,
): Promise<Judged<{ readonly seed: UpstreamTlsSeed }>> {
	const { key: table, caPath, certPath, keyPath } = tls;
	const ca = await readNamed(files, `${table}.ca_path`, caPath);
	const cert = await readNamed(files, `${table}.cert_path`, certPath);
	const key = await readNamed(files, `${table}.key_path`, keyPath);
	const named = { ca, cert, key };
	const names: TlsNames = {
		ca: `${table}.ca_path (${caPath})`,
		cert: `${table}.cert_path (${certPath})`,
		key: `${table}.key_path (${keyPath})`,
	};
	const seed = toSeed(tls, { ca: ca.text, cert: cert.text, key: key.text });
	const judgement = judgeTlsMaterial(withoutMissing(seed), names, now, UPSTREAM_ROLE);
	const problems = [
		...Object.values(named).flatMap(({ problem }) => problem ?? []),
		...judgement.problems.map(({ of, message }) => named[of].about(message)),
	];
	const warnings = judgement.warnings.map(({ of, message }) => named[of].about(message));
	return { ...(problems.length === 0 && { seed }), problems, warnings };
}

function toSeed(
	{ serverName, minVersion, verify }: UpstreamTlsConfig,
	{ ca, cert, key }: { ca?: string | undefined; cert?: string | undefined; key?: string | undefined },
): UpstreamTlsSeed {
	return { ca, cert, key, serverName, minVersion, verify };
}

function withoutMissing({ ca, cert, key, minVersion }: UpstreamTlsSeed) {
	return {
		...(ca !== undefined && { ca }),
		...(cert !== undefined && { cert }),
		...(key !== undefined && { key }),
		minVersion,
	};
}
