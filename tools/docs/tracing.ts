import { GATE_MEANINGS } from '../../src/data/records/request-span.ts';
import { code, markdownTable } from './table.ts';

/** The events of spans, for docs/reference/tracing.md. */
export function gateEvents(): string {
	const rows = Object.entries(GATE_MEANINGS).map(([gate, meaning]) => [code(gate), meaning]);
	return markdownTable(['Event', 'Verdict'], rows);
}
