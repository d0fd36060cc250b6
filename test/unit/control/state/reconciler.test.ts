import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { RETRY_MS, Reconciler } from '../../../../packages/proxy/src/control/state/reconciler.ts';
import { type Desired, type Offer, Resource } from '../../../../packages/proxy/src/control/state/resource.ts';
import type { TlsMaterial } from '../../../../packages/proxy/src/shared/messages.ts';
import { FakeThread, type Temper } from '../fixtures/fake-thread.ts';
import { settle } from '../fixtures/fake-time.ts';
import { TestPool } from '../fixtures/pool.ts';

type Name = 'first' | 'second';
const NAMES = ['first', 'second'] as const;
/** The longest time that a worker may take to answer, and a pause; see `WorkerPool`. */
const LONGEST_ROUND_MS = 10_000 + 5_000;

/** A resource's value: two numbers that are always equal, so that half of a value would show. */
interface Pair {
	readonly spec: number;
	readonly input: number;
}

function materialOf(resource: Name, { spec, input }: Pair): TlsMaterial {
	return { cert: `${resource} ${spec} ${input}`, key: `${resource} ${spec} ${input}`, ca: resource };
}

/** A thread that keeps what it was committed, as `data/worker.ts` does. */
class KeepingThread extends FakeThread {
	readonly has: Record<Name, string>;

	constructor(port: number, inForce: Readonly<Record<Name, Pair>>) {
		super(port);
		this.has = { first: materialOf('first', inForce.first).cert, second: materialOf('second', inForce.second).cert };
		const prepared = new Map<number, TlsMaterial>();
		const { postMessage } = this;
		this.postMessage = (message) => {
			if (message.type === 'prepare-tls') prepared.set(message.id, message.tls);
			if (message.type === 'commit') {
				const material = prepared.get(message.id);
				if (material !== undefined) this.has[material.ca as Name] = material.cert;
			}
			if (message.type === 'discard') prepared.delete(message.id);
			postMessage.call(this, message);
		};
	}
}

