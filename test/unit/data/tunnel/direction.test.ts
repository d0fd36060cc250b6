import { deepEqual, equal } from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Direction } from '../../../../packages/proxy/src/data/tunnel/direction.ts';
import { FrameFollower } from '../../../../packages/proxy/src/data/tunnel/frame-follower.ts';
import { frame } from './fixtures/frames.ts';

const LAST = Buffer.from([0x88, 2, 3, 0xe9]);

/** One to a client. */
function direction() {
	const outlet = {
		out: [] as Buffer[],
		takesMore: true,
		ended: 0,
		write: (bytes: Buffer) => {
			outlet.out.push(bytes);
			return outlet.takesMore;
		},
		end: () => void outlet.ended++,
	};
	return { outlet, direction: new Direction(new FrameFollower(false, false), outlet) };
}

describe('a direction of a tunnel that is closing', () => {
	const whole = frame({ first: 0x82, payload: 'x'.repeat(1_000), masked: false });

	it('says that no more may follow while its outlet takes no more', () => {
		const { outlet, direction: closing } = direction();
		closing.pass(whole.subarray(0, 10));
		closing.close(LAST);
		outlet.takesMore = false;
		equal(closing.pass(whole.subarray(10, 20)), false);
		outlet.takesMore = true;
		equal(closing.pass(whole.subarray(20, 30)), true);
		deepEqual([closing.hasEnded, outlet.ended], [false, 0]);
	});

	it('ends after the frame that is under way, and drops what comes then, as much as it is', () => {
		const { outlet, direction: closing } = direction();
		closing.pass(whole.subarray(0, 10));
		closing.close(LAST);
		outlet.takesMore = false;
		equal(closing.pass(Buffer.concat([whole.subarray(10), whole])), true);
		deepEqual(Buffer.concat(outlet.out), Buffer.concat([whole, LAST]));
		equal(closing.pass(whole), true);
		deepEqual([closing.hasEnded, outlet.ended, outlet.out.length], [true, 1, 3]);
	});
});
