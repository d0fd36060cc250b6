import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import { EXPOSITION_TYPES, Exposition, type ExpositionFormat } from '../metrics/exposition.ts';
import { type MetricSources, writeProxyFamilies } from '../metrics/families.ts';
import { readProcess, writeProcessFamilies } from '../metrics/process-families.ts';
import { inSlices } from '../slices.ts';
import { formatFor } from './negotiation.ts';
import type { Page, PageResponse } from './page.ts';
import { SharedRuns } from './shared-runs.ts';

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
		const page = new Exposition(format, sources.startedSeconds);
		await inSlices(writeProxyFamilies(page, sources));
		writeProcessFamilies(page, await readProcess());
		return { status: 200, body: page.end(), type: EXPOSITION_TYPES[format] };
	} catch (error) {
		log.error('proxy::metrics', 'scrape failed', { cause: error });
		return { status: 500, body: 'internal error' };
	}
}
