export function sum(counts: Iterable<number>): number {
	let sum = 0;
	for (const count of counts) sum += count;
	return sum;
}
