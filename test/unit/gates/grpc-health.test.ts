import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { healthProblem, healthRequest } from '../../../packages/proxy/src/gates/grpc-health.ts';

describe('the question of grpc.health.v1', () => {
	it('is five bytes for the whole server, and has the name of a service', () => {
		assert.equal(healthRequest('').toString('hex'), '0000000000');
		assert.equal(healthRequest('a.B').toString('hex'), '00000000050a03612e42');
	});
});

describe('the answer of grpc.health.v1', () => {
	const problem = (hex: string) => healthProblem(Buffer.from(hex, 'hex'));

	it('is good only if it says SERVING', () => {
		assert.equal(problem('00000000020801'), undefined);
		assert.equal(problem('00000000020802'), 'not serving');
		assert.equal(problem('00000000020803'), 'service unknown');
		assert.equal(problem('00000000020800'), 'unknown');
		assert.equal(problem('0000000000'), 'unknown');
		assert.equal(problem('00000000020804'), 'status 4');
	});

	it('is none if it has another form: compressed, of another length, with another field or two', () => {
		for (const hex of [
			'',
			'00000000',
			'01000000020801',
			'00000000030801',
			'00000000010801',
			'0000000002080100',
			'00000000020a01',
			'000000000408010801',
			'0000000003088101',
			'00000000020881',
			'48545450',
		]) {
			assert.equal(problem(hex), 'no response of grpc.health.v1', hex);
		}
	});
});
