/** Tables for a terminal: text left-aligned, numbers right-aligned. */
export function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
	const cells = [head, ...rows.map((row) => row.map((cell) => (typeof cell === 'number' ? grouped(cell) : cell)))];
	const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column]!.length)));
	const line = (row: readonly string[]) => {
		return row
			.map((cell, i) => (isText(rows, i) ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
			.join('  ')
			.trimEnd();
	};
	return cells.map(line).join('\n');
}

function isText(rows: readonly (readonly (string | number)[])[], column: number): boolean {
	return rows.some((row) => typeof row[column] === 'string' && !/^[-\d]/.test(row[column]));
}

/** 1234567 -> `1 234 567`; zero is a dot, so that other numbers stand out. */
function grouped(value: number): string {
	return value === 0 ? '.' : String(value).replace(/\B(?=(\d{3})+$)/g, ' ');
}
