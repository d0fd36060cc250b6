import { isLoopback } from '../shared/jwks/jwks-url.ts';
import type { ConfigProblem } from './error.ts';
import { parseEndpoint } from './tables/trace.ts';
import type { TomlDocument, TomlTable } from './toml.ts';

/** Keys of `[trace]` that do not go with its `endpoint`. */
export function traceConflicts(document: TomlDocument): ConfigProblem[] {
	const trace = document.root.trace as TomlTable | undefined;
	const url = typeof trace?.endpoint === 'string' ? parseEndpoint(trace.endpoint) : '';
	if (trace === undefined || typeof url === 'string' || url.protocol !== 'http:') return [];
	const problems: ConfigProblem[] = [];
	const add = (key: string, message: string) => {
		if (trace[key] === undefined) return;
		const line = document.lineOf(['trace', key]);
		problems.push({ ...(line !== undefined && { line }), key: `trace.${key}`, message });
	};
	add('ca_path', 'is for an https:// endpoint alone; remove it, or write https:// in endpoint');
	if (!isLoopback(url.hostname)) {
		add(
			'headers_path',
			'would go over the network in clear text; write https:// in endpoint, or send to a collector on 127.0.0.1 or [::1]',
		);
	}
	return problems;
}
