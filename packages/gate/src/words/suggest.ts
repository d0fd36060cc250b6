/**
 * "Did you mean": the most likely intended candidate for a mistyped word.
 *
 * @returns the closest candidate, or `undefined` when none is close enough to be worth saying: a third of the word's
 *   characters may differ, and a wrong guess costs the reader more than none.
 */
export function suggest(word: string, candidates: Iterable<string>): string | undefined {
	const wanted = normalise(word);
	let closest: string | undefined;
	let least = Math.max(1, Math.floor(wanted.length / 3)) + 1;
	for (const candidate of candidates) {
		const distance = editDistance(wanted, normalise(candidate));
		if (distance < least) {
			closest = candidate;
			least = distance;
		}
	}
	return closest;
}

/** Case and the choice between `-` and `_` are what people misremember first, so they count for nothing. */
function normalise(word: string): string {
	return word.toLowerCase().replaceAll('-', '_');
}

/** Optimal string alignment: insertions, deletions, substitutions and swaps of two neighbours each cost one. */
function editDistance(a: string, b: string): number {
	let beforeLast: number[] = [];
	let last = Array.from({ length: b.length + 1 }, (_, column) => column);
	for (let row = 1; row <= a.length; row++) {
		const current = [row];
		for (let column = 1; column <= b.length; column++) {
			const replaced = last[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1);
			let cost = Math.min(replaced, last[column]! + 1, current[column - 1]! + 1);
			const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
			if (swapped) cost = Math.min(cost, beforeLast[column - 2]! + 1);
			current.push(cost);
		}
		beforeLast = last;
		last = current;
	}
	return last[b.length]!;
}
