import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ChunkDecoder } from '../../../../packages/proxy/src/data/http1/chunk-decoder.ts';
import { readChunks } from '../../../fuzz/response-reading.ts';
import { readInPieces } from './fixtures/read-in-pieces.ts';

const MAX_TRAILERS = 200;

function read(pieces: readonly string[]) {
	return readInPieces(new ChunkDecoder(MAX_TRAILERS), pieces);
}

describe('a chunked body', () => {
	const whole = '5\r\nhello\r\n1;a=b;c="d\\"e"\r\n \r\n00005\r\nworld\r\n0\r\nX-A:  b \r\nx-b:\r\nX-A: c\r\n\r\n';

	it('is the same wherever it is cut, and what follows is left', () => {
		const expected = {
			...{ content: 'hello world', complete: true, problem: undefined, rest: 'GET' },
			trailers: ['x-a', 'b', 'x-b', '', 'x-a', 'c'],
		};
		for (let at = 0; at < whole.length; at++) {
			const { most: _, ...result } = read([whole.slice(0, at), `${whole.slice(at)}GET`]);
			assert.deepEqual(result, expected, `cut at ${at}`);
		}
		const { most, ...result } = read([...whole.slice(0, -1), '\nGET']);
		assert.deepEqual(result, expected);
		// Nothing waits but a line, or the trailers.
		assert.ok(most <= 'X-A:  b \r\nx-b:\r\nX-A: c\r\n\r'.length, String(most));
	});

	it('comes out as one piece for each read, however many chunks that brings', () => {
		const body = new ChunkDecoder(MAX_TRAILERS);
		const bytes = Buffer.from('1\r\na\r\n'.repeat(1000));
		assert.equal(body.read(bytes, 0), bytes.length);
		assert.equal(String(body.piece), 'a'.repeat(1000));
	});

	it('costs nothing if its chunks are large, or few, and its trailers short', () => {
		for (const text of [
			'1\r\na\r\n'.repeat(8),
			`100\r\n${'a'.repeat(256)}\r\n`.repeat(100),
			`0\r\n${'x: y\r\n'.repeat(8)}\r\n`,
		]) {
			const body = new ChunkDecoder(MAX_TRAILERS);
			body.read(Buffer.from(text), 0);
			assert.equal(body.cost, 0, text);
		}
	});

	it('costs a part of a token for each tiny chunk of a read', () => {
		const body = new ChunkDecoder(MAX_TRAILERS);
		body.read(Buffer.from('1\r\na\r\n'.repeat(1_600)), 0);
		assert.equal(body.cost, 100);
		body.read(Buffer.from('1\r\na\r\n'), 0);
		assert.equal(body.cost, 0, 'of the last read only');
	});

	it('costs more for many trailers, and for long ones, once they are complete', () => {
		const ofTrailers = (fields: string) => {
			const body = new ChunkDecoder(20_000);
			const bytes = Buffer.from(`0\r\n${fields}\r\n`);
			const at = body.read(bytes.subarray(0, -1), 0);
			assert.equal(body.cost, 0);
			body.read(bytes.subarray(at), 0);
			return body.cost;
		};
		assert.equal(ofTrailers('x: y\r\n'.repeat(108)), 200);
		assert.equal(ofTrailers(`x: ${'y'.repeat(10 * 64 + 1024 - 7)}\r\n`), 10);
	});

	it('has no trailers if none follow', () => {
		assert.equal(read(['1\r\na\r\n0\r\n\r\n']).trailers, undefined);
		assert.equal(read(['1\r\na\r\n0\r\n', '\r', '\n']).trailers, undefined);
	});

	it('may have extensions, but no more of them than a few for each chunk: they are bytes that no limit of the body counts', () => {
		const chunk = `1;${'a'.repeat(1000)}\r\nx\r\n`;
		const few = read(Array<string>(16).fill(chunk));
		assert.deepEqual([few.problem, few.content], [undefined, 'x'.repeat(16)]);
		assert.equal(read(Array<string>(17).fill(chunk)).problem, 'chunk extensions too long');
		// However they are cut.
		const drips = Array<string>(17)
			.fill(chunk)
			.flatMap((text) => [text.slice(0, 500), text.slice(500, 999), text.slice(999)]);
		assert.equal(read(drips.slice(0, 48)).problem, undefined);
		assert.equal(read(drips).problem, 'chunk extensions too long');
	});

	it('a chunked body may have extensions that are shorter than its content', () => {
		const chunk = `400;${'a'.repeat(1000)}\r\n${'x'.repeat(1024)}\r\n`;
		assert.equal(read(Array<string>(500).fill(chunk)).problem, undefined);
	});

	it('is refused for what two readers could understand in two ways', () => {
		for (const text of [
			...['\r\n', 'g\r\n', '+5\r\n', '-5\r\n', ' 5\r\n', '5 \r\n', '0x5\r\n', '5,\r\n', '5\n', '5\rx', '5\r\r\n'],
			...['5;\r\n', '5 ;a\r\n', '5; a\r\n', '5;a =b\r\n', '5;a="b\r\n', '5;a\n', '5;a\0b\r\n', '10000000000000\r\n'],
			...[`5;${'a'.repeat(1100)}`, '1\r\naa', '1\r\na\n', '1\r\na\rb', '0\r\n \r\n', '0\r\nA\r\n', '0\r\n\n'],
			...['0\r\n\r\r', '0\r\nA: b\r\n c\r\n\r\n', '0\r\nA : b\r\n\r\n', '0\r\nA: \0\r\n\r\n', '0\r\nA: b\r\n\rx'],
			...['0\r\nContent-Length: 5\r\n\r\n', '0\r\nTRANSFER-ENCODING: x\r\n\r\n', `0\r\nA: ${'b'.repeat(MAX_TRAILERS)}`],
		]) {
			assert.notEqual(read([text]).problem, undefined, JSON.stringify(text));
			assert.notEqual(read([...text]).problem, undefined, `${JSON.stringify(text)}, byte by byte`);
		}
	});

	it('waits for a line that has begun well', () => {
		for (const text of ['5', '5\r', '5;a', '5;a=b\r', '1\r\na', '1\r\na\r', '0\r\n', '0\r\nA: b', '0\r\nA: b\r\n\r']) {
			const { complete, problem } = read([text]);
			assert.deepEqual([complete, problem], [false, undefined], JSON.stringify(text));
		}
	});

	it('is read as the model reads the whole text, however it is cut', () => {
		const size = fc.constantFrom('0', '1', '2', 'a', '00', 'g', '', '2;a', '1;b="c"', '1 ');
		const end = fc.constantFrom('\r\n', '\r\n', '\r\n', '\n', '\r', '');
		const part = fc.tuple(size, end, fc.constantFrom('', 'x', 'xy', '0123456789'), end).map((texts) => texts.join(''));
		const trailer = fc.constantFrom('A: b\r\n', 'c:\td \r\n', 'Content-Length: 1\r\n', 'e\r\n', ' f\r\n');
		const body = fc
			.tuple(fc.array(part, { maxLength: 4 }), fc.array(trailer, { maxLength: 2 }), fc.constantFrom('\r\n', '\r\nG'))
			.map(([parts, trailers, last]) => `${parts.join('')}0\r\n${trailers.join('')}${last}`);
		fc.assert(
			fc.property(body, fc.array(fc.nat(80), { maxLength: 4 }), (text, at) => {
				const places = [0, ...at.map((place) => Math.min(place, text.length)), text.length].sort((a, b) => a - b);
				const told = read(places.slice(1).map((to, i) => text.slice(places[i], to)));
				const wanted = readChunks(text, 0);
				assert.equal(told.complete, wanted.isComplete);
				if (!wanted.isComplete) return;
				assert.equal(told.content, wanted.body);
				assert.deepEqual(
					told.trailers ?? [],
					wanted.trailers.flatMap(([name, value]) => [name.toLowerCase(), value]),
				);
				// Pieces after its end are not given to it.
				assert.ok(text.startsWith(told.rest, wanted.length));
			}),
			{ numRuns: 2000 },
		);
	});
});
