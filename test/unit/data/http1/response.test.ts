import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { Writable } from 'node:stream';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { ResponseFields } from '../../../../packages/proxy/src/data/client/response-fields.ts';
import { Http1Response } from '../../../../packages/proxy/src/data/http1/response.ts';
import { FlushQueue, TurnEnd } from '../../../../packages/proxy/src/data/loop/turn-end.ts';
import { ResponseParser } from '../../../../packages/proxy/src/data/upstream/response-parser.ts';
import { SLAB_BYTES, SLABS } from '../../../../packages/proxy/src/shared/slabs.ts';

const NEW_YEAR_2027 = 1_798_761_600;

/** The client's socket, as far as a response knows it. */
class Wire extends Writable {
	readonly writes: string[] = [];
	/** Set: what is written stays under way until it is called. */
	hold = false;
	#release: (() => void) | undefined;

	constructor() {
		super({ highWaterMark: 65_536, decodeStrings: false });
	}

	override _write(chunk: Buffer | string, _encoding: BufferEncoding, done: (error?: Error) => void): void {
		this.writes.push(typeof chunk === 'string' ? chunk : chunk.toString('latin1'));
		if (this.hold) this.#release = done;
		else done();
	}

	override _writev(chunks: { chunk: Buffer | string }[], done: (error?: Error) => void): void {
		this.writes.push(
			chunks.map(({ chunk }) => (typeof chunk === 'string' ? chunk : chunk.toString('latin1'))).join(''),
		);
		done();
	}

	release(): void {
		this.hold = false;
		this.#release?.();
	}

	get text(): string {
		return this.writes.join('');
	}
}

function answerOn(wire: Wire, { isHttp11 = true, mayStay = true, onOut = () => {} } = {}): Http1Response {
	const answer = new Http1Response(wire as unknown as Socket, new FlushQueue(new TurnEnd()), onOut);
	answer.expect(isHttp11, mayStay);
	return answer;
}

/** What a client reads: status, fields and body. */
function readBack(text: string, method = 'GET') {
	const read = { status: 0, fields: [] as string[], body: '', whole: false };
	const parser = new ResponseParser();
	parser.expect(method, {
		onHead: (status, fields) => Object.assign(read, { status, fields }),
		onBody: (chunk) => {
			read.body += chunk.toString('latin1');
		},
	});
	const used = parser.push(Buffer.from(text, 'latin1'));
	assert.equal(used, text.length, 'bytes behind the response');
	read.whole = parser.isDone;
	return read;
}

