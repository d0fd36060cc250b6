/** A table of Markdown. Cells are Markdown in one line. */
export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
	const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
	return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n');
}

/** Code in a sentence. */
export function code(text: string): string {
	return `\`${text}\``;
}

/** `1,099,511,627,776` */
export function grouped(n: number): string {
	return n.toLocaleString('en-US');
}
