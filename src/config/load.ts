import { FileError, readRegularFile } from '../shared/regular-file.ts';
import type { Config, ConfigFiles } from './config.ts';
import { crlConflicts } from './crl-conflicts.ts';
import { diagnose, linesByKey } from './diagnose.ts';
import { ConfigError, type ConfigProblem } from './error.ts';
import { issuerFiles } from './issuer.ts';
import { issuerConflicts } from './issuer-conflicts.ts';
import { limiterConflicts } from './limiter-conflicts.ts';
import { prefixConflicts } from './prefix-conflicts.ts';
import { quotaConflicts } from './quota-conflicts.ts';
import { configFile } from './schema.ts';
import { stripConflicts } from './strip-conflicts.ts';
import { parseToml, type TomlTable } from './toml.ts';
import { traceConflicts } from './trace-conflicts.ts';
import { toConfig, toUpstreamTls } from './translate.ts';
import { readUnits } from './units.ts';
import { upstreamConflicts } from './upstream-conflicts.ts';
import { upstreamTlsConflicts } from './upstream-tls-conflicts.ts';

/** What came of reading a configuration file. */
export interface ConfigReading {
	/** `undefined` where there are problems. */
	readonly config: Config | undefined;
	readonly problems: readonly ConfigProblem[];
	/** The files that it names, also where something else in it is wrong: so that they can be judged at once. */
	readonly files: ConfigFiles;
}

/**
 * Reads and checks the configuration file. The files that it names are not looked at.
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
		return {
			config: undefined,
			problems: error.problems,
			files: { path, lines: {}, tls: {}, jwt: {}, issuerFiles: [] },
		};
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
	readUnits(document.root);
	// Error messages are worded from what was found, which zod keeps to itself unless asked.
	const result = configFile.safeParse(document.root, { reportInput: true });
	const problems = [
		...diagnose(document, result.error?.issues ?? []),
		...prefixConflicts(document),
		...upstreamConflicts(document),
		...stripConflicts(document),
		...upstreamTlsConflicts(document),
		...crlConflicts(document),
		...issuerConflicts(document),
		...quotaConflicts(document),
		...traceConflicts(document),
		...limiterConflicts(document),
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
	root: TomlTable,
	problems: readonly ConfigProblem[],
): ConfigFiles {
	const wrong = new Set(problems.map(({ key }) => key));
	const usable = (value: unknown, key: string) => (typeof value === 'string' && !wrong.has(key) ? value : undefined);
	const named = (table: 'tls' | 'jwt' | 'trace' | 'limiter', key: string): string | undefined =>
		usable((root[table] as TomlTable | undefined)?.[key], `${table}.${key}`);
	const crls = (root.tls as TomlTable | undefined)?.crl_path;
	return {
		path,
		lines,
		tls: {
			certPath: named('tls', 'cert_path'),
			keyPath: named('tls', 'key_path'),
			clientCaPath: named('tls', 'client_ca_path'),
			crlPaths: [crls].flat().flatMap((path, i) => usable(path, `tls.crl_path[${i}]`) ?? []),
		},
		jwt: { publicKeyPath: named('jwt', 'jwks_path') },
		trace: { caPath: named('trace', 'ca_path'), headersPath: named('trace', 'headers_path') },
		limiter: {
			passwordPath: named('limiter', 'password_path'),
			sentinelPasswordPath: named('limiter', 'sentinel_password_path'),
			caPath: named('limiter', 'ca_path'),
			certPath: named('limiter', 'cert_path'),
			keyPath: named('limiter', 'key_path'),
			secretPath: named('limiter', 'secret_path'),
		},
		revokedPath: usable(root.revoked_path, 'revoked_path'),
		issuerFiles: (Array.isArray(root.issuers) ? root.issuers : []).flatMap((issuer, i) =>
			issuerFiles(issuer ?? {}, i, (key) => ![...wrong].some((problem) => problem?.startsWith(key))),
		),
		upstreams: (Array.isArray(root.upstreams) ? root.upstreams : []).flatMap((upstream, i) => {
			const { tls } = (upstream ?? {}) as { tls?: Record<string, unknown> };
			if (typeof tls !== 'object' || tls === null) return [];
			const key = `upstreams[${i}].tls`;
			const one = (name: string) => usable(tls[name], `${key}.${name}`);
			const paths = { ca_path: one('ca_path'), cert_path: one('cert_path'), key_path: one('key_path') };
			return [{ tls: toUpstreamTls({ ...paths, insecure_skip_verify: tls.insecure_skip_verify === true }, key) }];
		}),
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

function deepFreeze<T>(value: T): T {
	if (typeof value !== 'object' || value === null) return value;
	for (const part of Object.values(value)) deepFreeze(part);
	return Object.freeze(value);
}
