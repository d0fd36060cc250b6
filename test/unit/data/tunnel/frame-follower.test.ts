import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { FrameFollower } from '../../../../packages/proxy/src/data/tunnel/frame-follower.ts';
import { frame } from './fixtures/frames.ts';
import { problemByWs, Sender } from './fixtures/ws-parts.ts';

/** What `ws` makes of a frame's head that it does not read, in a part of its words. */
const MALFORMED: Readonly<Record<string, Buffer>> = {
	'a reserved bit': frame({ first: 0xc1, payload: 'a' }),
	'an opcode that there is not': frame({ first: 0x83, payload: 'a' }),
	'a control opcode that there is not': frame({ first: 0x8b, payload: '' }),
	'a control frame in fragments': frame({ first: 0x09, payload: '' }),
	'a long control frame': frame({ first: 0x89, payload: 'a'.repeat(126) }),
	'a continuation of nothing': frame({ first: 0x80, payload: 'a' }),
	'a message within a message': Buffer.concat([
		frame({ first: 0x01, payload: 'a' }),
		frame({ first: 0x81, payload: 'a' }),
	]),
	'a frame without a mask': frame({ first: 0x81, payload: 'a', masked: false }),
	'a length of 2^53': Buffer.from([0x82, 0xff, 0, 0x20, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]),
	'a length of 2^63': Buffer.from([0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]),
};

