import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { formatFor } from '../../../../packages/proxy/src/control/admin/scrape.ts';

/** As Prometheus 2 and 3 send it. */
const PROMETHEUS =
	'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1';

describe('the format of the page', () => {
	for (const [accept, format] of [
		[undefined, 'text'],
		['*/*', 'text'],
		['text/plain', 'text'],
		['application/openmetrics-text', 'openmetrics'],
		['Application/OpenMetrics-Text; Version="1.0.0"; charset=utf-8', 'openmetrics'],
		[PROMETHEUS, 'openmetrics'],
		['application/openmetrics-text; version=0.0.1, text/plain;q=0.5', 'text'],
		['application/openmetrics-text;q=0.4,text/plain;version=0.0.4;q=0.5', 'text'],
		['application/openmetrics-text;q=0', 'text'],
		['application/openmetrics-text;q=x', 'text'],
		['text/html,;;=,', 'text'],
	] as const) {
		test(`is ${format} for ${accept ?? 'no Accept'}`, () => assert.equal(formatFor(accept), format));
	}
});
