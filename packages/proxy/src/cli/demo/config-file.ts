/** Writes configuration files: for the demo, and for tests that vary one key at a time. */

import type { z } from 'zod';
import type { configFile } from '../../config/schema.ts';
import type { route } from '../../config/tables/routes.ts';

export type TomlValue =
	| string
	| number
	| boolean
	| readonly TomlValue[]
	| { readonly [key: string]: TomlValue | undefined };

/** The keys of the schema with any value of the same kind, because tests also write refused values. */
type Keys<Table> = { readonly [Key in keyof Table]?: Kind<Table[Key]> | undefined };
type Kind<Value> = Value extends string
	? string
	: Value extends readonly (infer Element)[]
		? readonly Kind<Element>[]
		: Value extends object
			? Keys<Value>
			: Value;

type File = z.input<typeof configFile>;
export type RouteEntry = Keys<z.input<typeof route>> & { readonly prefix: string; readonly upstream: string };

/** The file's keys as they are spelled in it. Keys that are `undefined` are left out. */
export interface ConfigTables extends Keys<Omit<File, 'tls' | 'routes'>> {
	readonly tls: Keys<File['tls']>;
	readonly routes: readonly RouteEntry[];
}

/** The file's text. Keys outside any table come first, as TOML demands. */
export function renderConfig(config: ConfigTables): string {
	const entries = Object.entries(config as object);
	const isTable = (value: unknown) => typeof value === 'object' && value !== null;
	const top = entries.filter(([, value]) => !isTable(value));
	const tables = entries.flatMap(([name, value]) => {
		if (Array.isArray(value)) return value.map((one) => table(`[[${name}]]`, one));
		return isTable(value) ? [table(`[${name}]`, value as object)] : [];
	});
	return [keys(Object.fromEntries(top)), ...tables].join('\n');
}

function table(header: string, entries: object): string {
	return `${header}\n${keys(entries)}`;
}

function keys(entries: object): string {
	return Object.entries(entries as Record<string, TomlValue | undefined>)
		.filter(([, value]) => value !== undefined)
		.map(([key, value]) => `${key} = ${literal(value!)}\n`)
		.join('');
}

/** A JSON string is a TOML basic string but for DEL, which TOML wants escaped (TOML 1.0, "String"). */
function literal(value: TomlValue): string {
	if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
	if (typeof value === 'object') {
		const entries = Object.entries(value).flatMap(([key, one]) =>
			one === undefined ? [] : `${key} = ${literal(one)}`,
		);
		return `{ ${entries.join(', ')} }`;
	}
	return typeof value === 'string' ? JSON.stringify(value).replaceAll('\x7f', '\\u007f') : String(value);
}
