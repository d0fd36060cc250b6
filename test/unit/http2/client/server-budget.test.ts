import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SERVER_COSTS, ServerBudget } from '../../../../packages/proxy/src/http2/client/server-budget.ts';
import { COSTS } from '../../../../packages/proxy/src/http2/peer-budget.ts';

/** What reads and messages of ten bytes have cost. */
function priced() {
	let spent = 0;
	const share = {
		isOverdrawn: false,
		spend: (tokens: number) => {
			spent += tokens;
		},
		release: (tokens: number) => {
			spent -= tokens;
		},
		lend: () => false,
	};
	const budget = new ServerBudget(share);
	return {
		read(isHeld: boolean): void {
			share.spend(SERVER_COSTS.read);
			budget.read(isHeld);
		},
		message: () => budget.data(10),
		get spent(): number {
			return spent;
		},
	};
}

const MESSAGE = 1 - 10 / COSTS.smallData;

describe('the price of small messages of a response', () => {
	it('is that of the messages if each comes in a read', () => {
		const cost = priced();
		for (let i = 0; i < 5; i++) {
			cost.read(false);
			cost.message();
		}
		assert.equal(cost.spent, 5 * MESSAGE);
	});

	it('is the same if the reads are delayed, and looked at one after the other', () => {
		const cost = priced();
		cost.read(false);
		for (let i = 0; i < 4; i++) cost.read(true);
		for (let i = 0; i < 5; i++) cost.message();
		assert.equal(cost.spent, 5 * MESSAGE);
	});

	it('is not lowered by earlier reads of something else', () => {
		const cost = priced();
		for (let i = 0; i < 5; i++) cost.read(false);
		for (let i = 0; i < 5; i++) cost.message();
		assert.equal(cost.spent, 4 * SERVER_COSTS.read + 5 * MESSAGE);
	});
});
