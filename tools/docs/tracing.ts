import { GATE_MEANINGS } from '../../src/data/request-span.ts';

/** The events of spans, for docs/tracing.md. */
export function gateEvents(): string {
	const rows = Object.entries(GATE_MEANINGS).map(([gate, meaning]) => `| \`${gate}\` | ${meaning} |`);
	return ['| Event | Verdict |', '|---|---|', ...rows].join('\n');
}
