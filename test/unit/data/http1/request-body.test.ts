import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RequestBody } from '../../../../src/data/http1/request-body.ts';
import { UNDECLARED } from '../../../../src/gates/body-limit.ts';

const MAX_TRAILERS = 200;

/** Gives a body its bytes in pieces, as a connection does: what is not taken comes again. */
function read(length: number, pieces: readonly string[]) {
	const body = new RequestBody(length, MAX_TRAILERS);
	let unread: Buffer = Buffer.alloc(0);
	let content = '';
	let most = 0;
	for (const piece of pieces) {
		unread = Buffer.concat([unread, Buffer.from(piece, 'latin1')]);
		const taken = body.read(unread, 0);
		content += body.piece.toString('latin1');
		unread = unread.subarray(taken);
		most = Math.max(most, unread.length);
		if (body.problem !== undefined || body.isComplete) break;
	}
	return {
		content,
		complete: body.isComplete,
		malformed: body.problem !== undefined,
		rest: unread.toString('latin1'),
		most,
	};
}

describe('a body of declared length', () => {
	it('ends there, and what follows is left', () => {
		assert.deepEqual(read(5, ['he', '', 'llo, GET']), {
			...{ content: 'hello', complete: true, malformed: false, rest: ', GET', most: 5 },
		});
	});
});

describe('a chunked body', () => {
	const whole = '5\r\nhello\r\n1;a=b;c="d\\"e"\r\n \r\n00005\r\nworld\r\n0\r\nX-A: b\r\n\r\n';

	it('is the same wherever it is cut, and what follows is left', () => {
		const expected = { content: 'hello world', complete: true, malformed: false, rest: 'GET' };
		for (let at = 0; at < whole.length; at++) {
			const { most: _, ...result } = read(UNDECLARED, [whole.slice(0, at), `${whole.slice(at)}GET`]);
			assert.deepEqual(result, expected, `cut at ${at}`);
		}
		const { most, ...result } = read(UNDECLARED, [...whole.slice(0, -1), '\nGET']);
		assert.deepEqual(result, expected);
		// Nothing waits but a line.
		assert.ok(most < 20, String(most));
	});

	it('comes out as one piece for each read, however many chunks that brings', () => {
		const body = new RequestBody(UNDECLARED, MAX_TRAILERS);
		const bytes = Buffer.from('1\r\na\r\n'.repeat(1000));
		assert.equal(body.read(bytes, 0), bytes.length);
		assert.equal(String(body.piece), 'a'.repeat(1000));
	});

	it('may have extensions, but no more of them than a few for each chunk: they are bytes that no limit of the body counts', () => {
		const chunk = `1;${'a'.repeat(1000)}\r\nx\r\n`;
		const few = read(UNDECLARED, Array<string>(16).fill(chunk));
		assert.deepEqual([few.malformed, few.content], [false, 'x'.repeat(16)]);
		assert.equal(read(UNDECLARED, Array<string>(17).fill(chunk)).malformed, true);
		// However they are cut.
		const drips = Array<string>(17)
			.fill(chunk)
			.flatMap((text) => [text.slice(0, 500), text.slice(500, 999), text.slice(999)]);
		assert.equal(read(UNDECLARED, drips.slice(0, 48)).malformed, false);
		assert.equal(read(UNDECLARED, drips).malformed, true);
	});

	it('is refused for what two readers could understand in two ways', () => {
		for (const text of [
			...['\r\n', 'g\r\n', '+5\r\n', '-5\r\n', ' 5\r\n', '5 \r\n', '0x5\r\n', '5,\r\n', '5\n', '5\rx', '5\r\r\n'],
			...['5;\r\n', '5 ;a\r\n', '5; a\r\n', '5;a =b\r\n', '5;a="b\r\n', '5;a\n', '5;a\0b\r\n', '10000000000000\r\n'],
			...[
				`5;${'a'.repeat(1100)}`,
				'1\r\naa',
				'1\r\na\n',
				'1\r\na\rb',
				'0\r\n \r\n',
				'0\r\nA\r\n',
				'0\r\n\n',
				'0\r\n\r\r',
			],
			...['0\r\nContent-Length: 5\r\n\r\n', '0\r\nTRANSFER-ENCODING: x\r\n\r\n', `0\r\nA: ${'b'.repeat(MAX_TRAILERS)}`],
		]) {
			assert.equal(read(UNDECLARED, [text]).malformed, true, JSON.stringify(text));
			assert.equal(read(UNDECLARED, [...text]).malformed, true, `${JSON.stringify(text)}, byte by byte`);
		}
	});

	it('waits for a line that has begun well', () => {
		for (const text of ['5', '5\r', '5;a', '5;a=b\r', '1\r\na', '1\r\na\r', '0\r\n', '0\r\nA: b', '0\r\nA: b\r\n\r']) {
			const { complete, malformed } = read(UNDECLARED, [text]);
			assert.deepEqual([complete, malformed], [false, false], JSON.stringify(text));
		}
	});
});
