import type { FamilyDescription } from '../../packages/proxy/src/control/metrics/exposition.ts';
import { FAMILIES } from '../../packages/proxy/src/control/metrics/family-table.ts';
import { code, markdownTable } from './table.ts';

/** docs/reference/metrics.md: the families whose names begin so. */
export function familiesOf(prefix: string): string {
	const all: readonly FamilyDescription[] = Object.values(FAMILIES);
	const families = all.filter(({ name }) => name.startsWith(prefix));
	const rows = families.map((family) => [
		code(family.name),
		family.type,
		labels(family.labels),
		family.unit ?? '',
		family.help,
	]);
	return markdownTable(['Metric', 'Type', 'Labels', 'Unit', 'Meaning'], rows);
}

/** A label has either a fixed set of values or a description of them. */
function labels(table: FamilyDescription['labels']): string {
	const described = Object.entries(table).map(([label, values]) =>
		typeof values === 'string' ? `${code(label)}: ${values}` : `${code(label)}: ${values.map(code).join(', ')}`,
	);
	return described.join('; ');
}