describe('an HTTP/1.1 response', () => {
	it('a response with its body in one piece is one write', async () => {
		for (const body of ['hello', Buffer.from('hello')]) {
			const wire = new Wire();
			const answer = answerOn(wire);
			answer.begin(200, new ResponseFields(['x-a', '1', 'content-length', '5']), true, false, NEW_YEAR_2027);
			answer.end(body);
			assert.deepEqual(wire.writes, []);
			await turn();
			assert.deepEqual(wire.writes, [
				'HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: 5\r\ndate: Fri, 01 Jan 2027 00:00:00 GMT\r\nconnection: keep-alive\r\n\r\nhello',
			]);
			await turn();
			assert.equal(wire.writes.length, 1);
		}
	});

	it('keeps the date that the upstream gave, and has the second of each other one', () => {
		const heads = [['date', 'Thu, 31 Dec 2026 23:59:59 GMT'], [], []].map((fields, second) => {
			const wire = new Wire();
			const answer = answerOn(wire);
			answer.begin(204, new ResponseFields(fields), false, false, NEW_YEAR_2027 + second + 0.9);
			answer.end();
			answer.flush();
			return wire.text.match(/^date: .*$/gm);
		});
		assert.deepEqual(heads, [
			['date: Thu, 31 Dec 2026 23:59:59 GMT'],
			['date: Fri, 01 Jan 2027 00:00:01 GMT'],
			['date: Fri, 01 Jan 2027 00:00:02 GMT'],
		]);
	});

	it('says that the connection closes if it does', () => {
		const cases = [
			{ isHttp11: true, mayStay: true, closes: false, hasBody: true, sized: true, expected: false },
			{ isHttp11: true, mayStay: true, closes: true, hasBody: true, sized: true, expected: true },
			{ isHttp11: true, mayStay: false, closes: false, hasBody: true, sized: true, expected: true },
			{ isHttp11: true, mayStay: true, closes: false, hasBody: true, sized: false, expected: false },
			{ isHttp11: false, mayStay: true, closes: false, hasBody: true, sized: true, expected: false },
			{ isHttp11: false, mayStay: true, closes: false, hasBody: false, sized: false, expected: false },
			// An HTTP/1.0 client knows no chunks: the end of the connection is the end of the body.
			{ isHttp11: false, mayStay: true, closes: false, hasBody: true, sized: false, expected: true },
		];
		for (const { isHttp11, mayStay, closes, hasBody, sized, expected } of cases) {
			const wire = new Wire();
			const answer = answerOn(wire, { isHttp11, mayStay });
			answer.begin(200, new ResponseFields(sized ? ['content-length', '1'] : []), hasBody, closes, NEW_YEAR_2027);
			answer.write(Buffer.from(hasBody ? 'x' : ''));
			answer.end();
			answer.flush();
			assert.equal(answer.isLast, expected);
			assert.equal(/^connection: close\r$/m.test(wire.text), expected);
			assert.equal(/^connection: keep-alive\r$/m.test(wire.text), !expected);
			assert.equal(/^transfer-encoding: chunked\r$/m.test(wire.text), hasBody && !sized && isHttp11);
			const body = wire.text.split('\r\n\r\n').slice(1).join('\r\n\r\n');
			assert.equal(body, !hasBody ? '' : sized || !isHttp11 ? 'x' : '1\r\nx\r\n0\r\n\r\n');
		}
	});

	it('a response without a body has no bytes after its head, and no chunks', () => {
		const wire = new Wire();
		const answer = answerOn(wire);
		answer.begin(304, new ResponseFields(['etag', '"1"']), false, false, NEW_YEAR_2027);
		answer.end();
		answer.flush();
		const { status, body, whole } = readBack(wire.text);
		assert.deepEqual([status, body, whole], [304, '', true]);
		assert.doesNotMatch(wire.text, /transfer-encoding|content-length/);
	});

	it('has a reason phrase for an unknown status, too', () => {
		const wire = new Wire();
		const answer = answerOn(wire);
		answer.begin(599, new ResponseFields([]), false, false, NEW_YEAR_2027);
		answer.end();
		answer.flush();
		assert.ok(wire.text.startsWith('HTTP/1.1 599 Unknown\r\n'));
	});

	it('a response whose body follows later begins at the end of the turn', async () => {
		const wire = new Wire();
		const answer = answerOn(wire);
		answer.begin(200, new ResponseFields([]), true, false, NEW_YEAR_2027);
		assert.deepEqual(wire.writes, []);
		await turn();
		assert.equal(wire.writes.length, 1);
		answer.write(Buffer.from('a'));
		answer.write(Buffer.from('b'));
		await turn();
		assert.equal(wire.writes.length, 2);
		answer.end();
		answer.flush();
		const { body, whole } = readBack(wire.text);
		assert.deepEqual([body, whole], ['ab', true]);
	});

	it('carries any pieces unchanged, whatever comes between them, and owes nothing to the memory they were in', async () => {
		const piece = fc.oneof(
			fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
			fc.integer({ min: 16_000, max: 70_000 }).map((n) => Buffer.alloc(n, `${n} `)),
			fc.constant('turn' as const),
		);
		await fc.assert(
			fc.asyncProperty(fc.array(piece, { maxLength: 20 }), fc.boolean(), async (pieces, sized) => {
				const wire = new Wire();
				const answer = answerOn(wire);
				const bytes = Buffer.concat(pieces.filter((one) => one !== 'turn'));
				answer.begin(
					200,
					new ResponseFields(sized ? ['content-length', `${bytes.length}`] : []),
					true,
					false,
					NEW_YEAR_2027,
				);
				for (const one of pieces) {
					if (one === 'turn') await turn();
					else {
						const view = Buffer.from(one);
						answer.write(view);
						view.fill(0);
					}
				}
				answer.end();
				await turn();
				const { body, whole } = readBack(wire.text);
				assert.ok(whole);
				assert.ok(body === bytes.toString('latin1'));
			}),
			{ numRuns: 200 },
		);
	});

	it('kept in pieces goes out in order after its head, and says when the client takes no more', () => {
		const wire = new Wire();
		const answer = answerOn(wire);
		answer.begin(200, new ResponseFields(['content-length', '131073']), true, false, NEW_YEAR_2027);
		wire.hold = true;
		assert.equal(answer.writeKept(Buffer.alloc(65_536, 'a')), false);
		wire.release();
		answer.writeKept(Buffer.alloc(65_536, 'b'));
		answer.end(Buffer.from('c'));
		answer.flush();
		const { body, whole } = readBack(wire.text);
		assert.ok(whole);
		assert.equal(body, `${'a'.repeat(65_536)}${'b'.repeat(65_536)}c`);
	});

	it('copies into memory that is used again when the write has succeeded, not before, and never if it fails', async () => {
		for (const [fails, expected] of [
			[false, SLAB_BYTES],
			[true, 0],
		] as const) {
			const wire = new Wire();
			wire.on('error', () => {});
			wire.hold = true;
			const answer = answerOn(wire);
			answer.begin(200, new ResponseFields(['content-length', '60000']), true, false, NEW_YEAR_2027);
			while (SLABS.freeBytes > 0) SLABS.take();
			answer.write(Buffer.alloc(60_000, 'a'));
			await turn();
			assert.equal(SLABS.freeBytes, 0);
			if (fails) wire.destroy();
			else wire.release();
			await turn();
			assert.equal(SLABS.freeBytes, expected);
		}
	});

	it('is out when the socket has taken the last of it, and not before', async () => {
		const wire = new Wire();
		wire.hold = true;
		let out = 0;
		const answer = answerOn(wire, { onOut: () => out++ });
		answer.begin(200, new ResponseFields(['content-length', '1']), true, false, NEW_YEAR_2027);
		answer.end('x');
		await turn();
		assert.equal(out, 0);
		wire.release();
		await turn();
		assert.equal(out, 1);
	});

	it('is never out on a connection that fails or is closing', async () => {
		for (const how of ['destroyed', 'ended', 'failing'] as const) {
			const wire = new Wire();
			wire.on('error', () => {});
			const answer = answerOn(wire, { onOut: () => assert.fail(how) });
			answer.begin(200, new ResponseFields(['content-length', '1']), true, false, NEW_YEAR_2027);
			answer.end('x');
			if (how === 'destroyed') wire.destroy();
			else if (how === 'ended') wire.end();
			else wire.hold = true;
			answer.flush();
			if (how === 'failing') wire.destroy(new Error('ECONNRESET'));
			await turn();
			assert.equal(wire.writes.length, how === 'failing' ? 1 : 0);
		}
	});

	it('asks for no more of a streamed body on a connection that is closing', () => {
		const wire = new Wire();
		wire.hold = true;
		const answer = answerOn(wire);
		answer.begin(200, new ResponseFields([]), true, false, NEW_YEAR_2027);
		assert.equal(answer.write(Buffer.alloc(20_000)), true);
		// The client's FIN: Node ends our side after the bytes under way, and the client takes none of them.
		wire.end();
		assert.equal(answer.write(Buffer.from('small')), false);
		assert.equal(answer.write(Buffer.alloc(20_000)), false);
	});

	it('sends 100 Continue to a client that waits for it', () => {
		const wire = new Wire();
		answerOn(wire).writeContinue();
		assert.equal(wire.text, 'HTTP/1.1 100 Continue\r\n\r\n');
	});
});
