import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DescriptorWatch } from '../../../src/shared/spare-descriptor.ts';

describe('the watch on descriptors', () => {
	/** What the watch says of connections that come together; `left` is whether a descriptor is left when each one comes. */
	function shed(watch: Watch, left: readonly boolean[], now = 0): number {
		return left.filter((one) => {
			watch.left = one;
			return watch.isExhausted(now);
		}).length;
	}

	class Watch extends DescriptorWatch {
		left = true;
		looks = 0;

		constructor() {
			super(() => {
				this.looks++;
				return !this.left;
			});
		}
	}

	it('looks at one connection of eight, and at the first in a tenth of a second', () => {
		const watch = new Watch();
		shed(watch, Array(80).fill(true));
		assert.equal(watch.looks, 10);
		for (const now of [100, 200, 300]) shed(watch, [true], now);
		assert.equal(watch.looks, 13);
	});

	it('lets at most seven through before it notices, and then none', () => {
		for (let before = 1; before <= 8; before++) {
			const watch = new Watch();
			shed(watch, Array(before).fill(true));
			assert.ok(shed(watch, Array(100).fill(false)) >= 93, `${before}`);
			assert.equal(shed(watch, Array(100).fill(false)), 100);
		}
	});

	it('goes on looking at each until one finds a descriptor left', () => {
		const watch = new Watch();
		assert.equal(shed(watch, [false, false, true, false, false]), 2);
		assert.equal(watch.looks, 3);
	});
});
