import { readFileSync } from 'node:fs';
import type { Config, Limits } from './config.ts';
import { diagnose, duplicatePrefixes } from './diagnose.ts';
import { ConfigError } from './error.ts';
import { type ConfigFile, configFile } from './schema.ts';
import { parseToml } from './toml.ts';

/**
 * Reads and checks the configuration file (specification 2.1). The files that it names are not looked at.
 *
 * @param path relative to the working directory of the process, like the paths inside the file.
 * @throws ConfigError when the file cannot be read or anything in it is wrong.
 */
export function loadConfig(path: string): Config {
	return parseConfig(readText(path), path);
}

/**
 * Checks the text of a configuration file; pure.
 *
 * @param path for messages and `Config.path`.
 * @returns the configuration, deeply frozen.
 * @throws ConfigError naming every problem at once, each with its line.
 */
export function parseConfig(text: string, path: string): Config {
	const document = parseToml(text, path);
	// Error messages are worded from what was found, which zod keeps to itself unless asked.
	const result = configFile.safeParse(document.root, { reportInput: true });
	const problems = [...diagnose(document, result.error?.issues ?? []), ...duplicatePrefixes(document)];
	if (!result.success || problems.length > 0) throw new ConfigError(path, problems);
	return deepFreeze(toConfig(path, result.data));
}

function readText(path: string): string {
	try {
		return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path));
	} catch (error) {
		const { code } = error as NodeJS.ErrnoException;
		const reason = READ_ERRORS.get(code ?? '') ?? (error as Error).message;
		const message = `cannot be read: ${reason}; name another file with --config or PROXY_CONFIG`;
		throw new ConfigError(path, [{ message }], { cause: error });
	}
}

const READ_ERRORS = new Map([
	['ENOENT', 'there is no such file'],
	['EACCES', 'permission denied'],
	['EISDIR', 'it is a directory'],
	['ERR_ENCODING_INVALID_ENCODED_DATA', 'it is not UTF-8 text'],
]);

function toConfig(path: string, file: ConfigFile): Config {
	return {
		path,
		healthIntervalMs: milliseconds(file.health_interval_secs),
		tenantRps: file.tenant_rps,
		tls: { certPath: file.tls.cert_path, keyPath: file.tls.key_path, clientCaPath: file.tls.client_ca_path },
		jwt: { publicKeyPath: file.jwt.jwks_path, issuer: file.jwt.issuer, audience: file.jwt.audience },
		routes: file.routes.map(({ prefix, upstream, cooldown_secs = file.default_cooldown_secs }) => ({
			prefix,
			upstream,
			cooldownMs: milliseconds(cooldown_secs),
		})),
		limits: toLimits(file.limits),
		log: { access: file.log.access, requestId: file.log.request_id },
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
		maxHeaderBytes: limits.max_header_bytes,
		maxBufferedBytes: limits.max_buffered_bytes,
		maxConnections: limits.max_connections,
	};
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
