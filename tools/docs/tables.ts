import { LOG_TARGET_MEANINGS } from '../../packages/gate/src/shared/log-targets.ts';
import type { FamilyDescription } from '../../packages/proxy/src/control/metrics/exposition.ts';
import { FAMILIES } from '../../packages/proxy/src/control/metrics/family-table.ts';
import { ACCESS_MEMBERS } from '../../packages/proxy/src/data/records/access-line.ts';
import { PIPELINE } from '../../packages/proxy/src/gates/pipeline.ts';
import { HANDSHAKE_REFUSAL_MEANINGS } from '../../packages/proxy/src/identity/handshake-refusals.ts';
import { code, markdownTable } from './table.ts';

/** docs/reference/logs.md. */
export function logTargets(): string {
	return meanings(['Target', 'Says'], LOG_TARGET_MEANINGS);
}

export function accessMembers(): string {
	return meanings(['Member', 'Says'], ACCESS_MEMBERS);
}

export function handshakeReasons(): string {
	return meanings(['`reason`', 'Meaning'], HANDSHAKE_REFUSAL_MEANINGS);
}

function meanings(head: readonly string[], table: Readonly<Record<string, string>>): string {
	const rows = Object.entries(table).map(([word, meaning]) => [code(word), meaning]);
	return markdownTable(head, rows);
}

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

/** The gates of the pipeline in their order, for docs/how-to/explain.md and docs/reference/tracing.md. */
export function gateTable(shown: 'explained' | 'traced', columns: readonly [name: string, meaning: string]): string {
	const gates = Object.entries(PIPELINE).filter(([, gate]) => gate[shown]);
	return markdownTable(
		columns,
		gates.map(([name, { meaning }]) => [code(name), meaning]),
	);
}
