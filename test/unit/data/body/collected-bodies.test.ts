/**
 * Many bodies of two tenants at once, over memory that is used again: put together, read in place, lent to writes that are over
 * late or never, taken piece by piece, given up in the middle. Each reader of a body gets the bytes of that body only.
 */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import fc from 'fast-check';
import { BufferedBytes } from '../../../../packages/proxy/src/data/body/buffered-bytes.ts';
import { ByteCollector } from '../../../../packages/proxy/src/data/body/byte-collector.ts';
import { UNDECLARED } from '../../../../packages/proxy/src/gates/body-limit.ts';
import { Budget, budgetInUse } from '../../../../packages/proxy/src/memory/budget.ts';
import { SLAB_BYTES, SLABS } from '../../../../packages/proxy/src/shared/slabs.ts';

let memory = Budget.allocate(2 ** 30, 1024, 1);
let bytes = new BufferedBytes(new Budget(memory, 0), undefined);
beforeEach(fresh);

function fresh(): void {
	memory = Budget.allocate(2 ** 30, 1024, 1);
	bytes = new BufferedBytes(new Budget(memory, 0), undefined);
}

/** One body, and all that reads it. */
class Body {
	readonly collector = new ByteCollector(bytes, 1n);
	readonly mark: number;
	readonly expected: number;
	/** Writes that have not called back: what they read. */
	readonly lent: { pieces: readonly Buffer[]; length: number }[] = [];
	readonly taken: Buffer[] = [];
	room: Buffer | undefined;
	isReleased = false;
	/** It is read first, and passed on only when it is whole: lent as a request, or taken piece by piece as a response. */
	isWhole = false;
	isLent = false;

	constructor(mark: number, expected: number) {
		this.mark = mark;
		this.expected = expected;
	}

	/** Until the write's callback the bytes under it are the body's, even if the body itself has been given up. */
	check(): void {
		for (const { pieces, length } of this.lent) {
			equal(
				pieces.reduce((sum, piece) => sum + piece.length, 0),
				length,
			);
			for (const piece of pieces) this.#expectOwn(piece);
		}
		for (const piece of this.taken) this.#expectOwn(piece);
	}

	#expectOwn(piece: Buffer): void {
		// The first byte that is another's, if any; a loop in JavaScript over all of them would take minutes.
		ok(piece.equals(Buffer.alloc(piece.length, this.mark)), `bytes of another body than ${this.mark}`);
	}
}

const step = fc.record({
	body: fc.nat(5),
	action: fc.constantFrom(...(['append', 'append', 'read', 'lend', 'returned', 'shift', 'free', 'release'] as const)),
	size: fc.oneof(fc.nat(200), fc.nat(SLAB_BYTES), fc.nat(3 * SLAB_BYTES)),
	declared: fc.boolean(),
});

