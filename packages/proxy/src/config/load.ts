import { FileError, readRegularFile } from '@mtls-edge-proxy/gate/shared/regular-file.ts';
import type { Config, ConfigFiles } from './config.ts';
import { conflictsInTables, tablesOf } from './conflicts.ts';
import { diagnose } from './diagnose.ts';
import { ConfigError, type ConfigProblem } from './error.ts';
import { named } from './names.ts';
import { conflictsBetweenTables } from './route-conflicts.ts';
import { configFile, TABLES } from './schema.ts';
import { stripConflicts } from './strip-conflicts.ts';
import { READING } from './tables/kinds.ts';
import { isTable, parseToml, type TomlDocument } from './toml.ts';
import { issuerFiles, toConfig, toUpstreamTls } from './translate.ts';
import { readUnits } from './units.ts';

/** The result of reading a configuration file. */
interface ConfigReading {
	/** `undefined` if there are problems. */
	readonly config: Config | undefined;
	readonly problems: readonly ConfigProblem[];
	/** The files that it names, even if it has other faults, so that they are judged in the same run. */
	readonly files: ConfigFiles;
}

/**
 * Reads and checks the configuration file, but not the files that it names.
 *
 * @param path relative to the working directory of the process, like the paths inside the file.
 * @throws ConfigError when the file cannot be read or anything in it is wrong.
 */
export async function loadConfig(path: string): Promise<Config> {
	return parseConfig(await readText(path), path);
}

/** Like `loadConfig`, but returns the problems, so that the caller can also check the files that it names. */
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
	const result = configFile.safeParse(document.root, READING);
	const problems = [
		...diagnose(document, result.error?.issues ?? [], TABLES),
		...conflictsInTables(document),
		...conflictsBetweenTables(document),
		...stripConflicts(document),
	];
	if (!result.success || problems.length > 0) {
		return { config: undefined, problems, files: namedFiles(path, document, problems) };
	}
	const config = deepFreeze(toConfig(path, document.lines, result.data));
	return { config, problems, files: config };
}

/** The files that a configuration with problems names, without the paths that are wrong. */
function namedFiles(path: string, document: TomlDocument, problems: readonly ConfigProblem[]): ConfigFiles {
	const wrong = new Set(problems.map(({ key }) => key));
	const file = named(withoutWrong(document.root, '', wrong)) as Partial<ConfigFiles>;
	const isRight = (key: string) => ![...wrong].some((problem) => problem?.startsWith(key));
	return {
		path,
		lines: document.lines,
		tls: { ...file.tls, crlPath: [file.tls?.crlPath ?? []].flat() },
		jwt: file.jwt,
		trace: file.trace,
		limiter: file.limiter,
		revokedPath: file.revokedPath,
		issuerFiles: tablesOf(document, 'issuers').flatMap(({ table }, i) => issuerFiles(table, i, isRight)),
		upstreams: tablesOf(document, 'upstreams.tls').map(({ table, key }) => ({
			tls: toUpstreamTls(named(withoutWrong(table, key, wrong)) as Parameters<typeof toUpstreamTls>[0], key),
		})),
	};
}

/** A value of the file without the keys that are wrong, at any depth. */
function withoutWrong(value: unknown, key: string, wrong: ReadonlySet<string | undefined>): unknown {
	if (wrong.has(key)) return undefined;
	if (Array.isArray(value)) return value.map((one, i) => withoutWrong(one, `${key}[${i}]`, wrong));
	if (!isTable(value)) return value;
	const entries = Object.entries(value).map(([name, part]) => {
		return [name, withoutWrong(part, key === '' ? name : `${key}.${name}`, wrong)];
	});
	return Object.fromEntries(entries);
}

/** A larger file is not a configuration, and would take the parser seconds. */
const MAX_BYTES = 1024 * 1024;

async function readText(path: string): Promise<string> {
	try {
		return decode(await readRegularFile(path, { maxBytes: MAX_BYTES }), path);
	} catch (error) {
		if (!(error instanceof FileError)) throw error;
		const message = `cannot be read: ${error.message}; name another file with --config or PROXY_CONFIG, or make one with proxy init`;
		throw new ConfigError(path, [{ message }], { cause: error });
	}
}

function decode(bytes: Buffer, path: string): string {
	try {
		return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
	} catch (error) {
		// Invalid bytes decode to U+FFFD, which encodes to different bytes.
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
