/** Names of counters, each with its labels. */
type CounterLists = Readonly<Record<string, readonly string[]>>;

export type Label<Lists extends CounterLists, Name extends keyof Lists> = Lists[Name][number];

/** Values by name and label, zeros included: an alert on a new series would miss its first count. */
type CounterReading<Lists extends CounterLists> = {
	readonly [Name in keyof Lists]: Map<Label<Lists, Name>, number>;
};

/** The layout of counters in a region of 64-bit floats: a row of cells for each name, in the order of its labels. */
export class CounterLayout<const Lists extends CounterLists> {
	readonly lists: Lists;
	/** First cell of each row. */
	readonly rows: Readonly<Record<keyof Lists, number>>;
	/** The first cell after all rows. */
	readonly end: number;

	/** @param from first cell. */
	constructor(lists: Lists, from: number) {
		this.lists = lists;
		let next = from;
		this.rows = Object.fromEntries(
			Object.entries(lists).map(([name, labels]) => {
				const row = next;
				next += labels.length;
				return [name, row];
			}),
		) as Record<keyof Lists, number>;
		this.end = next;
	}

	cell<Name extends keyof Lists>(name: Name, label: Label<Lists, Name>): number {
		return this.rows[name] + this.lists[name]!.indexOf(label);
	}

	read(cells: Float64Array): CounterReading<Lists> {
		const readRow = (name: keyof Lists) =>
			new Map(this.lists[name]!.map((label, i) => [label, cells[this.rows[name] + i]!]));
		return Object.fromEntries(Object.keys(this.lists).map((name) => [name, readRow(name)])) as CounterReading<Lists>;
	}
}

/** The first cells of several regions with one layout, added up. */
export function addedUp(regions: readonly Float64Array[], cells: number): Float64Array {
	const sums = new Float64Array(cells);
	for (const region of regions) for (let cell = 0; cell < cells; cell++) sums[cell]! += region[cell]!;
	return sums;
}

/** Cells of a row that counts responses: one for each status. */
export const STATUSES = 600;

/** The counts of such a row that are not zero. */
export function countsByStatus(cells: Float64Array): Map<number, number> {
	const found = new Map<number, number>();
	// A plain loop: most cells are zero, and a callback for each would be expensive.
	for (let status = 0; status < cells.length; status++) if (cells[status] !== 0) found.set(status, cells[status]!);
	return found;
}
