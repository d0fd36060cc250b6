import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { answerNow, callForeign } from '../../../packages/gate/src/embed/foreign.ts';
import { FAILING } from './failing-hooks.ts';

describe('callForeign', () => {
	const outcomeOf = async (code: () => unknown) => {
		const outcomes: unknown[] = [];
		callForeign(
			code,
			(error) => outcomes.push(['failed', error]),
			(value) => outcomes.push(['done', value]),
		);
		for (let i = 0; i < 3; i++) await turn();
		return outcomes;
	};

	for (const [how, hook] of FAILING) {
		it(`reports a hook that ${how} once`, async () => {
			assert.deepEqual(await outcomeOf(hook), [['failed', new Error('from the hook')]]);
		});
	}

	it('reports an error instead of a value that cannot be inspected', async () => {
		const deny = () => {
			throw undefined;
		};
		const thrown = new Proxy(new Error('hidden'), { get: deny, getPrototypeOf: deny });
		for (const code of [
			() => {
				throw thrown;
			},
			() => Promise.reject(thrown),
		]) {
			assert.deepEqual(await outcomeOf(code), [['failed', new Error('a value was thrown that cannot be inspected')]]);
		}
	});

	for (const thrown of [undefined, null, '', 0, false, 'route']) {
		it(`reports that ${JSON.stringify(thrown)} was thrown, and takes it for no success`, async () => {
			const raise = () => {
				throw thrown;
			};
			assert.deepEqual(await outcomeOf(raise), [['failed', thrown]]);
			assert.deepEqual(await outcomeOf(async () => raise()), [['failed', thrown]]);
		});
	}

	it('gives the value that the code returns, or resolves with later', async () => {
		assert.deepEqual(await outcomeOf(() => 5), [['done', 5]]);
		assert.deepEqual(await outcomeOf(async () => 6), [['done', 6]]);
		let value: unknown;
		const done = (given: unknown) => {
			value = given;
		};
		callForeign(
			() => 7,
			() => assert.fail(),
			done,
		);
		assert.equal(value, 7);
	});

	it('reports what the continuation throws', async () => {
		const faults: unknown[] = [];
		const done = () => {
			throw 'later';
		};
		callForeign(
			() => 1,
			(error) => faults.push(error),
			done,
		);
		callForeign(
			async () => 1,
			(error) => faults.push(error),
			done,
		);
		await turn();
		assert.deepEqual(faults, ['later', 'later']);
	});
});

describe('answerNow', () => {
	it('returns a value, and throws for a promise, whose rejection is ignored', async () => {
		assert.equal(
			answerNow(() => 3),
			3,
		);
		assert.throws(() => answerNow(async () => Promise.reject(new Error('late'))), TypeError);
		await turn();
	});
});
