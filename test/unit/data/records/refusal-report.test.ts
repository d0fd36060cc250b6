import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as rejections from '../../../../packages/gate/src/gates/rejection.ts';
import { Rejection } from '../../../../packages/gate/src/gates/rejection.ts';
import { reportBrokenOff, reportRefusal } from '../../../../packages/proxy/src/data/records/refusal-report.ts';

/** Lines that one refusal leaves, with its fields. */
function linesOf(answer: Rejection, report = reportRefusal): object[] {
	const lines: object[] = [];
	const told = {
		stats: { count() {} },
		strangers: {
			write: (level: string, target: string, message: string, kind: string, fields: () => object) =>
				lines.push({ level, target, message, kind, ...fields() }),
		},
	};
	const client = { connection: { ip: '192.0.2.1' }, target: '/a?secret' };
	report(told as never, answer, { client: client as never, tenant: 'acme' });
	return lines;
}

describe('a refusal', () => {
	const all = Object.entries(rejections).filter((entry): entry is [string, Rejection] => entry[1] instanceof Rejection);
	/** `circuit is open` and `internal error` are separate lines. */
	const elsewhere = ['UPSTREAM_UNAVAILABLE', 'INTERNAL_ERROR'];

	for (const [name, answer] of all) {
		it(`${name} leaves ${elsewhere.includes(name) ? 'its line elsewhere' : 'one line at info, without the query'}`, () => {
			const lines = linesOf(answer.because('why'));
			if (elsewhere.includes(name)) return assert.deepEqual(lines, []);
			const [line, ...others] = lines as { level: string; reason: string; path: string }[];
			assert.deepEqual([line?.level, line?.reason, line?.path, others], ['info', 'why', '/a', []]);
		});
	}

	it('429 names the tenant and the limit', () => {
		const [line] = linesOf(rejections.RATE_LIMITED.because("over the tenant's rps"));
		assert.deepEqual(line, {
			level: 'info',
			target: 'proxy::request',
			message: 'request refused',
			kind: "over the tenant's rps",
			status: 429,
			reason: "over the tenant's rps",
			route: undefined,
			tenant: 'acme',
			client: '192.0.2.1',
			path: '/a',
		});
	});

	it('a response that breaks off leaves a line without a status, which the client never gets', () => {
		const [line] = linesOf(rejections.UPSTREAM_TIMEOUT.because('no response within 30 s'), reportBrokenOff);
		assert.deepEqual(line, {
			level: 'info',
			target: 'proxy::exchange',
			message: 'response broken off',
			kind: 'no response within N s',
			reason: 'no response within 30 s',
			upstream: undefined,
			group: undefined,
			client: '192.0.2.1',
			path: '/a',
		});
	});
});
