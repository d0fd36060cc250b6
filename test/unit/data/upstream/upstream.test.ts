import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Endpoint } from '../../../../packages/proxy/src/data/upstream/endpoint.ts';
import {
	type Choice,
	Moment,
	Upstream,
	type UpstreamParts,
} from '../../../../packages/proxy/src/data/upstream/upstream.ts';
import { DEFAULT_BALANCING } from '../../../../packages/proxy/src/gates/balancing/settings.ts';
import { BreakerCell, CLOSED, NORMAL, OPEN, REFUSED } from '../../../../packages/proxy/src/memory/breaker-cell.ts';
import { UpstreamLoad } from '../../../../packages/proxy/src/memory/upstream-load.ts';

const COOLDOWN_MS = 1_000;

/** As much of an upstream as its group looks at. */
function upstream(i: number, circuit: typeof OPEN | typeof CLOSED = CLOSED): Endpoint {
	return {
		authority: `10.0.0.${i}:80`,
		breaker: new BreakerCell(BreakerCell.allocate(0, circuit)),
		load: new UpstreamLoad(UpstreamLoad.allocate(1, 0), 0),
		pool: { isShut: false },
	} as Endpoint;
}

function group(upstreams: readonly Endpoint[], parts: Partial<UpstreamParts> = {}): Upstream {
	const weights = upstreams.map(() => 1);
	return new Upstream({
		...DEFAULT_BALANCING,
		name: 'billing',
		endpoints: upstreams,
		weights,
		random: Math.random,
		...parts,
	});
}

function chosen(of: Upstream, now: number, tried?: readonly Endpoint[]): Choice {
	const choice = of.choose(now, COOLDOWN_MS, 't', tried);
	assert.ok(typeof choice !== 'string', `${choice}`);
	return choice;
}

describe('a group of addresses', () => {
	it('admits as long as one of its breakers does, and says what has to be reported', () => {
		const [a, b] = [upstream(1), upstream(2, OPEN)];
		const both = group([a, b]);
		for (let i = 0; i < 20; i++) {
			assert.deepEqual(both.choose(0, COOLDOWN_MS, 't'), { endpoint: a, admission: NORMAL, load: a.load });
		}
		a.breaker.health(false, 0);
		assert.equal(both.choose(0, COOLDOWN_MS, 't'), 'none');
	});

	it('sends only one request to an address whose cooldown is over', () => {
		const [a, b] = [upstream(1), upstream(2, OPEN)];
		const both = group([a, b], { balance: 'round-robin' });
		const admitted = Array.from({ length: 10 }, () => chosen(both, COOLDOWN_MS));
		assert.deepEqual(
			admitted.filter(({ endpoint: upstream }) => upstream === b).map(({ admission }) => admission !== NORMAL),
			[true],
		);
		assert.equal(admitted.filter(({ endpoint: upstream }) => upstream === a).length, 9);
	});

	it('chooses anew when another thread has sent the probe since it looked', () => {
		const [a, b] = [upstream(1), upstream(2, OPEN)];
		// Seen as cooled down; by the time of the request it is not.
		const stale = Object.assign(Object.create(b), {
			breaker: Object.assign(Object.create(b.breaker), {
				looks: 0,
				admits() {
					return this.looks++ === 0;
				},
				admit: () => REFUSED,
			}),
		});
		const both = group([stale, a], { balance: 'round-robin', random: () => 0 });
		assert.equal(chosen(both, 0).endpoint, a);
		assert.equal(stale.breaker.looks > 1, true);
	});

	it('has no address for a request that all of them did not take', () => {
		const all = [upstream(1), upstream(2), upstream(3)];
		for (const balance of ['least-requests', 'round-robin', 'hash'] as const) {
			const three = group(all, { balance });
			const [a, b, c] = all as [Endpoint, Endpoint, Endpoint];
			for (let i = 0; i < 10; i++) assert.equal(chosen(three, 0, [a, c]).endpoint, b);
			assert.equal(three.choose(0, COOLDOWN_MS, 't', all), 'none');
			assert.ok(all.includes(chosen(three, 0).endpoint), 'the next request may go anywhere again');
		}
	});

	it('gives an address that has come back its weight little by little', () => {
		const all = [upstream(1), upstream(2)];
		const slow = group(all, { weights: [4, 4], slowStartMs: 10_000 });
		all[1]!.load.servesSince(100_000);
		const weights = (now: number) => {
			const moment = new Moment(slow, now, COOLDOWN_MS, undefined);
			return [moment.weight(0), moment.weight(1)];
		};
		assert.deepEqual([100_000, 105_000, 110_000, 200_000].map(weights), [
			[4, 0.4],
			[4, 2],
			[4, 4],
			[4, 4],
		]);
	});

	it('gives the requests of one turn to an address together while that is no busier than others, and starts anew with the next turn', () => {
		const all = [upstream(1), upstream(2), upstream(3)];
		for (const { load } of all) for (let n = 0; n < 3; n++) load.inc();
		const draws = [0.4, 0.6, 0.9, 0, 0.9, 0.6];
		let at = 0;
		const many = group(all, { random: () => draws[at++ % draws.length]! });
		const first = chosen(many, 1).endpoint;
		for (let n = 0; n < 3; n++) first.load.dec();
		for (let n = 0; n < 3; n++) assert.equal(chosen(many, 1).endpoint, first);
		const later = Array.from({ length: 20 }, (_, n) => chosen(many, 2 + n).endpoint);
		assert.ok(new Set(later).size > 1);
	});

	it('keeps its counts when a reload replaces it', () => {
		const all = [upstream(1), upstream(2), upstream(3)];
		const parts = { balance: 'round-robin', random: () => 0 } as const;
		const first = group(all, parts);
		assert.equal(chosen(first, 0).endpoint, all[0]);
		first.retryBudget!.retry(0);
		const second = group(all, { ...parts, before: first, slowStartMs: 1_000 });
		assert.equal(second.retryBudget, first.retryBudget);
		assert.deepEqual(
			all.map(() => chosen(second, 5_000).endpoint),
			[all[1], all[2], all[0]],
		);
		const fewer = group(all.slice(1), { ...parts, before: second });
		assert.equal(fewer.retryBudget, first.retryBudget, 'the budget is for whatever its addresses are');
		assert.equal(chosen(fewer, 5_000).endpoint, all[1], 'the turns begin anew');
		assert.equal(group(all.slice(2), { ...parts, before: second }).retryBudget, undefined);
	});

	it('chooses and counts nothing if there is one address, and counts only what is looked at', () => {
		const one = group([upstream(1)]);
		assert.deepEqual([one.counts, one.retryBudget, one.only], [false, undefined, one.endpoints[0]]);
		assert.equal(group([upstream(1), upstream(2)]).counts, true);
		assert.equal(group([upstream(1), upstream(2)], { balance: 'hash' }).counts, false);
		assert.equal(group([upstream(1), upstream(2)], { retries: 0 }).retryBudget, undefined);
	});
});
