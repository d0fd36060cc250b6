import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { grpcTimeoutOf, parseGrpcTimeout } from '../../../packages/proxy/src/gates/grpc-timeout.ts';

describe('grpc-timeout', () => {
	it('is at most eight digits and a unit', () => {
		const good: Record<string, number> = {
			'1H': 3_600_000,
			'2M': 120_000,
			'3S': 3_000,
			'250m': 250,
			'1500u': 1.5,
			'500000n': 0.5,
			'0n': 0,
			'00000001S': 1_000,
			'99999999H': 99_999_999 * 3_600_000,
		};
		for (const [value, ms] of Object.entries(good)) assert.equal(parseGrpcTimeout(value), ms, value);
	});

	it('is malformed with a sign, a blank, a fraction, another unit, no digits or nine of them', () => {
		for (const value of [
			'',
			'S',
			'5',
			'5s',
			'5h',
			'-1S',
			'+1S',
			' 1S',
			'1 S',
			'1S ',
			'1.5S',
			'100000000S',
			'1SS',
			'١S',
		]) {
			assert.equal(parseGrpcTimeout(value), undefined, value);
		}
	});

	it('is written in the finest unit that fits', () => {
		const written: [ms: number, value: string][] = [
			[-5, '1n'],
			[0, '1n'],
			[0.0000001, '1n'],
			[1.5, '1500000n'],
			[99.999999, '99999999n'],
			[100, '100000u'],
			[1_000, '1000000u'],
			[30_000, '30000000u'],
			[100_000, '100000m'],
			[3_600_000_000, '3600000S'],
			[1e18, '99999999H'],
		];
		for (const [ms, value] of written) assert.equal(grpcTimeoutOf(ms), value, `${ms}`);
	});

	it('is read back as what was written, or up to a ten-thousandth more', () => {
		fc.assert(
			fc.property(fc.double({ min: 1e-3, max: 1e14, noNaN: true }), (ms) => {
				const read = parseGrpcTimeout(grpcTimeoutOf(ms))!;
				assert.ok(read >= ms * (1 - 1e-9) && read <= ms * 1.0001 + 1e-6, `${ms} became ${read}`);
			}),
		);
	});
});
