import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { requestBody } from '../../../../packages/proxy/src/data/http1/request-body.ts';
import { UNDECLARED } from '../../../../packages/proxy/src/gates/body-limit.ts';
import { readInPieces } from './fixtures/read-in-pieces.ts';

const MAX_TRAILERS = 200;

describe('a body of a request', () => {
	it('a body of declared length ends there, and the bytes after it are left', () => {
		const body = requestBody(5, MAX_TRAILERS);
		const { most: _, ...told } = readInPieces(body, ['he', '', 'llo, GET']);
		assert.deepEqual(told, {
			content: 'hello',
			complete: true,
			problem: undefined,
			trailers: undefined,
			rest: ', GET',
		});
	});

	it('a body of undeclared length is chunked, with trailers up to their limit', () => {
		const chunked = (trailers: string) =>
			readInPieces(requestBody(UNDECLARED, MAX_TRAILERS), [`5\r\nhello\r\n0\r\n${trailers}\r\nGET`]);
		const { content, complete, trailers, rest } = chunked('X-Sum: 1\r\n');
		assert.deepEqual([content, complete, trailers, rest], ['hello', true, ['x-sum', '1'], 'GET']);
		assert.equal(chunked(`x: ${'a'.repeat(MAX_TRAILERS)}\r\n`).problem, 'trailers too long');
	});
});
