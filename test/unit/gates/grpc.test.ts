import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
	grpcResponse,
	grpcStatusIn,
	grpcStatusOf,
	isGrpc,
	percentEncoded,
} from '../../../packages/gate/src/gates/grpc.ts';
import * as table from '../../../packages/gate/src/gates/rejection.ts';
import { anyText } from '../../fixtures/any-text.ts';

describe('a content type', () => {
	it('is that of a gRPC call with any subtype, parameters and letter case', () => {
		for (const type of [
			'application/grpc',
			'Application/GRPC',
			'application/grpc+proto',
			'application/grpc+json',
			'application/grpc+thrift.v2',
			'application/grpc;charset=utf-8',
			'application/grpc ; charset=utf-8',
			'application/grpc+proto;a=b',
		]) {
			assert.equal(isGrpc(type), true, type);
		}
	});

	it('is plain HTTP otherwise, for example gRPC-Web', () => {
		for (const type of [
			'',
			'application/grpc-web',
			'application/grpc-web+proto',
			'application/grpc-web-text',
			'application/grpcx',
			'application/grpc/x',
			'application/grpc x',
			'application/grpc,application/grpc',
			'application/grpc+pro to',
			'application/json',
			'application/json; a=application/grpc',
			' application/grpc',
			'text/plain',
		]) {
			assert.equal(isGrpc(type), false, type);
		}
	});
});

describe('a refusal of a gRPC call', () => {
	/** By HTTP status. */
	const CODES: Record<number, number> = {
		...{ 400: 13, 401: 16, 403: 7, 404: 12, 405: 12, 408: 4, 413: 8, 429: 8 },
		...{ 431: 8, 500: 13, 501: 12, 502: 14, 503: 14, 504: 4 },
	};
	const refusals = Object.values(table).filter((value) => value instanceof table.Rejection);

	it('has a gRPC status for each refusal', () => {
		for (const refusal of refusals) assert.equal(grpcStatusOf(refusal), CODES[refusal.status], refusal.code);
		assert.deepEqual(new Set(refusals.map(({ status }) => status)), new Set(Object.keys(CODES).map(Number)));
	});

	it('is UNKNOWN for any other status', () => {
		assert.equal(grpcStatusOf(new table.Rejection('teapot', 418, 'teapot')), 2);
	});

	it('has the words of the body as its message, no body, and the other fields as before', () => {
		assert.deepEqual(grpcResponse(table.RATE_LIMITED), {
			status: 200,
			headers: ['retry-after', '1', 'grpc-status', '8', 'grpc-message', 'rate limited'],
			contentType: 'application/grpc',
			body: '',
		});
	});
});

describe('the status of a call', () => {
	it('is grpc-status among the trailers, or among the fields of a head', () => {
		assert.equal(grpcStatusIn(['grpc-status', '0']), 0);
		assert.equal(grpcStatusIn(['grpc-message', 'x', 'grpc-status', '14', 'x-a', 'b']), 14);
	});

	it('is absent without the field', () => {
		for (const fields of [[], ['x-grpc-status', '0'], ['x-a', 'grpc-status', 'x-b', '3']]) {
			assert.equal(grpcStatusIn(fields), undefined, fields.join());
		}
	});

	it('is UNKNOWN if it is not a gRPC status', () => {
		for (const value of ['', '17', '-1', '00', '1.0', ' 1', 'OK'])
			assert.equal(grpcStatusIn(['grpc-status', value]), 2);
	});
});

describe('grpc-message', () => {
	it('encodes all but blanks and visible ASCII other than the percent sign, byte by byte', () => {
		assert.equal(percentEncoded('rate limited'), 'rate limited');
		assert.equal(percentEncoded('100 %'), '100 %25');
		assert.equal(percentEncoded('a\tb\r\n'), 'a%09b%0D%0A');
		assert.equal(percentEncoded('~\x7fé€😀'), '~%7F%C3%A9%E2%82%AC%F0%9F%98%80');
	});

	it('is read back unchanged', () => {
		fc.assert(
			fc.property(anyText(), (message) => {
				const encoded = percentEncoded(message);
				assert.match(encoded, /^[\x20-\x7e]*$/);
				assert.equal(decodeURIComponent(encoded), message.toWellFormed());
			}),
		);
	});
});
