import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { grpcResponse } from '../../../../packages/gate/src/gates/grpc.ts';
import * as rejections from '../../../../packages/gate/src/gates/rejection.ts';
import { refusalResponse } from '../../../../packages/proxy/src/data/client/responses.ts';

const { NO_ROUTE, RATE_LIMITED, Rejection } = rejections;

/** Refusals as gates and the pipeline make them: from the table, with a reason, for the scopes of a route, with headers of a report. */
const refusal = fc
	.record({
		kind: fc.constantFrom(...Object.values(rejections).filter((value) => value instanceof Rejection)),
		scopes: fc.option(fc.array(fc.constantFrom('read', 'write'), { minLength: 1, maxLength: 2 }), {
			nil: undefined,
			freq: 2,
		}),
		reason: fc.constantFrom(undefined, 'a', 'b'),
		report: fc.constantFrom(undefined, undefined, '1'),
	})
	.map(({ kind, scopes, reason, report }) => {
		const own = scopes === undefined ? kind : rejections.insufficientScope(scopes);
		const told = reason === undefined ? own : own.because(reason);
		return report === undefined ? told : told.withHeaders([...told.headers, 'ratelimit', report]);
	});

describe('the memo of responses to refused requests', () => {
	it('gives each refusal the response that it would get without a memo, whichever came before', () => {
		const built = new Set<unknown>();
		let repeated = 0;
		fc.assert(
			fc.property(fc.array(fc.tuple(refusal, fc.boolean()), { maxLength: 30 }), (refusals) => {
				for (const [one, isGrpc] of refusals) {
					const response = refusalResponse(one, isGrpc);
					const { status, headers, contentType, body } = isGrpc ? grpcResponse(one) : one.response;
					const fields = [...headers, 'content-type', contentType, 'content-length', `${body.length}`];
					assert.deepEqual([response.status, response.fields.list, response.body], [status, fields, body]);
					if (built.has(response)) repeated++;
					built.add(response);
				}
			}),
			{ numRuns: 400 },
		);
		assert.ok(repeated > 30, `the memo was used ${repeated} times`);
	});

	it('builds the response of a kind once, whatever the reasons, in each of its two forms', () => {
		for (const isGrpc of [false, true]) {
			for (const kind of [NO_ROUTE, RATE_LIMITED]) {
				assert.equal(refusalResponse(kind.because('a'), isGrpc), refusalResponse(kind.because('b'), isGrpc));
			}
		}
	});
});
