/** The form of values in `/status.json`: times are ISO 8601, durations in seconds, and what is not known is `null`. */

export const DAY_MS = 24 * 3_600_000;

export function iso(ms: number): string {
	return new Date(ms).toISOString();
}

/** @param seconds since the epoch. */
export function isoOf(seconds: number | undefined): string | null {
	return seconds === undefined ? null : iso(seconds * 1000);
}

/** Three digits. */
export function seconds(ms: number): number | null {
	return Number.isNaN(ms) ? null : Number((ms / 1000).toPrecision(3));
}

export function wholeSeconds(ms: number | undefined): number | null {
	return ms === undefined ? null : Math.round(ms / 1000);
}

/** Members and elements below this depth are written in one step: a row of `upstreams.items` is. */
const DEPTH = 3;

/** As `JSON.stringify`, in steps. */
export function* jsonOf(value: unknown, depth = DEPTH): Generator<void, string> {
	if (depth === 0 || typeof value !== 'object' || value === null) {
		yield;
		return JSON.stringify(value);
	}
	const parts: string[] = [];
	if (Array.isArray(value)) {
		for (const element of value) parts.push(yield* jsonOf(element, depth - 1));
		return `[${parts.join(',')}]`;
	}
	for (const [name, member] of Object.entries(value)) {
		if (member !== undefined) parts.push(`${JSON.stringify(name)}:${yield* jsonOf(member, depth - 1)}`);
	}
	return `{${parts.join(',')}}`;
}
