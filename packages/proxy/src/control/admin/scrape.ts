import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import { EXPOSITION_TYPES, Exposition, type ExpositionFormat } from '../metrics/exposition.ts';
import { type MetricSources, writeProxyFamilies } from '../metrics/families.ts';
import { readProcess, writeProcessFamilies } from '../metrics/process-families.ts';
import { inSlices } from '../slices.ts';
import type { Page, PageResponse } from './listener.ts';

/** `/metrics`. Concurrent scrapes of one format share the next page. */
export function metricsPage(sources: MetricSources, log: Logger): Page {
	const scrapes: Record<ExpositionFormat, SharedRuns<PageResponse>> = {
		text: new SharedRuns(() => scrape(sources, 'text', log)),
		openmetrics: new SharedRuns(() => scrape(sources, 'openmetrics', log)),
	};
	return ({ headers }) => scrapes[formatFor(headers.accept)].ask();
}

async function scrape(sources: MetricSources, format: ExpositionFormat, log: Logger): Promise<PageResponse> {
	try {
		const page = new Exposition(format, sources.state.startedSeconds);
		await inSlices(writeProxyFamilies(page, sources));
		writeProcessFamilies(page, await readProcess());
		return { status: 200, body: page.end(), type: EXPOSITION_TYPES[format] };
	} catch (error) {
		log.error('proxy::metrics', 'scrape failed', { cause: error });
		return { status: 500, body: 'internal error' };
	}
}

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

/**
 * Runs a task, never twice at the same time. All callers during a run share the next one. It begins after their calls, so no caller
 * gets an older result, and each waits for at most two runs.
 */
export class SharedRuns<Result> {
	readonly #run: () => Promise<Result>;
	#running: Promise<Result> | undefined;
	#next: Promise<Result> | undefined;

	constructor(run: () => Promise<Result>) {
		this.#run = run;
	}

	ask(): Promise<Result> {
		if (this.#running === undefined) return this.#begin();
		const begin = () => {
			this.#next = undefined;
			return this.#begin();
		};
		this.#next ??= this.#running.then(begin, begin);
		return this.#next;
	}

	#begin(): Promise<Result> {
		const running = this.#run().finally(() => {
			if (this.#running === running) this.#running = undefined;
		});
		this.#running = running;
		return running;
	}
}
