/** The guarantees of all kinds of balancing, and those of each kind. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createBalancer } from '../../../../packages/proxy/src/gates/balancing/create-balancer.ts';
import { BALANCES } from '../../../../packages/proxy/src/gates/balancing/settings.ts';
import { areAs, chosen, FakeCandidates, seeded } from './candidates.ts';

const address = (i: number) => `10.0.0.${i}:8080`;
const balancer = (balance: (typeof BALANCES)[number], weights: readonly number[], seed = 1) =>
	createBalancer(
		balance,
		weights.map((_, i) => address(i)),
		weights,
		seeded(seed),
	);

const weights = fc.array(fc.integer({ min: 1, max: 256 }), { minLength: 1, maxLength: 60 });

for (const balance of BALANCES) {
	describe(balance, () => {
		test('chooses only admitting addresses, and one as long as any is left', () => {
			fc.assert(
				fc.property(weights, fc.infiniteStream(fc.boolean()), fc.nat(), (all, refuses, seed) => {
					const candidates = new FakeCandidates(all);
					for (const i of all.keys()) if (refuses.next().value) candidates.refusing.add(i);
					for (const i of all.keys()) candidates.loads[i] = (i * 7 + seed) % 5;
					const chooser = balancer(balance, all, seed);
					for (let n = 0; n < 20; n++) {
						const choice = chooser.choose(candidates, `tenant-${seed + n}`);
						if (candidates.refusing.size === all.length) assert.equal(choice, -1);
						else assert.ok(choice >= 0 && choice < all.length && candidates.admits(choice), `${choice}`);
					}
				}),
				{ numRuns: 300 },
			);
		});

		test('gives idle addresses shares by weight', () => {
			for (const all of [[1, 1], [1, 3], [5, 1, 1, 2], Array(20).fill(4)]) {
				const candidates = new FakeCandidates(all);
				const chooser = balancer(balance, all);
				const counts = chosen(40_000, all.length, (n) => chooser.choose(candidates, `tenant-${n}`));
				assert.ok(areAs(all, counts, 0.1), `${all}: ${counts}`);
			}
		});

		test('spreads the share of a refusing address over the others, by weight', () => {
			const candidates = new FakeCandidates([2, 1, 1]);
			candidates.refusing.add(0);
			const chooser = balancer(balance, [2, 1, 1]);
			const counts = chosen(20_000, 3, (n) => chooser.choose(candidates, `tenant-${n}`));
			assert.ok(areAs([0, 1, 1], counts, 0.1), `${counts}`);
		});

		test('gives a slowly starting address its reduced share', () => {
			for (const part of [0.1, 0.5]) {
				const candidates = new FakeCandidates([1, part, 1, 1]);
				const chooser = balancer(balance, [1, 1, 1, 1]);
				const counts = chosen(40_000, 4, (n) => chooser.choose(candidates, `tenant-${n}`));
				assert.ok(areAs([1, part, 1, 1], counts, 0.1), `${part}: ${counts}`);
			}
		});
	});
}

describe('least-requests', () => {
	test('chooses the less loaded of two, by weight', () => {
		fc.assert(
			fc.property(
				fc.tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 9 })),
				fc.tuple(fc.nat(50), fc.nat(50)),
				fc.nat(),
				(all, loads, seed) => {
					const candidates = new FakeCandidates(all);
					candidates.loads.splice(0, 2, ...loads);
					const [a, b] = [loads[0] / all[0], loads[1] / all[1]];
					fc.pre(a !== b);
					assert.equal(balancer('least-requests', all, seed).choose(candidates, ''), a < b ? 0 : 1);
				},
			),
		);
	});

	test('spreads requests in flight by weight, with no address far from its share', () => {
		const all = [1, 1, 2, 4, ...Array<number>(16).fill(1)];
		const candidates = new FakeCandidates(all);
		const chooser = balancer('least-requests', all);
		for (let n = 0; n < 2_400; n++) candidates.loads[chooser.choose(candidates, '')]! += 1;
		// 100 for each weight of 1: only by chance, some would be 20 off.
		for (const [i, load] of candidates.loads.entries()) {
			assert.ok(Math.abs(load / all[i]! - 100) < 8, `${i}: ${load}`);
		}
	});

	test('follows the last request of the turn to an address that has no more than the drawn ones, if it admits', () => {
		const candidates = new FakeCandidates([2, 1, 1]);
		const chooser = balancer('least-requests', [2, 1, 1]);
		const choices = () => new Set(Array.from({ length: 100 }, () => chooser.choose(candidates, '')));
		candidates.latest = 0;
		candidates.loads.splice(0, 3, 4, 2, 2);
		assert.deepEqual([...choices()], [0], 'a tie, by weight');
		candidates.refusing.add(0);
		assert.equal(choices().has(0), false);
		candidates.refusing.clear();
		candidates.loads[0] = 5;
		assert.equal(choices().has(0), false, 'it has more than any other');
	});

	test('spreads the requests of a turn more evenly with its last address as a third candidate, over fewer addresses', () => {
		const all = Array<number>(50).fill(1);
		const rounds = 2_000;
		const turns = [false, true].map((hasMemory) => {
			const candidates = new FakeCandidates(all);
			const chooser = balancer('least-requests', all);
			const random = seeded(2);
			const underWay: number[] = [];
			let [addresses, squares] = [0, 0];
			for (let round = 0; round < rounds; round++) {
				const turn = new Set<number>();
				candidates.latest = -1;
				for (let n = 0; n < 8; n++) {
					const choice = chooser.choose(candidates, '');
					if (hasMemory) candidates.latest = choice;
					candidates.loads[choice]! += 1;
					turn.add(choice);
					underWay.push(choice);
				}
				addresses += turn.size;
				for (const load of candidates.loads) squares += load * load;
				while (underWay.length > 250) {
					const [done] = underWay.splice(Math.floor(random() * underWay.length), 1);
					candidates.loads[done!]! -= 1;
				}
			}
			return { addresses, squares };
		});
		const [without, withMemory] = turns;
		assert.ok(withMemory!.squares < without!.squares, JSON.stringify(turns));
		assert.ok(withMemory!.addresses < 0.8 * without!.addresses, JSON.stringify(turns));
	});

	test('keeps away from an address that answers slowly', () => {
		const candidates = new FakeCandidates([1, 1, 1]);
		const chooser = balancer('least-requests', [1, 1, 1]);
		const underWay: number[] = [];
		const counts = chosen(3_000, 3, () => {
			const choice = chooser.choose(candidates, '');
			candidates.loads[choice]! += 1;
			underWay.push(choice);
			// The first one never answers, each other request is answered when three more have come.
			if (underWay.length > 3) {
				const [done] = underWay.splice(0, 1);
				if (done !== 0) candidates.loads[done!]! -= 1;
			}
			return choice;
		});
		assert.ok(counts[0]! < 100, `${counts}`);
	});
});

describe('round-robin', () => {
	test('takes turns: with equal weights, no address is used twice before each was used once', () => {
		fc.assert(
			fc.property(fc.integer({ min: 1, max: 20 }), fc.nat(), (count, seed) => {
				const all = Array<number>(count).fill(3);
				const chooser = balancer('round-robin', all, seed);
				const candidates = new FakeCandidates(all);
				for (let round = 0; round < 5; round++) {
					assert.deepEqual(
						chosen(count, count, () => chooser.choose(candidates, '')),
						Array(count).fill(1),
					);
				}
			}),
		);
	});

	test('starts at a random address, so that workers differ', () => {
		const firsts = Array.from({ length: 20 }, (_, seed) =>
			balancer('round-robin', [1, 1, 1], seed).choose(new FakeCandidates([1, 1, 1]), ''),
		);
		assert.deepEqual([...new Set(firsts)].sort(), [0, 1, 2]);
	});

	test('spreads the turns of a heavier address', () => {
		const chooser = balancer('round-robin', [4, 1, 1]);
		const candidates = new FakeCandidates([4, 1, 1]);
		let inRow = 0;
		for (let n = 0; n < 60; n++) {
			inRow = chooser.choose(candidates, '') === 0 ? inRow + 1 : 0;
			assert.ok(inRow <= 4);
		}
	});
});

describe('hash', () => {
	const tenants = Array.from({ length: 2_000 }, (_, i) => `tenant-${i}`);
	const homes = (addresses: readonly string[], all: readonly number[]) => {
		const chooser = createBalancer('hash', addresses, all, Math.random);
		const candidates = new FakeCandidates(all);
		return tenants.map((tenant) => addresses[chooser.choose(candidates, tenant)]!);
	};
	const addresses = Array.from({ length: 10 }, (_, i) => address(i));
	const even = addresses.map(() => 1);

	test('sends a tenant to the same address in each process, whatever the order of the addresses', () => {
		assert.deepEqual(homes(addresses, even), homes(addresses.toReversed(), even));
		// What other replicas and releases have chosen.
		assert.deepEqual(
			['acme', 'globex', 'initech'].map((tenant) => {
				const chooser = createBalancer('hash', addresses, even, Math.random);
				return chooser.choose(new FakeCandidates(even), tenant);
			}),
			HOMES,
		);
	});

	test('moves only the tenants of an address that is removed, and spreads them over all that are left', () => {
		for (const [gone, removed] of addresses.entries()) {
			const before = homes(addresses, even);
			const after = homes(addresses.toSpliced(gone, 1), even.slice(1));
			const moved = new Set<string>();
			for (const [i, home] of before.entries()) {
				if (home !== removed) assert.equal(after[i], home);
				else moved.add(after[i]!);
			}
			assert.equal(moved.size, addresses.length - 1);
		}
	});

	test('moves only tenants of an address that does not admit, and gives it back the same ones', () => {
		const chooser = createBalancer('hash', addresses, even, Math.random);
		const candidates = new FakeCandidates(even);
		const before = tenants.map((tenant) => chooser.choose(candidates, tenant));
		candidates.refusing.add(3);
		for (const [i, home] of before.entries()) {
			const now = chooser.choose(candidates, tenants[i]!);
			if (home === 3) assert.notEqual(now, 3);
			else assert.equal(now, home);
		}
		candidates.refusing.clear();
		assert.deepEqual(
			tenants.map((tenant) => chooser.choose(candidates, tenant)),
			before,
		);
	});

	test('moves tenants only to the address that gains weight', () => {
		const before = homes(addresses, even);
		const after = homes(addresses, even.with(4, 3));
		for (const [i, home] of after.entries()) if (home !== before[i]) assert.equal(home, address(4));
		assert.ok(after.filter((home) => home === address(4)).length > before.filter((home) => home === address(4)).length);
	});

	test('spreads tenants whose names differ in one digit, and addresses that do', () => {
		const counts = addresses.map((one) => homes(addresses, even).filter((home) => home === one).length);
		assert.ok(areAs(even, counts, 0.25), `${counts}`);
	});
});

const HOMES = [2, 7, 2];
