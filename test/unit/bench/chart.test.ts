import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { Results, Row } from '../../../bench/cases.ts';
import { CHART_FILE, drawChart, readResults } from '../../../bench/chart.ts';

function row(name: string, median: number, first: number): Row {
	return {
		name,
		cpu_us_median: median,
		cpu_us_min: median - 1,
		cpu_us_max: median + 1,
		per_second_median: 1000,
		rss_mib: 100,
		times_ours: median / first,
	};
}

const RESULTS: Results = {
	machine: '2 CPUs, <A&B>',
	versions: { haproxy: '2.6', nginx: '1.22' },
	cases: [
		{ name: 'h2', commit: 'abc', rounds: 5, seconds: 3, rows: [row('ours', 20, 20), row('haproxy whole job', 60, 20)] },
		{
			name: 'h1',
			commit: 'abc',
			rounds: 5,
			seconds: 3,
			rows: [row('ours', 30, 30), row('nginx mTLS only', 40, 30), row('envoy whole job', 50, 30)],
		},
		{ name: 'handshakes', commit: 'abc', rounds: 5, seconds: 3, rows: [row('ours', 1000, 1000)] },
	],
};

describe('the chart', () => {
	test('in the repository is the one of the results in the repository', () => {
		assert.equal(readFileSync(CHART_FILE, 'utf8'), drawChart(readResults()), 'node bench/chart.ts draws it anew');
	});

	test('draws each row with a bar in proportion, its name, version and figures', () => {
		const svg = drawChart(RESULTS);
		const bars = [...svg.matchAll(/<rect class="(ours|whole|tls)" .* width="([\d.]+)"/g)];
		assert.deepEqual(
			bars.map(([, kind]) => kind),
			['ours', 'whole', 'ours', 'whole', 'tls', 'ours'],
			'rows with the whole job come first',
		);
		const widths = bars.map(([, , width]) => Number(width));
		const longest = Math.max(...widths);
		// Of each case the longest bar is as long as any.
		for (const [i, share] of [20 / 60, 1, 30 / 50, 1, 40 / 50, 1].entries()) {
			assert.ok(Math.abs(widths[i]! - longest * share) < 0.1, `${share}: ${widths[i]} of ${longest}`);
		}
		for (const said of [
			'>mtls-edge-proxy<',
			'>HAProxy 2.6, whole job<',
			'>nginx 1.22, TLS only<',
			'>60.0 · 3.00 ×<',
			'>20.0<',
		]) {
			assert.ok(svg.includes(said), said);
		}
	});
});
