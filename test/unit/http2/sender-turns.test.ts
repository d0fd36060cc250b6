import { deepEqual, equal, ok } from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type Sender, SenderTurns } from '../../../packages/proxy/src/http2/sender-turns.ts';

/** A stream with a number of frames to send. */
class FakeStream implements Sender {
	readonly tenant: string | undefined;
	readonly #sent: FakeStream[];
	left: number;

	constructor(tenant: string | undefined, frames: number, sent: FakeStream[]) {
		this.tenant = tenant;
		this.left = frames;
		this.#sent = sent;
	}

	sendFrame(): boolean {
		this.#sent.push(this);
		return --this.left > 0;
	}
}

describe('turns on a connection that several share', () => {
	it('give the only stream of a tenant every second frame, next to two hundred streams of another tenant', () => {
		const turns = new SenderTurns();
		const sent: FakeStream[] = [];
		for (let i = 0; i < 200; i++) turns.wait(new FakeStream('many', 10, sent));
		turns.wait(new FakeStream('one', 50, sent));
		for (let i = 0; i < 100; i++) turns.next();
		equal(sent.filter(({ tenant }) => tenant === 'one').length, 50);
		while (turns.next());
		equal(sent.length, 200 * 10 + 50);
	});

	it('rotate among the streams of one tenant, and of no tenant', () => {
		for (const tenant of ['one', undefined]) {
			const turns = new SenderTurns();
			const sent: FakeStream[] = [];
			const streams = [2, 1, 3].map((frames) => new FakeStream(tenant, frames, sent));
			for (const stream of streams) turns.wait(stream);
			while (turns.next());
			deepEqual(
				sent.map((stream) => streams.indexOf(stream)),
				[0, 1, 2, 0, 2, 2],
			);
			equal(turns.next(), false);
		}
	});

	it('are equal for all waiting tenants, while others come and go, and none is lost', () => {
		const tenant = fc.integer({ min: 0, max: 4 });
		const step = fc.oneof(
			fc.record({ kind: fc.constant('wait' as const), tenant, frames: fc.integer({ min: 1, max: 5 }) }),
			fc.record({ kind: fc.constant('forget' as const), which: fc.nat() }),
			fc.record({ kind: fc.constant('next' as const), times: fc.integer({ min: 1, max: 20 }) }),
		);
		fc.assert(
			fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
				const turns = new SenderTurns();
				const sent: FakeStream[] = [];
				const open: FakeStream[] = [];
				/** Frames that others have sent since each tenant has waited for its next one. */
				const missed = new Map<string, Map<string, number>>();
				const waits = (name: string) => open.some((stream) => stream.tenant === name && stream.left > 0);
				for (const one of steps) {
					if (one.kind === 'wait') {
						const name = String(one.tenant);
						if (!waits(name)) missed.set(name, new Map());
						const stream = new FakeStream(name, one.frames, sent);
						open.push(stream);
						turns.wait(stream);
					} else if (one.kind === 'forget') {
						const waiting = open.filter(({ left }) => left > 0);
						const stream = waiting[one.which % Math.max(1, waiting.length)];
						if (stream === undefined) continue;
						turns.forget(stream);
						stream.left = 0;
					} else {
						for (let i = 0; i < one.times; i++) {
							const before = sent.length;
							const any = open.some(({ left }) => left > 0);
							// The first may have left its turn: that one sends nothing.
							while (turns.next() && sent.length === before);
							equal(sent.length > before, any);
							const by = sent[before]?.tenant;
							if (by === undefined) break;
							missed.set(by, new Map());
							for (const [name, counts] of missed) {
								if (name === by || !waits(name)) continue;
								counts.set(by, (counts.get(by) ?? 0) + 1);
								ok(counts.get(by)! <= 1, `${by} had ${counts.get(by)} turns while ${name} waited`);
							}
						}
					}
				}
				while (turns.next());
				ok(open.every(({ left }) => left === 0));
			}),
		);
	});

	it('forget those that leave while it is their turn', () => {
		const turns = new SenderTurns();
		const sent: FakeStream[] = [];
		const other = new FakeStream('a', 1, sent);
		const leaver: Sender = {
			tenant: 'a',
			sendFrame: () => {
				turns.forget(other);
				turns.wait(new FakeStream('a', 1, sent));
				return false;
			},
		};
		turns.wait(leaver);
		turns.wait(other);
		turns.wait(new FakeStream('b', 1, sent));
		while (turns.next());
		deepEqual(
			sent.map(({ tenant }) => tenant),
			['b', 'a'],
		);
		equal(sent.includes(other), false);
	});
});
