import { deepEqual, equal, ok } from 'node:assert/strict';
import type { Socket } from 'node:net';
import { Writable } from 'node:stream';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { FlushQueue, TurnEnd } from '../../../../packages/proxy/src/data/loop/turn-end.ts';
import { Upload } from '../../../../packages/proxy/src/data/upstream/upload.ts';
import { SLAB_BYTES } from '../../../../packages/proxy/src/shared/slabs.ts';

/** A socket as far as an upload needs one; remembers the writes that reach the other side. */
class Sink extends Writable {
	readonly writes: string[] = [];
	stalled = false;
	/** Writes end in the next turn, as over TLS. */
	isLate = false;
	#stalledWrite: (() => void) | undefined;

	override _write(bytes: Buffer, _: string, done: () => void): void {
		this.writes.push(bytes.toString('latin1'));
		if (this.stalled) this.#stalledWrite = done;
		else if (this.isLate) setImmediate(done);
		else done();
	}

	/** The other side reads on. */
	goOn(): void {
		this.stalled = false;
		this.#stalledWrite?.();
	}

	override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
		this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), '', done);
	}

	get text(): string {
		return this.writes.join('');
	}
}

const uploadTo = (sink: Sink, chunked: boolean, held: number[] = []) =>
	new Upload(sink as unknown as Socket, chunked, new FlushQueue(new TurnEnd()), {
		onUploadHeld: (bytes) => void held.push(bytes),
	});
const endOfMoment = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));

