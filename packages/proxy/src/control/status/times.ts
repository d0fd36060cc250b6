/** Times of `/status.json`. */

export const DAY_MS = 24 * 3_600_000;

export function iso(ms: number): string {
	return new Date(ms).toISOString();
}

/** @param seconds since the epoch. */
export function isoOf(seconds: number | undefined): string | null {
	return seconds === undefined ? null : iso(seconds * 1000);
}

/** Three digits; `null`: not known. */
export function seconds(ms: number): number | null {
	return Number.isNaN(ms) ? null : Number((ms / 1000).toPrecision(3));
}

export function wholeSeconds(ms: number | undefined): number | null {
	return ms === undefined ? null : Math.round(ms / 1000);
}
