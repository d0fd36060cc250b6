import { z } from 'zod';
import type { Config } from './config.ts';
import { type ConfigFile, configFile } from './schema.ts';
import { type ReadAt, withoutWrappers } from './tables/kinds.ts';

/**
 * Settings that only a restart applies. Their schema marks them (`read: 'at startup'`).
 */

/** Values by full key (`limits.max_header_bytes`), as text that differs if the values do; `undefined`: the file does not have the key. */
export type StartSettings = Readonly<Record<string, string | undefined>>;

/** A setting of the file that is not in force. */
export interface VainSetting {
	/** `tenant_rps`. */
	readonly key: string;
	/** `tenant_rps (config.toml:3)`: where it was changed or removed. */
	readonly words: string;
}

/** Values of all keys of this file that are read only at the start. */
export function startSettings(file: ConfigFile): StartSettings {
	// `[[issuers]]`, which take the place of `[jwt]`, are reloaded.
	const reloadsJwt = file.jwt.reload || file.jwt.jwks_path === undefined;
	const keys = START_KEYS.filter(({ unlessReload }) => !(unlessReload && reloadsJwt));
	return Object.fromEntries(keys.map(({ path }) => [path.join('.'), JSON.stringify(valueAt(file, path))]));
}

/**
 * Settings that differ from those of the file at the start, in the order of the schema. Only keys that one of the two files has are
 * named, not derived defaults.
 */
export function changedInVain(
	booted: Pick<Config, 'atStart' | 'lines'>,
	current: Pick<Config, 'atStart' | 'lines' | 'path'>,
): VainSetting[] {
	return Object.entries(current.atStart)
		.filter(([key, value]) => booted.atStart[key] !== value)
		.filter(([key]) => (booted.lines[key] ?? current.lines[key]) !== undefined)
		.map(([key]) => vainSetting(key, current));
}

/** @param file the file that the key names, if its content has changed and the key has not. */
export function vainSetting(key: string, { lines, path }: Pick<Config, 'lines' | 'path'>, file?: string): VainSetting {
	const line = lines[key];
	const place = line === undefined ? `removed from ${path}` : `${path}:${line}`;
	return { key, words: file === undefined ? `${key} (${place})` : `${key} (${place}: ${file} has changed)` };
}

interface StartKey {
	readonly path: readonly string[];
	/** Of `[jwt]`. */
	readonly unlessReload: boolean;
}

/** Skips lists of tables: a reload applies all their keys. */
function* startKeys(
	schema: z.core.$ZodType,
	path: readonly string[],
	inherited: ReadAt | undefined,
): Generator<StartKey> {
	const { type, read = inherited } = withoutWrappers(schema);
	if (type instanceof z.ZodObject) {
		for (const [key, part] of Object.entries(type.shape)) yield* startKeys(part, [...path, key], read);
	} else if (read !== undefined && read !== 'by each reload') {
		yield { path, unlessReload: read === 'at startup, unless `reload`' };
	}
}

const START_KEYS: readonly StartKey[] = [...startKeys(configFile, [], undefined)];

function valueAt(file: ConfigFile, path: readonly string[]): unknown {
	return path.reduce<unknown>((table, key) => (table as Record<string, unknown> | undefined)?.[key], file);
}
