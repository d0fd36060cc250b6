import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { streamErrorReason } from '../../../packages/proxy/src/http2/errors.ts';
import { CODE } from '../../../packages/proxy/src/http2/frame-format.ts';

describe('the reason by which an error of a stream is counted', () => {
	for (const [code, reason] of [
		['PROTOCOL_ERROR', 'protocol'],
		['FLOW_CONTROL_ERROR', 'flow-control'],
		['STREAM_CLOSED', 'stream-closed'],
		['FRAME_SIZE_ERROR', 'frame-size'],
		['ENHANCE_YOUR_CALM', 'too-many-fields'],
		['INTERNAL_ERROR', 'protocol'],
	] as const) {
		it(`is ${reason} for ${code}`, () => assert.equal(streamErrorReason(CODE[code]), reason));
	}
});