/** Two resources over a pool of three workers. */
class World extends TestPool {
	readonly inForce: Record<Name, Pair> = { first: { spec: 0, input: 0 }, second: { spec: 0, input: 0 } };
	/** What refreshes itself under each resource. */
	readonly inputs: Record<Name, number> = { first: 0, second: 0 };
	/** How many times the next value of a resource cannot be worked out. */
	readonly faults: Record<Name, number> = { first: 0, second: 0 };
	/** Rounds that began while another one was under way. */
	overlaps = 0;
	#rounds = 0;
	readonly reconciler = new Reconciler({ offer: (...round) => this.#offer(...round), timers: this.time });
	readonly resources: Record<Name, Desired<number>> = { first: this.#add('first'), second: this.#add('second') };
	readonly outcomes: Promise<void>[] = [];
	/** Specifications that were refused, by resource. */
	readonly refused: Record<Name, Set<number>> = { first: new Set(), second: new Set() };
	/** The newest one that was set, by resource. */
	readonly newest: Record<Name, number> = { first: 0, second: 0 };
	#specs = 0;

	constructor() {
		super(3);
		this.makeThread = (port) => new KeepingThread(port, this.inForce);
	}

	static async serving(): Promise<World> {
		const world = new World();
		await world.reconciler.start();
		await world.pool.start();
		world.reconciler.serve();
		return world;
	}

	#add(name: Name) {
		return this.reconciler.add<number, Pair>(0, {
			gather: async () => settleOnce(),
			build: (spec) => {
				if (this.faults[name] > 0) {
					this.faults[name]--;
					throw new Error('cannot be worked out');
				}
				return { spec, input: this.inputs[name] };
			},
			message: (pair, _, id) => ({ type: 'prepare-tls', id, tls: materialOf(name, pair) }),
			commit: (pair) => {
				this.inForce[name] = pair;
			},
			onFailure: () => {},
		});
	}

	async #offer(...round: Parameters<Offer>): Promise<void> {
		if (this.#rounds++ > 0) this.overlaps++;
		await this.pool.switchAll(...round).finally(() => this.#rounds--);
	}

	/** A worker that was silent answers what it was asked last. */
	answerLate(worker: number): void {
		const last = this.thread(worker).received.findLast(({ type }) => type === 'prepare-tls');
		if (last !== undefined && 'id' in last) this.thread(worker).say({ type: 'prepared', id: last.id });
	}

	set(name: Name): void {
		const spec = ++this.#specs;
		this.newest[name] = spec;
		const outcome = this.resources[name].set(spec).catch(() => void this.refused[name].add(spec));
		this.outcomes.push(outcome);
	}

	change(name: Name): void {
		this.inputs[name]++;
		this.resources[name].changed();
	}

	/** Everything that goes wrong ends, and all that was begun comes to its end. */
	async calm(): Promise<void> {
		for (const name of NAMES) this.faults[name] = 0;
		for (const { thread } of this.spawned) thread.temper = 'obedient';
		await this.time.advance(4 * LONGEST_ROUND_MS);
		await Promise.all(this.outcomes);
	}

	get workers(): KeepingThread[] {
		return [0, 1, 2].map((worker) => this.thread(worker) as KeepingThread);
	}
}

function settleOnce(): Promise<void> {
	return new Promise((resolve) => void setImmediate(resolve));
}

const resource = fc.constantFrom(...NAMES);
const worker = fc.nat({ max: 2 });
const step = fc.oneof(
	fc.record({ type: fc.constant('set' as const), resource }),
	fc.record({ type: fc.constant('change' as const), resource }),
	fc.record({ type: fc.constant('fault' as const), resource }),
	fc.record({ type: fc.constant('die' as const), worker }),
	fc.record({ type: fc.constant('answer' as const), worker }),
	fc.record({
		type: fc.constant('temper' as const),
		worker,
		temper: fc.constantFrom<Temper>('obedient', 'refusing', 'silent', 'dying'),
	}),
	fc.record({ type: fc.constant('turns' as const), count: fc.integer({ min: 1, max: 8 }) }),
	fc.record({ type: fc.constant('time' as const), ms: fc.constantFrom(1, RETRY_MS, 10_000) }),
);

async function take(world: World, one: typeof step extends fc.Arbitrary<infer Step> ? Step : never): Promise<void> {
	switch (one.type) {
		case 'set':
			return world.set(one.resource);
		case 'change':
			return world.change(one.resource);
		case 'fault':
			world.faults[one.resource]++;
			return;
		case 'die':
			return world.thread(one.worker).die();
		case 'answer':
			return world.answerLate(one.worker);
		case 'temper':
			world.thread(one.worker).temper = one.temper;
			return;
		case 'turns':
			for (let turn = 0; turn < one.count; turn++) await settleOnce();
			return;
		case 'time':
			return world.time.advance(one.ms);
	}
}

describe('the reconciler', () => {
	test('brings all workers to the newest state after any order of sets, changes, errors and deaths', async () => {
		await fc.assert(
			fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
				const world = await World.serving();
				for (const one of steps) await take(world, one);
				await world.calm();
				for (const name of NAMES) {
					const { spec, input } = world.inForce[name];
					assert.equal(input, world.inputs[name], `the newest input of ${name}`);
					if (world.refused[name].has(world.newest[name])) assert.ok(!world.refused[name].has(spec));
					else assert.equal(spec, world.newest[name], `the newest specification of ${name}`);
					for (const { has } of world.workers) assert.equal(has[name], materialOf(name, world.inForce[name]).cert);
				}
				assert.equal(world.pool.listening, 3);
				assert.deepEqual([world.time.pending, world.overlaps], [0, 0]);
			}),
			{ numRuns: 500 },
		);
	});

	test('applies the newest of several specifications, and reports the result to all setters', async () => {
		const world = await World.serving();
		const before = world.spawned[0]!.thread.received.length;
		const [first, ...others] = [1, 2, 3].map((spec) => world.resources.first.set(spec));
		await Promise.all([first, ...others]);
		assert.equal(world.inForce.first.spec, 3);
		const rounds = world.spawned[0]!.thread.types.slice(before).filter((type) => type === 'commit').length;
		assert.equal(rounds, 2, 'the first, and the newest of those that were set meanwhile');
	});

	test('keeps the specification in force if a newer one is refused, and takes over what changed meanwhile', async () => {
		const world = await World.serving();
		world.thread(1).temper = 'refusing';
		const refused = assert.rejects(world.resources.first.set(7), /^Error: worker 1 refused: not with me$/);
		await settleOnce();
		world.change('first');
		await refused;
		world.thread(1).temper = 'obedient';
		await world.time.advance(RETRY_MS);
		assert.deepEqual(world.inForce.first, { spec: 0, input: 1 });
	});

	test('does not let a specification wait for the pause after a change that was refused', async () => {
		const world = await World.serving();
		world.thread(1).temper = 'refusing';
		world.change('first');
		await settle();
		world.thread(1).temper = 'obedient';
		await world.resources.first.set(7);
		assert.deepEqual(world.inForce.first, { spec: 7, input: 1 });
		assert.equal(world.time.pending, 0);
	});

	test('starts no worker during a round, so that none begins with a state that is being left', async () => {
		const world = await World.serving();
		world.thread(0).die();
		world.thread(1).temper = 'silent';
		await settle();
		const set = world.resources.first.set(7);
		await world.time.advance(1_000);
		world.answerLate(1);
		await set;
		await world.calm();
		for (const { has } of world.workers) assert.equal(has.first, materialOf('first', { spec: 7, input: 0 }).cert);
	});

	test('ends a start at which a resource cannot be worked out with the reason', async () => {
		const world = new World();
		world.faults.second = 1;
		await assert.rejects(world.reconciler.start(), /^Error: cannot be worked out$/);
	});

	test('starts nothing after its stop, and rejects all waiters', async () => {
		const world = await World.serving();
		world.thread(1).temper = 'silent';
		const underWay = world.resources.first.set(1);
		await settle();
		const refused = (outcome: Promise<void>) => assert.rejects(outcome, { message: 'the proxy is shutting down' });
		const waiting = [refused(world.resources.first.set(2)), refused(world.resources.second.set(3))];
		world.reconciler.stop();
		waiting.push(refused(world.resources.second.set(4)));
		world.change('first');
		world.thread(1).temper = 'obedient';
		const { id } = world.thread(1).received.at(-1) as { id: number };
		world.thread(1).say({ type: 'prepared', id });
		await Promise.all([underWay, ...waiting]);
		await settle();
		assert.deepEqual(world.inForce, { first: { spec: 1, input: 0 }, second: { spec: 0, input: 0 } });
	});
});

test('a resource is not dirty between two changes', async () => {
	const resource = new Resource<number, number>(
		0,
		{ build: (spec) => spec, message: () => assert.fail(), commit: () => {}, onFailure: () => {} },
		() => {},
	);
	assert.equal(resource.isDirty, true, 'the first specification has not been taken over');
	await resource.takeOver(async (_, commit) => commit());
	assert.equal(resource.isDirty, false);
	resource.changed();
	assert.equal(resource.isDirty, true);
});
