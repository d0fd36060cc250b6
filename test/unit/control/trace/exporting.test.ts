import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace';
import {
	CountingExporter,
	causeOf,
	WARNING_PERIOD_MS,
} from '../../../../packages/proxy/src/control/trace/counting-exporter.ts';
import { BoundedQueue } from '../../../../packages/proxy/src/control/trace/tracing.ts';
import { FakeTime } from '../fixtures/fake-time.ts';
import { RecordedLog } from '../fixtures/recorded-log.ts';
import { spanRecord } from '../fixtures/span-record.ts';

const LIMIT_MS = 15_000;

class Fixture {
	readonly time = new FakeTime();
	readonly log = new RecordedLog();
	readonly done: number[] = [];
	/** What the library would say of the next batch; `undefined`: nothing yet. */
	verdict: Error | 'taken' | undefined = 'taken';
	readonly results: number[] = [];
	readonly exporter: CountingExporter;

	constructor() {
		const library: SpanExporter['export'] = (_, onResult) => {
			if (this.verdict === 'taken') onResult({ code: 0 });
			else if (this.verdict !== undefined) onResult({ code: 1, error: this.verdict });
		};
		this.exporter = new CountingExporter({
			exporter: { export: library, shutdown: async () => {} },
			onDone: (spans) => this.done.push(spans.length),
			limitMs: LIMIT_MS,
			timers: this.time,
			clock: this.time,
			log: this.log.logger,
		});
	}

	export(count: number): void {
		this.exporter.export(Array<ReadableSpan>(count), ({ code }) => this.results.push(code));
	}
}

describe('the exporter', () => {
	it('counts exported spans, and logs nothing without a failure', () => {
		const fixture = new Fixture();
		fixture.export(3);
		assert.deepEqual(fixture.exporter.counts, { exported: 3, failed: 0 });
		assert.deepEqual([fixture.done, fixture.results, fixture.log.lines], [[3], [0], []]);
		assert.equal(fixture.time.pending, 0);
	});

	it('warns once while the collector stays away, now and then again, and says when it is back', async () => {
		const fixture = new Fixture();
		fixture.verdict = Object.assign(new Error('x'), { code: 'ECONNREFUSED' });
		for (let i = 0; i < 5; i++) fixture.export(2);
		assert.deepEqual(fixture.log.lines, ['warn proxy::trace: the collector accepts no spans']);
		assert.deepEqual(fixture.log.fields('the collector accepts no spans'), { cause: 'connection refused', lost: 2 });
		await fixture.time.advance(WARNING_PERIOD_MS);
		fixture.export(2);
		assert.equal(fixture.log.lines.length, 2);
		fixture.verdict = 'taken';
		fixture.export(1);
		fixture.export(1);
		assert.deepEqual(fixture.log.lines.slice(2), ['info proxy::trace: the collector accepts spans again']);
		assert.deepEqual(fixture.log.fields('the collector accepts spans again'), { lost: 12 });
		assert.deepEqual(fixture.exporter.counts, { exported: 2, failed: 12 });
	});

	it('abandons a batch without an answer, once', async () => {
		const fixture = new Fixture();
		fixture.verdict = undefined;
		fixture.export(2);
		await fixture.time.advance(LIMIT_MS);
		assert.deepEqual([fixture.done, fixture.results], [[2], [1]]);
		assert.deepEqual(fixture.log.fields('the collector accepts no spans'), {
			cause: 'no response within 15 s',
			lost: 2,
		});
	});

	it('reports causes without quoting the collector', () => {
		const refused = Object.assign(new Error('secret text'), { name: 'OTLPExporterError', code: 403 });
		assert.equal(causeOf(refused), 'status 403');
		assert.match(causeOf(Object.assign(new Error('x'), { code: 'SELF_SIGNED_CERT_IN_CHAIN' })), /not trusted/);
		const repeated = Object.assign(new Error('Export failed'), { name: 'OTLPExporterError' });
		assert.equal(causeOf(repeated), 'status 429, 502, 503 or 504, on every attempt');
	});
});

describe('the queue before the library', () => {
	it('holds a fixed number, drops the rest, and reports drops to each worker', () => {
		const pushed: ReadableSpan[] = [];
		const origin = { resource: {} as ReadableSpan['resource'], scope: { name: 'x' }, server: {} };
		const queue = new BoundedQueue(3, origin, (span) => pushed.push(span));
		const done: string[] = [];
		const first = (count: number) => done.push(`first ${count}`);
		const second = (count: number) => done.push(`second ${count}`);
		queue.add([spanRecord(), spanRecord()], first);
		queue.add([spanRecord(), spanRecord()], second);
		assert.equal(pushed.length, 3);
		assert.equal(queue.dropped, 1);
		assert.deepEqual(done, ['second 1']);
		queue.release(pushed);
		assert.deepEqual(done.slice(1), ['first 2', 'second 1']);
		queue.add([spanRecord()], first);
		assert.equal(pushed.length, 4);
	});
});
