import type { IdentitySeed } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { RemoteIssuer } from '@mtls-edge-proxy/gate/jwks/remote-issuer.ts';
import type { Config } from '../../config/config.ts';
import { ConfigError, type ConfigProblem } from '../../config/error.ts';
import { readConfig } from '../../config/load.ts';
import { configWarnings } from '../../config/warnings.ts';
import type { TlsMaterial } from '../../shared/messages.ts';
import { FileWatch, stampOf } from '../reload/file-watch.ts';
import { systemTimers } from '../timers.ts';
import { Findings } from './findings.ts';
import { judgeIdentityFiles } from './identity-files.ts';
import { judgeStoreFiles, type StoreFiles } from './store-files.ts';
import { judgeTlsFiles } from './tls-files.ts';
import { judgeTraceFiles, type TraceFiles } from './trace-files.ts';
import { judgeUpstreamTlsFiles, type UpstreamTlsMaterial, upstreamTlsPaths } from './upstream-tls-files.ts';

/** Everything that the start reads first. */
export interface StartFiles {
	readonly config: Config;
	readonly tls: TlsMaterial;
	readonly identity: IdentitySeed;
	readonly remotes: readonly RemoteIssuer[];
	readonly upstreamTls: UpstreamTlsMaterial;
	readonly trace: TraceFiles;
	readonly store: StoreFiles;
	/** Settings and files that are usable but doubtful. */
	readonly warnings: readonly ConfigProblem[];
	/** Watches the files that a reload reads, from before they were read; `undefined` without `reload_on_change`. */
	readonly watch?: FileWatch | undefined;
}

interface Inspection {
	/** `undefined` if there are problems. */
	readonly files: StartFiles | undefined;
	readonly problems: readonly ConfigProblem[];
	readonly warnings: readonly ConfigProblem[];
}

/** Reads the configuration and all files that it names, and finds every fault in them. */
export async function inspect(path: string, now: Date): Promise<Inspection> {
	const { config, problems: faults, files } = await readConfig(path);
	const found = new Findings(files);
	const tls = await judgeTlsFiles(found, now);
	const identity = await judgeIdentityFiles(found, config);
	const upstreamTls = await judgeUpstreamTlsFiles(found, config, now);
	const trace = await judgeTraceFiles(found);
	const store = await judgeStoreFiles(found);
	const problems = [...faults, ...found.problems];
	const warnings = [...(config === undefined ? [] : configWarnings(config)), ...found.warnings];
	const isUsable = problems.length === 0 && config && tls && identity && upstreamTls;
	const usable = isUsable ? { config, tls, ...identity, upstreamTls, trace, store, warnings } : undefined;
	return { files: usable, problems, warnings };
}

/**
 * The same for the start.
 *
 * @throws ConfigError naming every problem.
 */
export async function readStartFiles(path: string, now: Date): Promise<StartFiles> {
	const { files, problems } = await inspect(path, now);
	if (files === undefined) throw new ConfigError(path, problems);
	if (!files.config.reloadOnChange) return files;
	const watch = new FileWatch({ stampOf, timers: systemTimers }, reloadedFiles(files.config));
	await watch.reading();
	// Read again: a change between the first reading and the start of the watch would be missed.
	const again = await inspect(path, now);
	if (again.files === undefined) throw new ConfigError(path, again.problems);
	return { ...again.files, watch };
}

/** The files that a reload reads. */
export function reloadedFiles(config: Config): string[] {
	const { path, tls, jwt, issuerFiles, revokedPath } = config;
	const keys = jwt?.reload ? [jwt.jwksPath] : issuerFiles.map((file) => file.path);
	const revoked = revokedPath === undefined ? [] : [revokedPath];
	const ofUpstreams = upstreamTlsPaths(config);
	return [path, tls.certPath, tls.keyPath, tls.clientCaPath, ...tls.crlPath, ...revoked, ...keys, ...ofUpstreams];
}
