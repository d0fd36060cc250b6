/** Adds up the counts of all workers. */

export function addUp<Key>(counts: readonly ReadonlyMap<Key, number>[]): Map<Key, number> {
	const sums = new Map<Key, number>();
	for (const map of counts) for (const [key, count] of map) sums.set(key, (sums.get(key) ?? 0) + count);
	return sums;
}

export function sum(counts: Iterable<number>): number {
	let sum = 0;
	for (const count of counts) sum += count;
	return sum;
}

export function total<T>(readings: readonly T[], value: (reading: T) => number): number {
	return readings.reduce((sum, reading) => sum + value(reading), 0);
}
