import type { TomlTable } from './toml.ts';

/**
 * Durations and sizes with a unit. The name of a key says what it holds: `…_secs` seconds, `…_bytes` bytes. Each takes a plain number,
 * or a text such as "30s" or "10MB".
 */

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const UNITS_BYTES: Readonly<Record<string, number>> = {
	B: 1,
	kB: 1e3,
	KB: 1e3,
	MB: 1e6,
	GB: 1e9,
	KiB: 2 ** 10,
	MiB: 2 ** 20,
	GiB: 2 ** 30,
};

interface Kind {
	readonly keys: RegExp;
	/** Matches a text with its unit, in syntax that JSON Schema shares. */
	readonly pattern: string;
	/** Converts the text to the unit of the key. */
	read(text: string): number | undefined;
	/** For messages. */
	readonly hint: string;
}

const DIGITS = '[0-9]{1,9}(?:\\.[0-9]{1,3})?';
const DURATION: Kind = {
	keys: /_secs$/,
	pattern: `^${DIGITS}(?:${Object.keys(UNITS_MS).join('|')})$`,
	read: (text) => {
		const ms = durationMs(text);
		return ms === undefined ? undefined : ms / 1_000;
	},
	hint: 'a duration is a number of seconds, or a string such as "500ms", "30s", "5m", "1h" or "7d"',
};
const SIZE: Kind = {
	keys: /_bytes(?:_per_tenant|_per_sec)?$/,
	pattern: `^${DIGITS}(?:${Object.keys(UNITS_BYTES).join('|')})$`,
	read: (text) => readUnit(text, UNITS_BYTES),
	hint: 'a size is a number of bytes, or a string such as "64KiB", "10MB" or "1GiB"',
};

/** The kind of unit, by the name of the key; `undefined` for most keys. */
export function unitOf(key: unknown): Kind | undefined {
	if (typeof key !== 'string') return undefined;
	return [DURATION, SIZE].find(({ keys }) => keys.test(key));
}

/** `30s`, `500ms`, `5m`, `1h`, `7d`. @returns milliseconds; `undefined` without a unit, or for anything else. */
export function durationMs(text: string): number | undefined {
	return readUnit(text, UNITS_MS);
}

/** Replaces durations and sizes with a unit by numbers, at any depth. Other texts stay, and the schema refuses them. */
export function readUnits(table: TomlTable): void {
	for (const [key, value] of Object.entries(table)) {
		if (typeof value === 'string') table[key] = unitOf(key)?.read(value) ?? value;
		else if (typeof value === 'object' && value !== null) readUnits(value as TomlTable);
	}
}

function readUnit(text: string, units: Readonly<Record<string, number>>): number | undefined {
	const [, digits = '', unit = ''] = /^([0-9]{1,9}(?:\.[0-9]{1,3})?)([A-Za-z]{1,3})$/.exec(text) ?? [];
	return Object.hasOwn(units, unit) ? Number(digits) * units[unit]! : undefined;
}
