import type { TlsNames } from '@mtls-edge-proxy/gate/tls/tls-material.ts';
import type { Config, ConfigFiles, UpstreamConfig, UpstreamTlsConfig } from '../../config/config.ts';
import type { ConfigProblem } from '../../config/error.ts';
import { upstreamKey } from '../../config/upstream.ts';
import type { UpstreamTlsSeed } from '../../shared/messages.ts';
import { UPSTREAM_ROLE } from '../../tls/upstream-tls.ts';
import { type Judged, judgePemFiles } from './named-file.ts';

/**
 * Checks the files of `[upstreams.tls]`, for the start, a reload and `proxy check` alike. They are part of the routing table, and
 * replaced with it.
 */

/** For each upstream with TLS, by key (`upstreamKey`). */
export type UpstreamTlsMaterial = ReadonlyMap<string, UpstreamTlsSeed>;

/** @param config `undefined` if the configuration has faults elsewhere: its files are checked anyway. */
export async function judgeUpstreamTlsFiles(
	files: ConfigFiles,
	config: Config | undefined,
	now: Date,
): Promise<Judged<{ readonly upstreamTls: UpstreamTlsMaterial }>> {
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

/** The paths that a reload reads. */
export function upstreamTlsPaths({ upstreams = [] }: Pick<ConfigFiles, 'upstreams'>): string[] {
	return upstreams.flatMap(({ tls }) => [tls?.caPath, tls?.certPath, tls?.keyPath].flatMap((path) => path ?? []));
}

async function judgeFiles(
	files: ConfigFiles,
	tls: UpstreamTlsConfig,
	now: Date,
): Promise<Judged<{ readonly seed: UpstreamTlsSeed }>> {
	const { key, caPath, certPath, keyPath, minVersion } = tls;
	const { texts, problems, warnings } = await judgePemFiles(
		files,
		{ ca: [`${key}.ca_path`, caPath], cert: [`${key}.cert_path`, certPath], key: [`${key}.key_path`, keyPath] },
		minVersion,
		now,
		UPSTREAM_ROLE,
	);
	return { ...(problems.length === 0 && { seed: toSeed(tls, texts) }), problems, warnings };
}

function toSeed(
	{ serverName, minVersion, verify }: UpstreamTlsConfig,
	{ ca, cert, key }: { readonly [Text in keyof TlsNames]?: string },
): UpstreamTlsSeed {
	return { ca, cert, key, serverName, minVersion, verify };
}
