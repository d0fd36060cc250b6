import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer';
import { resourceFromAttributes } from '@opentelemetry/resources';
import * as semconv from '@opentelemetry/semantic-conventions';
import { finishedSpan, hrTime } from '../../../../packages/proxy/src/control/trace/finished-span.ts';
import { readExport } from '../../../fixtures/otlp.ts';
import { spanRecord } from '../fixtures/span-record.ts';

const origin = {
	resource: resourceFromAttributes({ 'service.name': 'edge' }),
	scope: { name: 'mtls-edge-proxy', version: '1' },
	server: { 'server.port': 8443 },
};
const finished = (changes: Parameters<typeof spanRecord>[0] = {}) => finishedSpan(spanRecord(changes), origin);

describe('a record as a span', () => {
	it('is what the exporter writes of it', () => {
		const bytes = ProtobufTraceSerializer.serializeRequest([finished()]);
		const [span] = readExport(Buffer.from(bytes!));
		const record = spanRecord();
		assert.deepEqual([span!.traceId, span!.spanId, span!.parentId], [record.traceId, record.spanId, record.parentId]);
		assert.deepEqual([span!.start, span!.end], [1_800_000_000_000_250_000n, 1_800_000_000_012_750_000n]);
		assert.deepEqual(
			span!.events.map(({ name, time }) => [name, time]),
			[['token', 1_800_000_000_000_350_000n]],
		);
		assert.equal(span!.attributes['server.port'], 8443);
	});

	it('has the numbers of the API without loading it', () => {
		assert.equal(finished().kind, SpanKind.SERVER);
		assert.equal(finished().status.code, SpanStatusCode.UNSET);
		assert.equal(finished({ status: 503 }).status.code, SpanStatusCode.ERROR);
	});

	it('names attributes as the semantic conventions do, and others under proxy.', () => {
		const known = new Set<unknown>([
			...Object.values(semconv),
			// In development still.
			'http.request.body.size',
			'http.response.body.size',
		]);
		const { attributes } = finished({
			status: 502,
			refused: 'bad-gateway',
			reason: 'x',
			tenant: 't',
			method: 'FOO',
			ending: 'broken off',
		});
		const others = Object.keys(attributes).filter((name) => !known.has(name));
		assert.deepEqual(
			others.filter((name) => !name.startsWith('proxy.')),
			[],
		);
	});

	it('is named by its method and route, of which there are few', () => {
		assert.equal(finished().name, 'GET /api');
		assert.equal(finished({ route: undefined }).name, 'GET');
		assert.equal(finished({ method: 'FOO', route: undefined }).name, 'HTTP');
		const { attributes } = finished({ method: 'FOO' });
		assert.deepEqual(
			[attributes['http.request.method'], attributes['http.request.method_original']],
			['_OTHER', 'FOO'],
		);
	});

	it('is an error of a given type if the server is at fault', () => {
		const outcome = (changes: Parameters<typeof spanRecord>[0]) => {
			const { status, attributes } = finished(changes);
			return [status.code, attributes['error.type']];
		};
		assert.deepEqual(outcome({ status: 401, refused: 'token-missing' }), [0, undefined]);
		assert.deepEqual(outcome({ status: 500 }), [2, '500']);
		assert.deepEqual(outcome({ status: 504, refused: 'upstream-timeout' }), [2, 'upstream-timeout']);
		assert.deepEqual(outcome({ status: 200, refused: 'slow-client', ending: 'broken off' }), [2, 'slow-client']);
		assert.deepEqual(outcome({ status: 0, ending: 'client gone' }), [0, undefined]);
	});
});

it('a time is whole seconds and nanoseconds, to the microsecond', () => {
	assert.deepEqual(hrTime(1_800_000_000_123.456), [1_800_000_000, 123_456_000]);
	assert.deepEqual(hrTime(0.0004), [0, 0]);
	assert.deepEqual(hrTime(999.9996), [1, 0]);
});