describe('bodies in memory that is used again', () => {
	it('are each their own, in every interleaving of reads, writes, aborts and resets', () => {
		let mostFree = 0;
		fc.assert(
			fc.property(fc.array(step, { minLength: 20, maxLength: 120 }), (steps) => {
				fresh();
				let marks = 0;
				const create = (declared: boolean) => new Body(++marks % 251, declared ? 4 * SLAB_BYTES : UNDECLARED);
				const all: Body[] = Array.from({ length: 6 }, (_, i) => create(i % 2 === 0));
				const every = [...all];
				for (const { body: index, action, size, declared } of steps) {
					const body = all[index]!;
					act(body, action, size);
					if (body.isReleased) {
						// Its late writes go on while the next body begins.
						all[index] = create(declared);
						every.push(all[index]!);
					}
					for (const each of every) each.check();
				}
				for (const { collector } of every) collector.release();
				equal(budgetInUse(memory), 0);
				mostFree = Math.max(mostFree, SLABS.freeBytes);
			}),
			{ numRuns: 60 },
		);
		ok(mostFree > 0, 'no slab came back');
	});

	it('give their slabs back once, and those under a write only after its end', () => {
		const whole = (mark: number) => {
			const collector = new ByteCollector(bytes, 1n);
			equal(collector.append(Buffer.alloc(2 * SLAB_BYTES, mark), 2 * SLAB_BYTES), undefined);
			return collector;
		};
		const free = (act: () => void) => {
			const before = SLABS.freeBytes;
			act();
			return (SLABS.freeBytes - before) / SLAB_BYTES;
		};
		while (SLABS.freeBytes > 0) SLABS.take();

		const lent = whole(1);
		lent.lend();
		const returned = whole(2);
		returned.lend();
		returned.returned();
		const taken = whole(3);
		taken.shift();
		const freed = whole(4);
		freed.shift();
		const open = new ByteCollector(bytes, 1n);
		open.room(4 * SLAB_BYTES);
		const refilled = whole(5);
		deepEqual(
			[
				free(() => lent.release()),
				free(() => returned.release()),
				free(() => taken.release()),
				free(() => {
					freed.free();
					freed.free();
					freed.release();
					freed.free();
				}),
				free(() => open.release()),
				free(() => {
					refilled.release();
					refilled.release();
				}),
			],
			[0, 2, 1, 2, 0, 2],
		);
		equal(budgetInUse(memory), 0);
	});

	it('come back whole, however they were cut and wherever they were read to', () => {
		const cuts = fc.array(fc.oneof(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 100_000 })), {
			maxLength: 30,
		});
		fc.assert(
			fc.property(cuts, fc.boolean(), fc.boolean(), (sizes, declared, inPlace) => {
				fresh();
				const expected = Buffer.from(sizes.flatMap((size, i) => new Array(size).fill(i)));
				const collector = new ByteCollector(bytes, 1n);
				let at = 0;
				for (const size of sizes) {
					const chunk = expected.subarray(at, at + size);
					at += size;
					let copied = 0;
					while (inPlace && declared && copied < chunk.length) {
						const room = collector.room(expected.length)!;
						const length = chunk.copy(room, 0, copied);
						collector.took(length);
						copied += length;
					}
					if (copied === 0) equal(collector.append(chunk, declared ? expected.length : UNDECLARED), undefined);
				}
				equal(collector.length, expected.length);
				ok(Buffer.concat(collector.lend()).equals(expected));
				collector.returned();
				const pieces: Buffer[] = [];
				for (let piece = collector.shift(); piece !== undefined; piece = collector.shift()) {
					ok(piece.length === SLAB_BYTES || collector.left === 0);
					pieces.push(Buffer.from(piece));
					collector.free();
				}
				ok(Buffer.concat(pieces).equals(expected));
				collector.release();
				equal(budgetInUse(memory), 0);
			}),
			{ numRuns: 100 },
		);
	});
});

function act(body: Body, action: string, size: number): void {
	const { collector, lent, taken } = body;
	const { isWhole } = body;
	switch (action) {
		case 'append':
			if (!isWhole && body.room === undefined) collector.append(Buffer.alloc(size, body.mark), body.expected);
			return;
		case 'read':
			if (isWhole || body.expected === UNDECLARED || collector.length >= body.expected) return;
			if (body.room === undefined) {
				body.room = collector.room(body.expected);
				return;
			}
			// Only now the bytes come.
			body.room.fill(body.mark, 0, Math.min(size, body.room.length));
			collector.took(Math.min(size, body.room.length));
			body.room = undefined;
			return;
		case 'lend':
			if ((!isWhole || body.isLent) && body.room === undefined) {
				body.isWhole = true;
				body.isLent = true;
				lent.push({ pieces: collector.lend(), length: collector.length });
			}
			return;
		case 'returned':
			if (lent.shift() !== undefined) collector.returned();
			return;
		case 'shift': {
			if (body.isLent || body.room !== undefined) return;
			body.isWhole = true;
			const piece = collector.shift();
			if (piece !== undefined) taken.push(piece);
			return;
		}
		case 'free':
			if (taken.shift() !== undefined) collector.free();
			return;
		case 'release':
			collector.release();
			body.isReleased = true;
			// A read that was under way still ends, on memory that is no longer used.
			body.room?.fill(0xff);
	}
}
