/** What requests of one tenant say about the promise of shared limits: over any 10 s at most so many, and at least so many of those asked for. Pure. */

export interface Limit {
	readonly rps: number;
	readonly burst: number;
}

/** One request; times in ms, of one clock. */
export interface Asked {
	readonly sentMs: number;
	/** When its answer had come. */
	readonly endMs: number;
	readonly status: number;
}

const WINDOW_MS = 10_000;

/** What the promise allows over 10 s. */
export function mostIn10s({ rps, burst }: Limit): number {
	return rps * 10 * 1.05 + burst;
}

/**
 * The most requests that were let through in any 10 s. Only those count that were sent and answered within them: they have certainly
 * been let through then, however slow the machine was.
 */
export function worstIn10s(asked: readonly Asked[]): number {
	const passed = asked.filter(({ status }) => status === 200).sort((a, b) => a.sentMs - b.sentMs);
	const longestMs = Math.max(0, ...passed.map(({ sentMs, endMs }) => endMs - sentMs));
	let worst = 0;
	let behind = 0;
	for (const [i, { sentMs }] of passed.entries()) {
		const until = sentMs + WINDOW_MS;
		while (behind < passed.length && passed[behind]!.sentMs <= until) behind++;
		let count = behind - i;
		for (let j = behind - 1; j >= i && passed[j]!.sentMs > until - longestMs; j--) {
			if (passed[j]!.endMs > until) count--;
		}
		worst = Math.max(worst, count);
	}
	return worst;
}

/**
 * How many of these requests one exact limiter, which is full at the first of them, would have let through, but no more than the rate
 * itself: what of a burst is there depends on what was before.
 */
export function dueTo(asked: readonly Asked[], { rps, burst }: Limit): number {
	const times = asked.map(({ sentMs }) => sentMs).sort((a, b) => a - b);
	if (times.length === 0) return 0;
	let level = burst;
	let passed = 0;
	let before = times[0]!;
	for (const at of times) {
		level = Math.min(burst, level + ((at - before) * rps) / 1000);
		before = at;
		if (level < 1) continue;
		level--;
		passed++;
	}
	return Math.min(passed, ((times.at(-1)! - times[0]!) * rps) / 1000);
}

export function passedOf(asked: readonly Asked[]): number {
	return asked.filter(({ status }) => status === 200).length;
}
