import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Exposition } from '../../../../packages/proxy/src/control/metrics/exposition.ts';
import { BucketCounts, BucketTotal } from '../../../../packages/proxy/src/memory/bucket-counts.ts';
import { HISTOGRAM_BYTES, Histogram, Summary } from '../../../../packages/proxy/src/memory/histogram.ts';
import { parseMetrics } from '../../../fixtures/prometheus.ts';

function summaryOf(...durationsMs: number[]): Summary {
	const histogram = new Histogram(new SharedArrayBuffer(HISTOGRAM_BYTES));
	for (const ms of durationsMs) histogram.record(ms, 0);
	const summary = new Summary();
	histogram.addTo(summary, 0);
	return summary;
}

describe('the exposition format', () => {
	test('a family has its HELP and TYPE, then its samples, if any', () => {
		const page = new Exposition();
		page
			.family({ name: 'things_total', type: 'counter', help: 'Things seen.' })
			.sample(1, { kind: 'a' })
			.sample(2.5, { kind: 'b', of: 'c' });
		page.family({ name: 'temperature', type: 'gauge', help: 'How warm.' }).sample(-3);
		page.family({ name: 'nothing', type: 'gauge', help: 'None.' });
		assert.equal(
			page.end().toString(),
			[
				'# HELP things_total Things seen.',
				'# TYPE things_total counter',
				'things_total{kind="a"} 1',
				'things_total{kind="b",of="c"} 2.5',
				'# HELP temperature How warm.',
				'# TYPE temperature gauge',
				'temperature -3',
				'# HELP nothing None.',
				'# TYPE nothing gauge',
				'',
			].join('\n'),
		);
	});

	test('whatever a label holds, a reader gets it back', () => {
		const hostile = ['back\\slash', '"quoted"', 'two\nlines', '\\n', '\\\\"', 'ünï', '} 1\nforged 1', ''];
		const page = new Exposition();
		const family = page.family({ name: 'x', type: 'gauge', help: 'Help with \\ and\nbreak.' });
		for (const [i, label] of hostile.entries()) family.sample(i, { label });
		const read = parseMetrics(page.end().toString()).get('x')!;
		assert.deepEqual(
			read.samples.map(({ labels }) => labels.label),
			hostile,
		);
	});

	test('NaN and infinities are written as the format requires', () => {
		const page = new Exposition();
		page
			.family({ name: 'x', type: 'gauge', help: 'X.' })
			.sample(Number.NaN, { v: 'nan' })
			.sample(Number.POSITIVE_INFINITY, { v: 'inf' })
			.sample(Number.NEGATIVE_INFINITY, { v: '-inf' })
			.sample(1e21, { v: 'large' });
		const values = parseMetrics(page.end().toString())
			.get('x')!
			.samples.map(({ value }) => value);
		assert.deepEqual(values, [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e21]);
	});
});

describe('a summary', () => {
	const write = (...durationsMs: number[]) => {
		const page = new Exposition();
		page
			.family({ name: 'd_seconds', type: 'summary', help: 'Durations.' })
			.summary(summaryOf(...durationsMs), { upstream: 'a:1' });
		return parseMetrics(page.end().toString()).get('d_seconds')!.samples;
	};

	test('has five quantiles, sum and count, in seconds and with its labels', () => {
		const samples = write(100, 100, 300);
		assert.deepEqual(
			samples.map(({ name, labels, value }) => [name, labels.quantile, labels.upstream, Number(value.toFixed(2))]),
			[
				['d_seconds', '0.5', 'a:1', 0.1],
				['d_seconds', '0.9', 'a:1', 0.3],
				['d_seconds', '0.95', 'a:1', 0.3],
				['d_seconds', '0.99', 'a:1', 0.3],
				['d_seconds', '0.999', 'a:1', 0.3],
				['d_seconds_sum', undefined, 'a:1', 0.5],
				['d_seconds_count', undefined, 'a:1', 3],
			],
		);
	});

	test('a summary without records has NaN quantiles, and zeros', () => {
		const values = write().map(({ value }) => value);
		assert.deepEqual(values, [...Array(5).fill(Number.NaN), 0, 0]);
	});
});

