import assert from 'node:assert/strict';
import { constants } from 'node:http2';
import { describe, it } from 'node:test';
import { streamErrorReason } from '../../../packages/proxy/src/http2/errors.ts';
import { CODE, FLAG, SETTING } from '../../../packages/proxy/src/http2/frame-format.ts';

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

it('error codes, flags and settings have the numbers that nghttp2 gives them', () => {
	const theirs = constants as unknown as Readonly<Record<string, number>>;
	for (const [prefix, ours] of [
		['', CODE],
		['FLAG_', FLAG],
		['SETTINGS_', SETTING],
	] as const) {
		const known = Object.entries(ours).filter(([name]) => `NGHTTP2_${prefix}${name}` in theirs);
		assert.ok(known.length >= 5, `${known.length} of ${prefix}`);
		for (const [name, number] of known) assert.equal(number, theirs[`NGHTTP2_${prefix}${name}`], prefix + name);
	}
});