describe('an upload', () => {
	it('sends small pieces of one moment as one, at its end', async () => {
		const sink = new Sink();
		const upload = uploadTo(sink, true);
		for (const piece of ['a', 'bc', '', 'd']) equal(upload.write(Buffer.from(piece)), true);
		equal(sink.text, '');
		await endOfMoment();
		deepEqual(sink.writes, ['4\r\nabcd\r\n']);
	});

	it('sends pieces of different moments apart', async () => {
		const sink = new Sink();
		const upload = uploadTo(sink, false);
		upload.write(Buffer.from('a'));
		await endOfMoment();
		upload.write(Buffer.from('b'));
		await endOfMoment();
		deepEqual(sink.writes, ['a', 'b']);
	});

	it('gathers small pieces for as long as a write is under way, and sends them when it is done', async () => {
		const sink = new Sink();
		sink.stalled = true;
		const upload = uploadTo(sink, false);
		for (const piece of ['a', 'b', 'c', 'd']) {
			upload.write(Buffer.from(piece));
			await endOfMoment();
		}
		deepEqual(sink.writes, ['a']);
		sink.goOn();
		await endOfMoment();
		deepEqual(sink.writes, ['a', 'bcd']);
	});

	it('reports the memory of bytes that the upstream does not take, however few, until it takes them', async () => {
		const [sink, held]: [Sink, number[]] = [new Sink(), []];
		const upload = uploadTo(sink, false, held);
		upload.write(Buffer.from('a'));
		await endOfMoment();
		deepEqual(held, []);
		sink.stalled = true;
		for (const piece of ['b', 'c', 'd']) {
			upload.write(Buffer.from(piece));
			await endOfMoment();
		}
		deepEqual(held, [SLAB_BYTES, 2 * SLAB_BYTES]);
		sink.goOn();
		await endOfMoment();
		equal(held.at(-1), 0);
	});

	it('reports no memory of writes that only end a turn later, as over TLS', async () => {
		const [sink, held]: [Sink, number[]] = [new Sink(), []];
		sink.isLate = true;
		const upload = uploadTo(sink, false, held);
		for (const piece of ['a', 'b', 'c']) {
			upload.write(Buffer.from(piece));
			await endOfMoment();
		}
		equal(sink.text, 'abc');
		deepEqual(held, []);
	});

	it('does not wait for what others write on the socket', async () => {
		const sink = new Sink();
		sink.stalled = true;
		sink.write('head');
		const upload = uploadTo(sink, false);
		upload.write(Buffer.from('a'));
		await endOfMoment();
		equal(sink.writableLength, 'heada'.length);
	});

	it('does not keep a small piece after a long head that waits for the connection to be made', async () => {
		const sink = new Sink({ highWaterMark: 16_384 });
		sink.stalled = true;
		sink.write('h'.repeat(40_000));
		const upload = uploadTo(sink, false);
		equal(upload.write(Buffer.from('a')), false);
		await endOfMoment();
		sink.goOn();
		await endOfMoment();
		ok(sink.text.endsWith('ha'));
	});

	it('writes no more once the socket is gone', async () => {
		const sink = new Sink();
		sink.on('error', () => {});
		const upload = uploadTo(sink, false);
		upload.write(Buffer.from('a'));
		sink.destroy();
		await endOfMoment();
		equal(sink.text, '');
	});

	it('sends large pieces of one moment in one write, with the small ones between and after them', async () => {
		const sink = new Sink();
		const upload = uploadTo(sink, false);
		upload.write(Buffer.from('a'));
		upload.write(Buffer.alloc(5000, 'b'));
		upload.write(Buffer.from('c'));
		upload.write(Buffer.alloc(16_384, 'd'));
		upload.write(Buffer.from('e'));
		equal(sink.text, '');
		await endOfMoment();
		deepEqual(sink.writes, [`a${'b'.repeat(5000)}c${'d'.repeat(16_384)}e`]);
	});

	it('keeps pieces of any size back after a write of an earlier moment', async () => {
		const sink = new Sink();
		sink.stalled = true;
		const upload = uploadTo(sink, false);
		upload.write(Buffer.alloc(5000, 'a'));
		await endOfMoment();
		for (const piece of ['b', 'c']) {
			upload.write(Buffer.from(piece));
			await endOfMoment();
		}
		upload.write(Buffer.alloc(5000, 'd'));
		await endOfMoment();
		equal(sink.writableLength, 5000);
		sink.goOn();
		await endOfMoment();
		deepEqual(sink.writes, ['a'.repeat(5000), `bc${'d'.repeat(5000)}`]);
	});

	it('sends what waits before its end, also without bytes', () => {
		for (const [chunked, expected] of [
			[true, '1\r\na\r\n0\r\n\r\n'],
			[false, 'a'],
		] as const) {
			const sink = new Sink();
			const upload = uploadTo(sink, chunked);
			upload.write(Buffer.from('a'));
			upload.finish();
			equal(sink.text, expected);
		}
		const sink = new Sink();
		uploadTo(sink, true).finish();
		equal(sink.text, '0\r\n\r\n');
	});

	it('says that no more may follow while the other side does not read', async () => {
		const sink = new Sink({ highWaterMark: 10_000 });
		sink.stalled = true;
		const upload = uploadTo(sink, true);
		let written = 0;
		for (; upload.write(Buffer.from('x')); written++) ok(written < 1_000_000, 'it never says stop');
		// What one moment brings is taken in steps; nothing of it is lost.
		equal(upload.write(Buffer.from('y')), false);
	});

	it('keeps every byte and every boundary, whatever the pieces are, and as slowly as they are taken', async () => {
		const sizes = fc.array(fc.oneof(fc.nat(20), fc.nat(5000), fc.nat(40_000), fc.nat(200_000)), { maxLength: 40 });
		const property = fc.asyncProperty(sizes, fc.boolean(), fc.boolean(), async (sizes, chunked, stalls) => {
			const sink = new Sink();
			sink.stalled = stalls;
			const upload = uploadTo(sink, chunked);
			let expected = '';
			for (const [i, size] of sizes.entries()) {
				const piece = String.fromCharCode(97 + (i % 26)).repeat(size);
				expected += piece;
				const read = Buffer.from(piece);
				upload.write(read);
				// It is the giver's memory.
				read.fill(0);
				if (i % 7 === 6) await endOfMoment();
			}
			upload.finish();
			sink.goOn();
			await endOfMoment();
			equal(chunked ? unchunked(sink.text) : sink.text, expected);
		});
		await fc.assert(property, { numRuns: 200 });
	});
});

/** Strict: bytes after the last chunk are returned as body, so that tests notice them. */
function unchunked(text: string): string {
	let body = '';
	for (let at = 0; ; ) {
		const size = /^([0-9a-f]+)\r\n/.exec(text.slice(at, at + 10));
		ok(size !== null, 'a chunk size');
		const start = at + size[0].length;
		const end = start + Number.parseInt(size[1]!, 16);
		equal(text.slice(end, end + 2), '\r\n');
		if (end === start) return body + text.slice(end + 2);
		body += text.slice(start, end);
		at = end + 2;
	}
}
