import type { Candidates, Random } from '../../../../packages/proxy/src/gates/balancing/balancer.ts';

/** Addresses of which a test knows everything. */
export class FakeCandidates implements Candidates {
	/** Those that do not admit. */
	readonly refusing = new Set<number>();
	readonly loads: number[];
	weights: readonly number[];
	latest = -1;

	constructor(weights: readonly number[]) {
		this.weights = weights;
		this.loads = weights.map(() => 0);
	}

	admits(i: number): boolean {
		return !this.refusing.has(i);
	}

	load(i: number): number {
		return this.loads[i]!;
	}

	weight(i: number): number {
		return this.weights[i]!;
	}
}

/** Numbers that look random and are the same in each run (mulberry32). */
export function seeded(seed: number): Random {
	let state = seed | 0;
	return () => {
		state = (state + 0x6d2b79f5) | 0;
		let bits = Math.imul(state ^ (state >>> 15), 1 | state);
		bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
		return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
	};
}

/** How often each of them is chosen. */
export function chosen(times: number, count: number, choose: (n: number) => number): number[] {
	const counts = Array<number>(count).fill(0);
	for (let n = 0; n < times; n++) counts[choose(n)]! += 1;
	return counts;
}

/** Whether each count is as large as its weight says, give or take a part of it. */
export function areAs(weights: readonly number[], counts: readonly number[], part: number): boolean {
	const times = counts.reduce((sum, one) => sum + one, 0);
	const total = weights.reduce((sum, one) => sum + one, 0);
	return counts.every((count, i) => {
		const wanted = (times * weights[i]!) / total;
		return Math.abs(count - wanted) <= wanted * part;
	});
}
