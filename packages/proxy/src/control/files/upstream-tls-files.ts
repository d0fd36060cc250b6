import type { TlsNames } from '@mtls-edge-proxy/gate/tls/tls-material.ts';
import type { Config, ConfigFiles, UpstreamConfig, UpstreamTlsConfig } from '../../config/config.ts';
import { upstreamKey } from '../../config/upstream.ts';
import type { UpstreamTlsSeed } from '../../shared/messages.ts';
import { UPSTREAM_ROLE } from '../../tls/upstream-tls.ts';
import type { Findings } from './findings.ts';

/**
 * Checks the files of `[upstreams.tls]`, for the start, a reload and `proxy check` alike. They are part of the routing table, and
 * replaced with it.
 */

/** For each upstream with TLS, by key (`upstreamKey`). */
export type UpstreamTlsMaterial = ReadonlyMap<string, UpstreamTlsSeed>;

/** @param config `undefined` if the configuration has faults elsewhere: its files are checked anyway. */
export async function judgeUpstreamTlsFiles(
	found: Findings,
	config: Config | undefined,
	now: Date,
): Promise<UpstreamTlsMaterial | undefined> {
	const seeds = new Map<UpstreamTlsConfig, UpstreamTlsSeed>();
	for (const { tls } of found.files.upstreams ?? []) {
		if (tls === undefined) continue;
		const { key, caPath, certPath, keyPath, minVersion } = tls;
		const places = {
			ca: [`${key}.ca_path`, caPath],
			cert: [`${key}.cert_path`, certPath],
			key: [`${key}.key_path`, keyPath],
		} as const;
		seeds.set(tls, toSeed(tls, await found.pemTexts(places, minVersion, now, UPSTREAM_ROLE)));
	}
	return config && materialOf([...config.upstreams, ...config.routes.map(({ upstream }) => upstream)], seeds);
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

function toSeed(
	{ serverName, minVersion, verify }: UpstreamTlsConfig,
	{ ca, cert, key }: { readonly [Text in keyof TlsNames]?: string },
): UpstreamTlsSeed {
	return { ca, cert, key, serverName, minVersion, verify };
}
