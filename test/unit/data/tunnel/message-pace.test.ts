import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { MessagePace } from '../../../../packages/proxy/src/data/tunnel/paced-messages.ts';

describe('MessagePace', () => {
	it('lets the messages of one second begin at once, and then one for each part of a second', () => {
		const pace = new MessagePace(10, 0);
		assert.equal(pace.left(0), 10);
		pace.spend(10);
		assert.equal(pace.left(99), 0);
		assert.equal(pace.left(100), 1);
		pace.spend(1);
		assert.equal(pace.left(60_000), 10);
	});

	it('never lets more begin than the burst and what its time has brought', () => {
		const steps = fc.array(fc.record({ ms: fc.nat(2_000), wanted: fc.nat(50) }), { maxLength: 40 });
		fc.assert(
			fc.property(fc.integer({ min: 1, max: 40 }), steps, (perSec, steps) => {
				const pace = new MessagePace(perSec, 0);
				let now = 0;
				let begun = 0;
				for (const { ms, wanted } of steps) {
					now += ms;
					const some = Math.min(wanted, pace.left(now));
					pace.spend(some);
					begun += some;
					assert.ok(begun <= perSec + (now / 1000) * perSec + 1e-6, `${begun} in ${now} ms`);
				}
			}),
		);
	});
});
