import { MAX_RPS } from '../gates/tenant-limit.ts';
import type { RateClaim, RateSeed, TenantSeed } from '../identity/quotas.ts';
import { FileError, readRegularFile } from '../shared/regular-file.ts';
import type { Config, ConfigFiles, HealthSettings, Limits, RouteConfig } from './config.ts';
import { diagnose, duplicatePrefixes, linesByKey } from './diagnose.ts';
import { ConfigError, type ConfigProblem } from './error.ts';
import { quotaConflicts } from './quota-conflicts.ts';
import { type ConfigFile, configFile } from './schema.ts';
import { parseToml, type TomlTable } from './toml.ts';
import { upstreamConflicts } from './upstream-conflicts.ts';

/** What came of reading a configuration file. */
export interface ConfigReading {
	/** `undefined` where there are problems. */
	readonly config: Config | undefined;
	readonly problems: readonly ConfigProblem[];
	/** The files that it names, also where something else in it is wrong: so that they can be judged at once. */
	readonly files: ConfigFiles;
}

/**
 * Reads and checks the configuration file (specification 2.1). The files that it names are not looked at.
 *
 * @param path relative to the working directory of the process, like the paths inside the file.
 * @throws ConfigError when the file cannot be read or anything in it is wrong.
 */
export async function loadConfig(path: string): Promise<Config> {
	return parseConfig(await readText(path), path);
}

/** The same for those who want to know all that is wrong, here and in the files that it names. */
export async function readConfig(path: string): Promise<ConfigReading> {
	try {
		return diagnoseConfig(await readText(path), path);
	} catch (error) {
		if (!(error instanceof ConfigError)) throw error;
		return { config: undefined, problems: error.problems, files: { path, lines: {}, tls: {}, jwt: {} } };
	}
}

/**
 * Checks the text of a configuration file; pure.
 *
 * @param path for messages and `Config.path`.
 * @returns the configuration, deeply frozen.
 * @throws ConfigError naming every problem at once, each with its line.
 */
export function parseConfig(text: string, path: string): Config {
	const { config, problems } = diagnoseConfig(text, path);
	if (config === undefined) throw new ConfigError(path, problems);
	return config;
}

/** @throws ConfigError when the text is not TOML. */
function diagnoseConfig(text: string, path: string): ConfigReading {
	const document = parseToml(text, path);
	// Error messages are worded from what was found, which zod keeps to itself unless asked.
	const result = configFile.safeParse(document.root, { reportInput: true });
	const problems = [
		...diagnose(document, result.error?.issues ?? []),
		...duplicatePrefixes(document),
		...upstreamConflicts(document),
		...quotaConflicts(document),
	];
	const lines = linesByKey(document);
	if (result.success && problems.length === 0) {
		const config = deepFreeze(toConfig(path, lines, result.data));
		return { config, problems, files: config };
	}
	return { config: undefined, problems, files: namedFiles(path, lines, document.root, problems) };
}

/** The paths that are right by themselves. */
function namedFiles(
	path: string,
	lines: Config['lines'],
	{ tls, jwt }: TomlTable,
	problems: readonly ConfigProblem[],
): ConfigFiles {
	const wrong = new Set(problems.map(({ key }) => key));
	const named = (table: 'tls' | 'jwt', key: string): string | undefined => {
		const value = ((table === 'tls' ? tls : jwt) as TomlTable | undefined)?.[key];
		return typeof value === 'string' && !wrong.has(`${table}.${key}`) ? value : undefined;
	};
	return {
		path,
		lines,
		tls: {
			certPath: named('tls', 'cert_path'),
			keyPath: named('tls', 'key_path'),
			clientCaPath: named('tls', 'client_ca_path'),
		},
		jwt: { publicKeyPath: named('jwt', 'jwks_path') },
	};
}

/** What is larger is no configuration, and would take the parser seconds. */
const MAX_BYTES = 1024 * 1024;

async function readText(path: string): Promise<string> {
	try {
		return decode(await readRegularFile(path, { maxBytes: MAX_BYTES }), path);
	} catch (error) {
		if (!(error instanceof FileError)) throw error;
		const message = `cannot be read: ${error.message}; name another file with --config or PROXY_CONFIG`;
		throw new ConfigError(path, [{ message }], { cause: error });
	}
}

function decode(bytes: Buffer, path: string): string {
	try {
		return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
	} catch (error) {
		// What cannot be decoded becomes U+FFFD, which is encoded as other bytes than those that it stands for.
		const lenient = Buffer.from(bytes.toString('utf8'));
		const at = bytes.findIndex((byte, i) => byte !== lenient[i]);
		const line = bytes.subarray(0, at).toString('latin1').split('\n').length;
		const hex = bytes[at]!.toString(16).padStart(2, '0');
		const message = `is not UTF-8 text: byte ${at + 1} of the file is 0x${hex}; save it as UTF-8`;
		throw new ConfigError(path, [{ line, message }], { cause: error });
	}
}

