import type { ExpositionFormat } from '../metrics/exposition.ts';

/**
 * The format for a scraper (RFC 9110 section 12.5.1). OpenMetrics only if `Accept` names it, with our version or without one: a
 * client that accepts anything gets the text format.
 */
export function formatFor(accept: string | undefined): ExpositionFormat {
	let open = 0;
	let text = 0;
	for (const range of (accept ?? '').toLowerCase().split(',')) {
		const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
		const values = new Map(parameters.map((parameter) => parameter.split('=', 2) as [string, string]));
		const q = Number(values.get('q') ?? 1);
		const weight = Number.isFinite(q) ? q : 0;
		const version = values.get('version')?.replaceAll('"', '') ?? '1.0.0';
		if (type === 'application/openmetrics-text' && version === '1.0.0') open = Math.max(open, weight);
		if (type === 'text/plain') text = Math.max(text, weight);
	}
	return open > 0 && open >= text ? 'openmetrics' : 'text';
}
