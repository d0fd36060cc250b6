export function sum(counts: Iterable<number>): number {
	let sum = 0;
	for (const count of counts) sum += count;
	return sum;
}

export function total<T>(readings: readonly T[], value: (reading: T) => number): number {
	return readings.reduce((sum, reading) => sum + value(reading), 0);
}
