import assert from 'node:assert/strict';
import { it } from 'node:test';
import { AWAY_MS, BACK_MS, Shard } from '../../../../packages/proxy/src/control/store/shard.ts';

it('a shard is away after failures for AWAY_MS, and back after good answers for BACK_MS', () => {
	const shard = new Shard(0);
	shard.begin();
	assert.equal(shard.failed(0), false);
	assert.equal(shard.failed(AWAY_MS - 1), false);
	assert.equal(shard.failed(AWAY_MS), true, 'once');
	assert.equal(shard.failed(2 * AWAY_MS), false);
	const back = 10_000;
	assert.equal(shard.answered(back), false);
	assert.equal(shard.failed(back + 10), false);
	assert.equal(shard.answered(back + BACK_MS), false, 'counts from the last failure');
	assert.equal(shard.answered(back + 2 * BACK_MS), true);
	assert.equal(shard.isAway, false);
});

it('a shard that fails now and then is not away', () => {
	const shard = new Shard(0);
	shard.begin();
	for (let now = 0; now < 10_000; now += 400) {
		assert.equal(shard.failed(now), false);
		shard.answered(now + 200);
	}
});
