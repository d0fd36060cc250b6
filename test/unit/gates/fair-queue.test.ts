import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { FairQueue, type Turn } from '../../../packages/proxy/src/gates/fair-queue.ts';

/** Serves all requests except those that pass. @returns them in their order. */
function drain(queue: FairQueue<string, string>, passes: readonly string[] = []): string[] {
	const served: string[] = [];
	queue.serve((waiting) => {
		if (passes.includes(waiting)) return 'passed';
		served.push(waiting);
		return 'taken';
	});
	return served;
}

/** One turn. @returns who has had it. */
function next(queue: FairQueue<string, string>): string | undefined {
	let served: string | undefined;
	queue.serve((waiting): Turn => {
		if (served !== undefined) return 'over';
		served = waiting;
		return 'taken';
	});
	return served;
}

describe('a request that waits for an upstream', () => {
	test('is served in turns by tenant, and of each tenant in the order of arrival', () => {
		const queue = new FairQueue<string, string>();
		for (const one of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) queue.add(one[0]!, one);
		assert.equal(queue.size, 6);
		assert.deepEqual(drain(queue), ['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
		assert.equal(queue.size, 0);
	});

	test('keeps its place until there is something to take', () => {
		const queue = new FairQueue<string, string>();
		for (const one of ['a1', 'b1', 'a2']) queue.add(one[0]!, one);
		const offered: string[] = [];
		queue.serve((waiting) => {
			offered.push(waiting);
			return 'over';
		});
		assert.deepEqual([offered, next(queue), queue.size], [['a1'], 'a1', 2]);
		assert.deepEqual(drain(queue), ['b1', 'a2']);
	});

	test('does not delay others when it is skipped, and keeps its place within its tenant', () => {
		const queue = new FairQueue<string, string>();
		for (const one of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1']) queue.add(one[0]!, one);
		assert.deepEqual(drain(queue, ['a1', 'c1']), ['a2', 'b1', 'a3', 'b2']);
		queue.add('a', 'a4');
		assert.deepEqual([queue.size, drain(queue)], [3, ['c1', 'a1', 'a4']]);
	});

	test('may leave before its turn, from any place', () => {
		const queue = new FairQueue<string, string>();
		for (const one of ['a1', 'a2', 'b1', 'b2']) queue.add(one[0]!, one);
		queue.remove('b', 'b1');
		queue.remove('a', 'a1');
		queue.remove('a', 'a1');
		queue.remove('z', 'z1');
		assert.deepEqual([queue.size, drain(queue)], [2, ['a2', 'b2']]);
	});

	test('makes room for a tenant with fewer waiting requests: the last of the tenant with most gives way', () => {
		const queue = new FairQueue<string, string>();
		assert.deepEqual([queue.most, queue.lastOfMost(0)], [0, undefined]);
		for (const one of ['b1', 'a1', 'a2', 'b2', 'a3']) queue.add(one[0]!, one);
		assert.deepEqual([queue.most, queue.sizeOf('b'), queue.sizeOf('c')], [3, 2, 0]);
		assert.deepEqual(queue.lastOfMost(2), ['a', 'a3']);
		assert.equal(queue.lastOfMost(3), undefined, 'a tenant that would have as many then');
		queue.remove('a', 'a3');
		assert.deepEqual([queue.most, queue.lastOfMost(0)?.[1].slice(1)], [2, '2']);
	});

	test('knows the last of the tenant with most waiting after any adding, serving and leaving', () => {
		const operation = fc.oneof(
			{ weight: 3, arbitrary: fc.record({ add: fc.constantFrom('a', 'b', 'c') }) },
			{ weight: 1, arbitrary: fc.record({ leave: fc.nat(30) }) },
			{ weight: 1, arbitrary: fc.record({ serve: fc.nat(3) }) },
		);
		fc.assert(
			fc.property(fc.array(operation, { maxLength: 120 }), (operations) => {
				const queue = new FairQueue<string, string>();
				let model: string[] = [];
				let count = 0;
				for (const operation of operations) {
					if ('add' in operation) {
						const one = `${operation.add}${count++}`;
						queue.add(operation.add, one);
						model.push(one);
					} else if ('leave' in operation) {
						const one = model[operation.leave];
						if (one !== undefined) queue.remove(one[0]!, one);
						model = model.filter((other) => other !== one);
					} else {
						let left = operation.serve;
						queue.serve((one) => {
							if (left-- === 0) return 'over';
							model = model.filter((other) => other !== one);
							return 'taken';
						});
					}
					const byTenant = Object.groupBy(model, (one) => one[0]!);
					const most = Math.max(0, ...Object.values(byTenant).map((own) => own!.length));
					assert.deepEqual([queue.size, queue.most], [model.length, most]);
					const [tenant, last] = queue.lastOfMost(0) ?? [];
					if (tenant !== undefined)
						assert.deepEqual([byTenant[tenant]!.length, byTenant[tenant]!.at(-1)], [most, last]);
				}
			}),
		);
	});

	test('makes room in a few steps, however many requests of the tenant wait', (t) => {
		const queue = new FairQueue<string, number>();
		const WAITING = 1_000;
		for (let one = 0; one < WAITING; one++) queue.add('greedy', one);
		const walked = [new Set(), new Map()].map((empty) =>
			t.mock.method(Object.getPrototypeOf(empty[Symbol.iterator]()) as Iterator<unknown>, 'next'),
		);
		const looked = t.mock.method(Set.prototype, 'has');
		const ARRIVALS = 100;
		for (let arrival = 0; arrival < ARRIVALS; arrival++) {
			const [tenant, last] = queue.lastOfMost(1)!;
			queue.remove(tenant, last);
			queue.add(`small ${arrival}`, WAITING + arrival);
		}
		const steps = [...walked, looked].reduce((sum, { mock }) => sum + mock.callCount(), 0);
		t.mock.reset();
		assert.deepEqual([queue.size, queue.most], [WAITING, WAITING - ARRIVALS]);
		assert.ok(steps <= 10 * ARRIVALS, `${steps} steps for ${ARRIVALS} arrivals`);
	});

	test('waits for at most one request of each other tenant more than its own tenant has before it', () => {
		const operation = fc.oneof(
			{ weight: 3, arbitrary: fc.record({ add: fc.constantFrom('a', 'b', 'c', 'd') }) },
			{ weight: 1, arbitrary: fc.constant('serve' as const) },
			{ weight: 1, arbitrary: fc.record({ remove: fc.nat() }) },
		);
		fc.assert(
			fc.property(fc.array(operation, { maxLength: 200 }), (operations) => {
				const queue = new FairQueue<string, string>();
				const waiting: string[] = [];
				/** Turns of each other tenant since one has been waiting. */
				const passed = new Map<string, Map<string, number>>();
				const ahead = new Map<string, number>();
				let arrived = 0;
				for (const one of operations) {
					if (one === 'serve') {
						const first = next(queue);
						assert.equal(first === undefined, waiting.length === 0);
						if (first === undefined) continue;
						const own = waiting.filter((other) => other[0] === first[0]);
						assert.equal(first, own[0], 'the first of its tenant');
						waiting.splice(waiting.indexOf(first), 1);
						for (const other of waiting) {
							if (other[0] === first[0]) continue;
							const turns = passed.get(other)!;
							turns.set(first[0]!, (turns.get(first[0]!) ?? 0) + 1);
							assert.ok(turns.get(first[0]!)! <= ahead.get(other)! + 1, `${other} was passed by ${first}`);
						}
					} else if ('add' in one) {
						const name = `${one.add}${arrived++}`;
						ahead.set(name, waiting.filter((other) => other[0] === one.add).length);
						passed.set(name, new Map());
						waiting.push(name);
						queue.add(one.add, name);
					} else if (waiting.length > 0) {
						const [gone] = waiting.splice(one.remove % waiting.length, 1);
						queue.remove(gone![0]!, gone!);
					}
					assert.equal(queue.size, waiting.length);
				}
			}),
		);
	});
});
