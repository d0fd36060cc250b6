import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import { correlate } from '../../../packages/proxy/src/gates/correlation.ts';
import type { Identifiers } from '../../../packages/proxy/src/gates/field-kinds.ts';
import { type RequestHead, readHttp1Head } from '../../../packages/proxy/src/gates/headers.ts';
import { readHttp2Head } from '../../fixtures/http2-head.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = `00-${TRACE}-b7ad6b7169203331-01`;
const hex = (digits: number) => 'e'.repeat(digits);
const MADE = `00-${hex(32)}-${hex(16)}-00`;

function head(fields: readonly string[], apart: Identifiers = 'trace and request'): RequestHead {
	const read = readHttp1Head(['Host', 'a', ...fields], 1, apart);
	assert.ok(!(read instanceof Rejection));
	return read;
}

const correlated = (...fields: string[]) => correlate(head(fields), hex);

describe('the identifiers of a request', () => {
	it('are generated if absent, unsampled', () => {
		assert.deepEqual(correlated(), {
			traceId: hex(32),
			requestId: hex(32),
			isShown: true,
			lines: `traceparent: ${MADE}\r\nx-request-id: ${hex(32)}\r\n`,
		});
	});

	it("are the client's if they are well-formed, in any letter case of the name", () => {
		assert.deepEqual(
			correlated('Traceparent', PARENT, 'Tracestate', 'a=1', 'tracestate', 'b=2', 'X-Request-ID', 'my/id'),
			{
				traceId: TRACE,
				requestId: 'my/id',
				isShown: true,
				lines: `traceparent: ${PARENT}\r\ntracestate: a=1\r\ntracestate: b=2\r\nx-request-id: my/id\r\n`,
			},
		);
	});

	it('accepts a traceparent of a later version, with appended fields', () => {
		for (const value of [`01-${PARENT.slice(3)}`, `cc-${PARENT.slice(3)}-what-follows`]) {
			assert.ok(correlated('traceparent', value).lines.startsWith(`traceparent: ${value}\r\n`), value);
		}
	});

	for (const value of [
		'',
		'x',
		PARENT.toUpperCase(),
		`${PARENT}-`,
		`${PARENT}-more`,
		`${PARENT}0`,
		` ${PARENT}`,
		`ff-${PARENT.slice(3)}`,
		`00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
		`00-${TRACE}-${'0'.repeat(16)}-01`,
		`01-${PARENT.slice(3)}.x`,
		`01-${PARENT.slice(3)}-${'x'.repeat(300)}`,
	]) {
		it(`replaces the traceparent ${JSON.stringify(value.slice(0, 70))}, and drops its tracestate`, () => {
			const { traceId, lines } = correlated('traceparent', value, 'tracestate', 'a=1');
			assert.equal(traceId, hex(32));
			assert.equal(lines, `traceparent: ${MADE}\r\nx-request-id: ${hex(32)}\r\n`);
		});
	}

	for (const value of ['', 'a b', 'a\tb', 'x'.repeat(129), 'z\xfc']) {
		it(`replaces the request id ${JSON.stringify(value.slice(0, 20))}`, () => {
			assert.equal(correlated('x-request-id', value).requestId, hex(32));
		});
	}

	it('takes a request id of 128 characters', () => {
		assert.equal(correlated('x-request-id', '~'.repeat(128)).requestId, '~'.repeat(128));
	});

	it('replaces duplicate fields', () => {
		const { traceId, requestId } = correlated(
			...['traceparent', PARENT, 'x-request-id', 'a'],
			...['traceparent', PARENT, 'x-request-id', 'a'],
		);
		assert.deepEqual([traceId, requestId], [hex(32), hex(32)]);
	});

	it('go to the upstream once: they are not among the lines of the head', () => {
		const fields = [
			'traceparent',
			PARENT,
			'tracestate',
			'a=1',
			'x-request-id',
			'a',
			'x_request_id',
			'b',
			'accept',
			'*/*',
		];
		assert.equal(head(fields).lines, 'accept: */*\r\n');
		const h2 = readHttp2Head(
			[':method', 'GET', ':path', '/', ':scheme', 'https', ':authority', 'a', ...fields],
			true,
			'trace and request',
		);
		assert.ok(!(h2 instanceof Rejection));
		assert.equal(h2.lines, 'accept: */*\r\n');
		assert.equal(h2.requestId, 'a');
	});

	it('do not pass if the client declares them hop-by-hop', () => {
		const { traceId, requestId, lines } = correlated(
			...['Connection', 'traceparent, tracestate, x-request-id', 'traceparent', PARENT],
			...['tracestate', 'a=1', 'x-request-id', 'a'],
		);
		assert.deepEqual([traceId, requestId], [hex(32), hex(32)]);
		assert.ok(!lines.includes('tracestate'));
	});

	it('are forwarded like all other fields where request_id is off', () => {
		const fields = [
			'Traceparent',
			'x',
			'Tracestate',
			'',
			'X-Request-Id',
			'a b',
			'X-Request-Id',
			'c',
			'x_request_id',
			'd',
		];
		let lines = '';
		for (let i = 0; i < fields.length; i += 2) lines += `${fields[i]}: ${fields[i + 1]}\r\n`;
		assert.equal(head(fields, 'none').lines, lines);
		assert.equal(head(['Connection', 'x-a', 'X-A', '1', ...fields], 'none').lines, lines);
	});
});
