import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bodyRefusal, headRefusal } from '../../../src/gates/parse-errors.ts';
import { BAD_REQUEST, BODY_ERROR, HEADERS_TOO_LARGE } from '../../../src/gates/rejection.ts';
import { assertRefusal } from '../../fixtures/refusal.ts';

test('a head that llhttp cannot read is a bad request, with its code in words', () => {
	assertRefusal(headRefusal('HPE_INVALID_METHOD'), BAD_REQUEST, '', 'unknown method');
	assertRefusal(headRefusal('HPE_SOMETHING_NEW'), BAD_REQUEST, '', 'not HTTP/1.1 (HPE_SOMETHING_NEW)');
});

test('a head that is too long has its own answer', () => {
	assert.equal(headRefusal('HPE_HEADER_OVERFLOW'), HEADERS_TOO_LARGE);
});

test('a body that llhttp cannot read is a body error', () => {
	assertRefusal(bodyRefusal('HPE_INVALID_CHUNK_SIZE'), BODY_ERROR, '', 'malformed chunk size');
});
