/** A table of Markdown. Cells are Markdown in one line. */
export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
	return [row(...head), `|${'---|'.repeat(head.length)}`, ...rows.map((cells) => row(...cells))].join('\n');
}

export function row(...cells: readonly string[]): string {
	return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

/** Code in a sentence. */
export function code(text: string): string {
	return `\`${text}\``;
}

/** `1,099,511,627,776` */
export function grouped(n: number): string {
	return n.toLocaleString('en-US');
}
