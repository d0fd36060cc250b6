import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LeaseAnswer, LeaseBatch } from '../../../../src/control/store/contract.ts';
import { AWAY_MS, Standing } from '../../../../src/control/store/standing.ts';
import { LEASED, LOCAL, REFUSING, SHARED } from '../../../../src/shared/fleet/standing-word.ts';

const SIGN: LeaseBatch = { replica: '0'.repeat(16), seq: 1, leaving: false, bornMs: 0, calls: [] };
/** Of a store whose clock was at `EPOCH` at our 0. */
const EPOCH = 1_700_000_000_000;
const answer = (now: number, replicas = 3): LeaseAnswer => ({
	nowMs: EPOCH + now,
	replicas,
	bornMs: EPOCH,
	grants: [],
});

function standing(onFailure: 'share' | 'local' | 'refuse' = 'share'): Standing {
	const made = new Standing(onFailure, 7, 0);
	made.answered(SIGN, answer(0), 0);
	made.answered(SIGN, answer(10), 10);
	return made;
}

describe('the standing of the store', () => {
	it('begins away, with as many replicas as the operator says, and is there after two good answers', () => {
		const made = new Standing('share', 7, 0);
		assert.deepEqual([made.isAway, made.replicas, made.mode], [true, 7, SHARED]);
		made.answered(SIGN, answer(0), 0);
		assert.deepEqual([made.isAway, made.replicas], [true, 3]);
		made.answered(SIGN, answer(10), 10);
		assert.deepEqual([made.isAway, made.mode, made.since], [false, LEASED, 10]);
	});

	it('is away when no good answer follows a failure for three quarters of a second, once for each time, and not after a single failure', () => {
		const made = standing();
		made.failed('no answer', 500);
		made.answered(SIGN, answer(900), 900);
		made.failed('no answer', 1_800);
		assert.equal(made.isAway, false);
		made.tick(1_800 + AWAY_MS - 1);
		assert.equal(made.isAway, false);
		made.tick(1_800 + AWAY_MS);
		made.tick(1_800 + AWAY_MS + 10);
		assert.deepEqual([made.isAway, made.outages, made.cause, made.failures], [true, 1, 'no answer', 2]);
	});

	it('is not away because nothing was to be asked', () => {
		const made = standing();
		made.tick(60_000);
		assert.equal(made.isAway, false);
	});

	it('does as the operator says', () => {
		for (const [onFailure, mode] of [
			['share', SHARED],
			['local', LOCAL],
			['refuse', REFUSING],
		] as const) {
			const made = standing(onFailure);
			made.failed('down', 1_000);
			made.failed('down', 2_000);
			assert.equal(made.mode, mode);
		}
	});

	it('divides by the most replicas of the last ten seconds', () => {
		const made = standing();
		made.answered(SIGN, answer(1_000, 9), 1_000);
		made.answered(SIGN, answer(5_000, 2), 5_000);
		assert.equal(made.replicas, 9);
		made.answered(SIGN, answer(10_900, 2), 10_900);
		assert.equal(made.replicas, 9);
		made.answered(SIGN, answer(11_100, 4), 11_100);
		assert.equal(made.replicas, 4);
	});

	it('takes a clock that jumps for a failure, once, and a drifting one for a clock', () => {
		const made = standing();
		assert.equal(made.answered(SIGN, answer(2_000 + 400), 2_000), true);
		assert.equal(made.answered(SIGN, answer(3_000 - 5_000), 3_000), false);
		assert.match(made.cause!, /gone back/);
		assert.equal(made.answered(SIGN, answer(3_100 - 5_000), 3_100), true);
		assert.equal(made.answered(SIGN, answer(3_200 + 5_000), 3_200), false);
		assert.match(made.cause!, /jumped ahead/);
		assert.equal(made.isAway, false);
	});

	it('believes a liar again only after many good answers', () => {
		const made = standing();
		made.answered(SIGN, { ...answer(2_000), replicas: Number.NaN }, 2_000);
		made.answered(SIGN, { ...answer(3_100), nowMs: Number.NaN }, 3_100);
		assert.equal(made.isAway, true);
		let answers = 0;
		for (let now = 3_200; made.isAway; now += 10) {
			made.answered(SIGN, answer(now), now);
			answers++;
		}
		assert.equal(answers, 8);
	});
});
