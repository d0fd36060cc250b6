import type { Config } from '../../config/config.ts';

/** `jwt.audience (config.toml:12)`; a key that the file does not have is the default. */
export function placeOf({ path, lines }: Pick<Config, 'path' | 'lines'>, key: string): string {
	const line = lines[key];
	return line === undefined ? `${key} (the default)` : `${key} (${path}:${line})`;
}

/** `12 s`, `3 h`, `40 days`. */
export function inWords(seconds: number): string {
	const s = Math.floor(seconds);
	if (s < 120) return `${s} s`;
	if (s < 2 * 3600) return `${Math.floor(s / 60)} min`;
	return s < 48 * 3600 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86_400)} days`;
}

/** RFC 3339 to the second; some numbers are not a valid time. */
export function timeOf(seconds: number): string {
	const date = new Date(seconds * 1000);
	return Number.isNaN(date.getTime()) ? 'no time' : `${date.toISOString().slice(0, 19)}Z`;
}