function toConfig(path: string, lines: Config['lines'], file: ConfigFile): Config {
	return {
		path,
		lines,
		healthIntervalMs: milliseconds(file.health_interval_secs),
		tenantRps: file.tenant_rps,
		reloadOnChange: file.reload_on_change,
		tls: {
			certPath: file.tls.cert_path,
			keyPath: file.tls.key_path,
			clientCaPath: file.tls.client_ca_path,
			minVersion: file.tls.min_version,
		},
		jwt: {
			publicKeyPath: file.jwt.jwks_path,
			issuer: file.jwt.issuer,
			audience: file.jwt.audience,
			reload: file.jwt.reload,
			rateClaim: toRateClaim(file.jwt),
		},
		tenants: file.tenants.map(toTenant),
		reloadsIdentity: file.jwt.reload || file.tenants.length > 0,
		routes: file.routes.map((route) => toRoute(file, route)),
		limits: toLimits(file.limits),
		log: { access: file.log.access, requestId: file.log.request_id },
	};
}

function toRateClaim({ rate_claim, max_rps = MAX_RPS }: ConfigFile['jwt']): RateClaim | undefined {
	return rate_claim === undefined ? undefined : { name: rate_claim, maxRps: max_rps };
}

function toTenant({ name, rps, burst, concurrency }: ConfigFile['tenants'][number]): TenantSeed {
	return { name, rate: rps === 0 ? null : toRate({ rps, burst }), concurrency };
}

function toRate({ rps, burst }: { rps?: number | undefined; burst?: number | undefined }): RateSeed | undefined {
	return rps === undefined || rps === 0 ? undefined : { rps, burst: burst ?? rps };
}

function toRoute(file: ConfigFile, route: ConfigFile['routes'][number]): RouteConfig {
	return {
		prefix: route.prefix,
		upstream: route.upstream,
		cooldownMs: milliseconds(route.cooldown_secs ?? file.default_cooldown_secs),
		opening: {
			failures: route.failures ?? file.breaker.failures,
			tenants: route.tenants ?? file.breaker.tenants,
		},
		health: (route.health ?? file.health) ? toHealth(file, route) : undefined,
		idleTimeoutMs: milliseconds(route.upstream_idle_timeout_secs ?? file.upstream_idle_timeout_secs),
		rate: toRate(route),
	};
}

function toHealth(file: ConfigFile, route: ConfigFile['routes'][number]): HealthSettings {
	return {
		path: route.health_path ?? file.health_path,
		timeoutMs: milliseconds(route.health_timeout_secs ?? file.health_timeout_secs),
		unhealthyAfter: route.unhealthy_after ?? file.unhealthy_after,
		healthyAfter: route.healthy_after ?? file.healthy_after,
	};
}

function toLimits(limits: ConfigFile['limits']): Limits {
	return {
		maxRequestBodyBytes: limits.max_request_body_bytes,
		requestBodyTimeoutMs: milliseconds(limits.request_body_timeout_secs),
		upstreamTimeoutMs: milliseconds(limits.upstream_timeout_secs),
		tlsHandshakeTimeoutMs: milliseconds(limits.tls_handshake_timeout_secs),
		firstRequestTimeoutMs: milliseconds(limits.first_request_timeout_secs),
		h2MaxConcurrentStreams: limits.h2_max_concurrent_streams,
		shutdownDrainMs: milliseconds(limits.shutdown_drain_secs),
		shutdownDelayMs: limits.shutdown_delay_secs === 0 ? 0 : milliseconds(limits.shutdown_delay_secs),
		maxHeaderBytes: limits.max_header_bytes,
		maxBufferedBytes: limits.max_buffered_bytes,
		maxBufferedBytesPerTenant: limits.max_buffered_bytes_per_tenant ?? tenantShare(limits),
		minAnswerBytesPerSec: limits.min_answer_bytes_per_sec,
		maxConnections: limits.max_connections,
		rateLimitHeaders: limits.rate_limit_headers,
	};
}

/**
 * Half of the memory for bodies: however many bodies one tenant has held back, the others have the other half. Where memory is
 * scarce, still as much as one request of the largest size may need, whose buffer grows into one of up to twice its size.
 */
function tenantShare(limits: ConfigFile['limits']): number {
	const { max_buffered_bytes, max_request_body_bytes } = limits;
	return Math.min(max_buffered_bytes, Math.max(Math.ceil(max_buffered_bytes / 2), 3 * max_request_body_bytes));
}

/** Whole milliseconds, at least one: to Node's timers zero means "no limit" in some places and "at once" in others. */
function milliseconds(seconds: number): number {
	return Math.max(1, Math.round(seconds * 1000));
}

function deepFreeze<T>(value: T): T {
	if (typeof value !== 'object' || value === null) return value;
	for (const part of Object.values(value)) deepFreeze(part);
	return Object.freeze(value);
}
