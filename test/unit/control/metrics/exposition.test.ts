import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Exposition } from '../../../../src/control/metrics/exposition.ts';
import { HISTOGRAM_BYTES, Histogram, Summary } from '../../../../src/shared/histogram.ts';
import { parseMetrics } from '../../../fixtures/prometheus.ts';

function summaryOf(...durationsMs: number[]): Summary {
	const histogram = new Histogram(new SharedArrayBuffer(HISTOGRAM_BYTES));
	for (const ms of durationsMs) histogram.record(ms, 0);
	const summary = new Summary();
	histogram.addTo(summary, 0);
	return summary;
}

describe('the exposition format', () => {
	test('a family has its HELP and TYPE, then its samples', () => {
		const page = new Exposition();
		page
			.family({ name: 'things_total', type: 'counter', help: 'Things seen.' })
			.sample(1, { kind: 'a' })
			.sample(2.5, { kind: 'b', of: 'c' });
		page.family({ name: 'temperature', type: 'gauge', help: 'How warm.' }).sample(-3);
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
				'',
			].join('\n'),
		);
	});

	test('a family without samples is still there', () => {
		const page = new Exposition();
		page.family({ name: 'nothing', type: 'gauge', help: 'None.' });
		assert.equal(parseMetrics(page.end().toString()).get('nothing')!.type, 'gauge');
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

	test('values that are no number are written as the format wants them', () => {
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
	const read = (summary: Summary) => {
		const page = new Exposition();
		page.family({ name: 'd_seconds', type: 'summary', help: 'Durations.' }).summary(summary, { upstream: 'a:1' });
		return parseMetrics(page.end().toString()).get('d_seconds')!.samples;
	};

	test('has five quantiles, sum and count, all with its labels', () => {
		const samples = read(summaryOf(100));
		assert.deepEqual(
			samples.map(({ name, labels }) => [name, labels.quantile]),
			[
				['d_seconds', '0.5'],
				['d_seconds', '0.9'],
				['d_seconds', '0.95'],
				['d_seconds', '0.99'],
				['d_seconds', '0.999'],
				['d_seconds_sum', undefined],
				['d_seconds_count', undefined],
			],
		);
		for (const { labels } of samples) assert.equal(labels.upstream, 'a:1');
	});

	test('is in seconds', () => {
		const samples = read(summaryOf(100, 100, 300));
		const value = (name: string, quantile?: string) => {
			return samples.find((sample) => sample.name === name && sample.labels.quantile === quantile)!.value;
		};
		assert.equal(value('d_seconds_sum'), 0.5);
		assert.equal(value('d_seconds_count'), 3);
		assert.ok(Math.abs(value('d_seconds', '0.5') - 0.1) < 0.002);
		assert.ok(Math.abs(value('d_seconds', '0.99') - 0.3) < 0.006);
	});

	test('without records has quantiles that are no number, and zeros', () => {
		const samples = read(summaryOf());
		assert.ok(samples.slice(0, 5).every(({ value }) => Number.isNaN(value)));
		assert.deepEqual(
			samples.slice(5).map(({ value }) => value),
			[0, 0],
		);
	});
});
