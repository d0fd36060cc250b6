import { PIPELINE } from '../../packages/proxy/src/gates/pipeline.ts';
import { code, markdownTable } from './table.ts';

/** The gates of the pipeline in their order, for docs/how-to/explain.md and docs/reference/tracing.md. */
export function gateTable(shown: 'explained' | 'traced', columns: readonly [name: string, meaning: string]): string {
	const gates = Object.entries(PIPELINE).filter(([, gate]) => gate[shown]);
	return markdownTable(
		columns,
		gates.map(([name, { meaning }]) => [code(name), meaning]),
	);
}