describe('FrameFollower', () => {
	for (const [what, bytes] of Object.entries(MALFORMED)) {
		it(`does not know where frames begin after ${what}, as ws gives up there`, () => {
			const follower = new FrameFollower(true, false);
			assert.equal(follower.follow(bytes), bytes.length);
			assert.equal(follower.isLost, true);
			assert.equal(follower.isBetweenFrames, false);
			assert.ok(problemByWs(bytes) instanceof Error);
		});
	}

	it('takes reserved bits for a meaning that the two ends have agreed on', () => {
		const follower = new FrameFollower(true, true);
		follower.follow(frame({ first: 0xc1, payload: 'a' }));
		assert.equal(follower.isBetweenFrames, true);
	});

	it('takes a server to send no masks', () => {
		const follower = new FrameFollower(false, false);
		follower.follow(frame({ first: 0x81, payload: 'a', masked: false }));
		assert.equal(follower.isBetweenFrames, true);
		follower.follow(frame({ first: 0x81, payload: 'a' }));
		assert.equal(follower.isLost, true);
	});

	it('is at no boundary within a head, within a payload, and between a head and its payload', () => {
		for (const length of [1, 125, 126, 65_535, 65_536]) {
			const bytes = frame({ first: 0x82, payload: 'a'.repeat(length) });
			const follower = new FrameFollower(true, false);
			for (let at = 0; at < 20 && at < bytes.length - 1; at++) {
				follower.follow(bytes.subarray(at, at + 1));
				assert.equal(follower.isBetweenFrames, false, `${length} bytes, behind byte ${at}`);
			}
			follower.follow(bytes.subarray(Math.min(20, bytes.length - 1)));
			assert.equal(follower.isBetweenFrames, true, `${length} bytes`);
		}
	});

	it('knows that no frame follows a Close', () => {
		const follower = new FrameFollower(true, false);
		follower.follow(frame({ first: 0x88, payload: '' }));
		assert.equal(follower.hasClosed, true);
		assert.equal(follower.isLost, false);
		follower.follow(frame({ first: 0x89, payload: '' }));
		assert.equal(follower.isLost, true);
	});

	it('stops in front of the first message that is too many, whatever fragments and pongs lie before', () => {
		const first = Buffer.concat([frame({ first: 0x01, payload: 'a' }), frame({ first: 0x80, payload: 'b' })]);
		const second = frame({ first: 0x8a, payload: '' });
		const third = frame({ first: 0x82, payload: 'c' });
		const bytes = Buffer.concat([first, second, third]);
		const follower = new FrameFollower(true, false);
		assert.equal(follower.follow(bytes, 0, 1), first.length);
		assert.equal(follower.follow(bytes, first.length, 0), first.length);
		assert.equal(follower.follow(bytes, first.length, 1), first.length + second.length);
		assert.equal(follower.follow(bytes, first.length + second.length), bytes.length);
		assert.equal(follower.messages, 3);
	});

	for (const [what, malformed] of Object.entries(MALFORMED)) {
		it(`lets no more messages pass after ${what} than there could be`, () => {
			const follower = new FrameFollower(true, false);
			follower.follow(malformed);
			const bytes = Buffer.concat(Array(100).fill(frame({ first: 0x82, payload: '' })));
			// The second byte of the last one that was counted may be to come.
			assert.ok(follower.follow(bytes, 0, 0) < 2);
			assert.ok(follower.follow(bytes, 0, 3) <= 2 * 3 + 1);
		});
	}

	it('lets through as many of the shortest frames as the pace allows where it is lost, wherever reads are cut', () => {
		const lengths = fc.array(fc.tuple(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 5 })));
		fc.assert(
			fc.property(lengths, (reads) => {
				const follower = new FrameFollower(true, false);
				follower.follow(Buffer.of(0xf2));
				let allowed = 0;
				let passed = 0;
				for (const [length, messages] of reads) {
					allowed += messages;
					const before = follower.messages;
					const end = follower.follow(Buffer.alloc(length), 0, messages);
					passed += end;
					assert.ok(follower.messages - before <= messages);
					assert.ok(end === length || follower.messages - before === messages, 'it stops only where the pace ends');
				}
				// The last byte of a head that was lost has not been counted.
				assert.ok(passed <= 2 * allowed, `${passed} bytes for ${allowed} messages`);
				assert.equal(follower.messages, Math.ceil(passed / 2));
			}),
		);
	});

	it('goes to the next boundary and no further', () => {
		const first = frame({ first: 0x82, payload: 'abc' });
		const bytes = Buffer.concat([first, first]);
		const follower = new FrameFollower(true, false);
		follower.follow(bytes.subarray(0, 3));
		assert.equal(follower.follow(bytes, 3, Number.POSITIVE_INFINITY, true), first.length);
	});

	it('is lost exactly where ws gives up, whatever the heads say', () => {
		// Of texts and Closes ws judges the payload as well.
		const opcode = fc.integer({ min: 0, max: 15 }).filter((code) => code !== 1 && code !== 8);
		const head = fc.record({
			first: fc.tuple(opcode, fc.constantFrom(0x80, 0x80, 0), fc.constantFrom(0, 0, 0, 0x10, 0x40)),
			size: fc.constantFrom(0, 1, 125, 126, 300),
			masked: fc.constantFrom(true, true, true, false),
		});
		fc.assert(
			fc.property(fc.array(head, { minLength: 1, maxLength: 6 }), (heads) => {
				const bytes = Buffer.concat(
					heads.map(({ first: [code, fin, reserved], size, masked }) =>
						frame({ first: code | fin | reserved, payload: Buffer.alloc(size), masked }),
					),
				);
				const follower = new FrameFollower(true, false);
				follower.follow(bytes);
				assert.equal(follower.isLost, problemByWs(bytes) !== undefined);
			}),
			{ numRuns: 1_000 },
		);
	});

	it('reads the same from whole heads as from single bytes, whatever they say', () => {
		// Small frames and few opcodes, so that some heads are valid.
		const byte = fc.oneof(
			fc.constantFrom(0x80, 0x81, 0x82, 0x83, 0x00, 0x89, 0x02, 0x88),
			fc.integer({ min: 0, max: 255 }),
		);
		fc.assert(
			fc.property(fc.array(byte, { maxLength: 60 }), fc.boolean(), (values, masked) => {
				const bytes = Buffer.from(values);
				const [whole, single] = [new FrameFollower(masked, false), new FrameFollower(masked, false)];
				whole.follow(bytes);
				for (const value of values) single.follow(Buffer.of(value));
				const seen = [whole, single].map((it) => [it.frames, it.messages, it.isLost, it.hasClosed, it.isBetweenFrames]);
				assert.deepEqual(seen[0], seen[1]);
			}),
			{ numRuns: 2_000 },
		);
	});

	it('knows the boundaries of what ws sends, wherever reads are cut, and takes a Close of ours there', () => {
		const messages = fc.array(
			fc.record({
				size: fc.oneof(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 65_500, max: 65_600 })),
				fin: fc.boolean(),
			}),
			{ minLength: 1, maxLength: 6 },
		);
		fc.assert(
			fc.property(messages, fc.boolean(), fc.array(fc.nat(), { maxLength: 8 }), (parts, masked, cuts) => {
				const frames = sentByWs(parts, masked);
				const ends = new Set<number>();
				let end = 0;
				for (const { length } of frames) {
					end += length;
					ends.add(end);
				}
				const bytes = Buffer.concat(frames);
				const follower = new FrameFollower(masked, false);
				const at = [...cuts.map((cut) => cut % bytes.length), bytes.length].sort((a, b) => a - b);
				let from = 0;
				for (const to of at) {
					assert.equal(follower.follow(bytes.subarray(from, to)), to - from);
					assert.equal(follower.isBetweenFrames, to === 0 || ends.has(to), `at ${to}`);
					from = to;
				}
			}),
		);
	});
});

/** Each message in fragments where `fin` says so. */
function sentByWs(parts: readonly { size: number; fin: boolean }[], masked: boolean): Buffer[] {
	let isFirst = true;
	return parts.map(({ size, fin }, i) => {
		const isLast = fin || i === parts.length - 1;
		const data = Buffer.alloc(size, 0x61);
		const options = { fin: isLast, opcode: isFirst ? 2 : 0, mask: masked, rsv1: false, readOnly: true };
		isFirst = isLast;
		return Buffer.concat(Sender.frame(data, options));
	});
}