describe('a histogram', () => {
	const LAYOUT = { bounds: [0.000025, 0.5, 1], exemplars: true };
	const TRACE = '0af7651916cd43dd8448eb211c80319c';
	const totalOf = () => {
		const one = BucketCounts.view(LAYOUT, BucketCounts.allocate(LAYOUT, 1), 0);
		for (const ms of [100, 700, 5000]) one.record(ms);
		one.exemplify(one.record(250), 250, TRACE, 0, { wallSeconds: () => 1_800_000_000 });
		return BucketTotal.of(LAYOUT, [one]);
	};
	const write = (format: 'text' | 'openmetrics') => {
		const page = new Exposition(format, 1_700_000_000);
		page
			.family({ name: 'd_seconds', type: 'histogram', help: 'Say "how long".', unit: 'seconds' })
			.histogram(LAYOUT.bounds, totalOf(), { of: 'a' });
		return page.end().toString().trimEnd().split('\n');
	};

	test('has cumulative buckets, exact at their bounds, and as many in the last as in all', () => {
		assert.deepEqual(write('text'), [
			'# HELP d_seconds Say "how long".',
			'# TYPE d_seconds histogram',
			'd_seconds_bucket{of="a",le="2.5e-05"} 0',
			'd_seconds_bucket{of="a",le="0.5"} 2',
			'd_seconds_bucket{of="a",le="1.0"} 3',
			'd_seconds_bucket{of="a",le="+Inf"} 4',
			'd_seconds_count{of="a"} 4',
			'd_seconds_sum{of="a"} 6.05',
		]);
	});

	test('a histogram in OpenMetrics has a unit, an exemplar and a creation time', () => {
		assert.deepEqual(write('openmetrics'), [
			'# HELP d_seconds Say \\"how long\\".',
			'# TYPE d_seconds histogram',
			'# UNIT d_seconds seconds',
			'd_seconds_bucket{of="a",le="2.5e-05"} 0',
			`d_seconds_bucket{of="a",le="0.5"} 2 # {trace_id="${TRACE}"} 0.25 1800000000.000`,
			'd_seconds_bucket{of="a",le="1.0"} 3',
			'd_seconds_bucket{of="a",le="+Inf"} 4',
			'd_seconds_count{of="a"} 4',
			'd_seconds_sum{of="a"} 6.05',
			'd_seconds_created{of="a"} 1700000000',
			'# EOF',
		]);
	});
});

describe('OpenMetrics', () => {
	test('has the required names of counters and infos, and the creation times of counters', () => {
		const page = new Exposition('openmetrics', 5);
		page
			.family({ name: 'things_total', type: 'counter', help: 'T.' })
			.sample(1, { kind: 'a' })
			.sample(2, { kind: 'b' }, 7);
		page.family({ name: 'build_info', type: 'info', help: 'B.' }).sample(1, { version: '1' });
		page.family({ name: 'size_bytes', type: 'gauge', help: 'S.', unit: 'bytes' }).sample(3);
		assert.deepEqual(page.end().toString().split('\n'), [
			'# HELP things T.',
			'# TYPE things counter',
			'things_total{kind="a"} 1',
			'things_created{kind="a"} 5',
			'things_total{kind="b"} 2',
			'things_created{kind="b"} 7',
			'# HELP build B.',
			'# TYPE build info',
			'build_info{version="1"} 1',
			'# HELP size_bytes S.',
			'# TYPE size_bytes gauge',
			'# UNIT size_bytes bytes',
			'size_bytes 3',
			'# EOF',
			'',
		]);
	});

	test('is rendered in slices without losing text between them', () => {
		const page = new Exposition('openmetrics');
		const family = page.family({ name: 'x', type: 'gauge', help: 'X.' });
		for (let i = 0; i < 20_000; i++) family.sample(i, { i: String(i) });
		assert.equal(page.end().toString().split('\n').length, 20_004);
	});
});
