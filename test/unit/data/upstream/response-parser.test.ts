import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { ResponseFields } from '../../../../packages/proxy/src/data/client/response-fields.ts';
import { ResponseHeads } from '../../../../packages/proxy/src/data/memo/response-heads.ts';
import type { ResponseEvents } from '../../../../packages/proxy/src/data/upstream/contract.ts';
import { ProtocolError } from '../../../../packages/proxy/src/data/upstream/response-head.ts';
import { ResponseParser } from '../../../../packages/proxy/src/data/upstream/response-parser.ts';
import { UNDECLARED } from '../../../../packages/proxy/src/gates/body-limit.ts';

/** All that a parser told of one response. */
interface Told {
	heads: { status: number; fields: string[]; length: number; hasBody: boolean }[];
	body: string;
	isWhole: boolean;
	/** Absent: none. */
	trailers?: readonly string[];
	/** Bytes behind the response. */
	surplus: number;
	keepAlive: boolean;
	keepAliveTimeoutMs: number | undefined;
}

interface Arrival {
	/** What was asked with. */
	method?: string;
	/** The upstream closes its side after the last byte. */
	closes?: boolean;
	/** Of responses before it. */
	heads?: ResponseHeads;
}

class Recorder implements ResponseEvents {
	readonly heads: Told['heads'] = [];
	body = '';

	onHead(status: number, { list }: ResponseFields, length: number, hasBody: boolean): void {
		// The length that is announced comes last.
		const isSized = length !== UNDECLARED;
		if (isSized) assert.deepEqual(list.slice(-2), ['content-length', `${length}`]);
		this.heads.push({ status, fields: isSized ? list.slice(0, -2) : [...list], length, hasBody });
	}

	onBody(chunk: Buffer): void {
		assert.equal(this.heads.length, 1, 'a body without its head');
		assert.notEqual(chunk.length, 0, 'an empty piece');
		this.body += chunk.toString('latin1');
	}
}

/** A parser that waits for a response, and what it tells. */
function expecting(method = 'GET', parser = new ResponseParser()): { parser: ResponseParser; recorder: Recorder } {
	const recorder = new Recorder();
	parser.expect(method, recorder);
	return { parser, recorder };
}

/** All short reads of all connections: a parser that kept a view would read later bytes in it. */
const READ = Buffer.alloc(4096);

/** Parses one response that arrives in these pieces. Every piece is overwritten afterwards, as a read buffer is. */
function parse(pieces: readonly string[], { method = 'GET', closes = false, heads }: Arrival = {}): Told {
	const { parser, recorder } = expecting(method, new ResponseParser(heads));
	let surplus = 0;
	for (const piece of pieces) {
		const bytes =
			piece.length > READ.length ? Buffer.from(piece, 'latin1') : READ.subarray(0, READ.write(piece, 'latin1'));
		if (parser.isDone) surplus += bytes.length;
		else surplus += bytes.length - parser.push(bytes);
		bytes.fill('#');
	}
	if (closes && !parser.isDone) parser.close();
	const { isDone: isWhole, keepAlive, keepAliveTimeoutMs, trailers } = parser;
	const { heads: told, body } = recorder;
	return { heads: told, body, isWhole, surplus, keepAlive, keepAliveTimeoutMs, ...(trailers && { trailers }) };
}

/** Whole, in single bytes, and cut in two at every boundary. */
function everyCut(text: string): string[][] {
	const cuts = [[text], [...text]];
	for (let at = 1; at < text.length; at++) cuts.push([text.slice(0, at), text.slice(at)]);
	return cuts;
}

/** The one thing that is told, however the bytes are cut. */
function parseAnyhow(text: string, arrival?: Arrival): Told {
	const whole = parse([text], arrival);
	for (const pieces of everyCut(text)) assert.deepEqual(parse(pieces, arrival), whole, JSON.stringify(pieces));
	return whole;
}

function accepts(text: string, arrival?: Arrival): Told {
	const told = parseAnyhow(text, arrival);
	assert.equal(told.isWhole, true, `not complete: ${JSON.stringify(text)}`);
	return told;
}

/** Refused however the bytes are cut, and never told as if it were whole. */
function refuses(text: string, arrival?: Arrival): void {
	for (const pieces of everyCut(text)) {
		assert.throws(() => parse(pieces, arrival), ProtocolError, JSON.stringify(pieces));
	}
}

/** Neither wrong nor complete: the upstream owes more, and a close is no end of it. */
function waitsFor(text: string, arrival: Arrival = {}): Told {
	const told = parseAnyhow(text, { ...arrival, closes: true });
	assert.equal(told.isWhole, false, `told as complete: ${JSON.stringify(text)}`);
	return told;
}

const OK = 'HTTP/1.1 200 OK\r\n';

describe('a response', () => {
	it('a response with content-length ends after that many bytes, and the connection stays', () => {
		assert.deepEqual(accepts(`${OK}Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello`), {
			heads: [{ status: 200, fields: ['content-type', 'text/plain'], length: 5, hasBody: true }],
			body: 'hello',
			isWhole: true,
			surplus: 0,
			keepAlive: true,
			keepAliveTimeoutMs: undefined,
		});
	});

	it('a response with content-length: 0 ends with its head', () => {
		const told = accepts(`${OK}content-length: 0\r\n\r\n`);
		assert.equal(told.heads[0]!.length, 0);
		assert.equal(told.surplus, 0);
	});

	it('a chunked response is reported without framing, extensions and trailers', () => {
		const told = accepts(
			`${OK}Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n00006;a=b;c="d"\r\n world\r\n0\r\nX-Sum: 1\r\nx: y\r\n\r\n`,
		);
		assert.equal(told.body, 'hello world');
		assert.deepEqual(told.heads, [{ status: 200, fields: [], length: UNDECLARED, hasBody: true }]);
		assert.equal(told.keepAlive, true);
	});

	it('may bring line breaks and heads as content', () => {
		const body = `\r\n\r\n0\r\n\r\n${OK}\r\n`;
		assert.equal(accepts(`${OK}content-length: ${body.length}\r\n\r\n${body}`).body, body);
		const chunked = `${OK}transfer-encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
		assert.equal(accepts(chunked).body, body);
	});

	it('a response without framing ends with the connection, which is not reused', () => {
		const told = accepts(`${OK}x: y\r\n\r\nhello`, { closes: true });
		assert.equal(told.body, 'hello');
		assert.equal(told.heads[0]!.length, UNDECLARED);
		assert.equal(told.keepAlive, false);
		assert.equal(parseAnyhow(`${OK}x: y\r\n\r\nhello`).isWhole, false);
	});

	it('cut short is never complete', () => {
		for (const text of [
			'',
			'HTTP/1.1 200 O',
			`${OK}content-length: 5\r\n\r`,
			`${OK}content-length: 5\r\n\r\nhell`,
			`${OK}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n`,
			`${OK}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n`,
			`${OK}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx: y\r\n`,
			'HTTP/1.1 100 Continue\r\n\r\n',
		]) {
			waitsFor(text);
		}
	});

	it('a response to HEAD, and one with 204, 205 or 304, has no body, whatever its head announces', () => {
		const head = 'x: y\r\ncontent-length: 5\r\n\r\n';
		const told = accepts(`${OK}${head}`, { method: 'HEAD' });
		assert.deepEqual(told.heads, [{ status: 200, fields: ['x', 'y'], length: 5, hasBody: false }]);
		assert.equal(accepts(`HTTP/1.1 304 Not Modified\r\n${head}`).heads[0]!.length, 5);
		// RFC 9110 section 8.6: a 204 has no length to pass on.
		assert.equal(accepts(`HTTP/1.1 204 No Content\r\n${head}`).heads[0]!.length, UNDECLARED);
		// RFC 9110 section 15.3.6: a 205 has a length, which is 0.
		assert.equal(accepts(`HTTP/1.1 205 Reset Content\r\n${head}`).heads[0]!.length, 0);
		assert.equal(accepts('HTTP/1.1 204\r\n\r\n').keepAlive, true);
		assert.equal(accepts(`${OK}transfer-encoding: chunked\r\n\r\n`, { method: 'HEAD' }).heads[0]!.hasBody, false);
	});

	it('tells how many of the bytes are its own, so that what follows is noticed', () => {
		for (const own of [
			`${OK}content-length: 5\r\n\r\nhello`,
			`${OK}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
			`${OK}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx: y\r\n\r\n`,
			'HTTP/1.1 204 No Content\r\n\r\n',
		]) {
			const second = `${OK}content-length: 3\r\n\r\nbad`;
			const told = parseAnyhow(own + second);
			assert.equal(told.surplus, second.length, own);
			assert.equal(told.heads.length, 1);
			assert.equal(told.isWhole, true);
		}
		const body = accepts('HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\nhello');
		assert.equal(body.surplus, 5);
		assert.equal(body.body, '');
	});

	it('keeps names and values, in order and with repetitions, names in lower case', () => {
		const told = accepts(
			`${OK}Set-Cookie: a=1\r\nVary:\t x \t\r\nset-cookie:b=2\r\nX-Empty:\r\ncontent-length: 0\r\n\r\n`,
		);
		assert.deepEqual(told.heads[0]!.fields, ['set-cookie', 'a=1', 'vary', 'x', 'set-cookie', 'b=2', 'x-empty', '']);
	});

	it('may have bytes beyond ASCII in values, which stay what they are', () => {
		const told = accepts(`${OK}x: \xe4\xff\x80\r\ncontent-length: 0\r\n\r\n`);
		assert.deepEqual(told.heads[0]!.fields, ['x', '\xe4\xff\x80']);
	});

	it('may lack its reason phrase, and the space before it', () => {
		for (const line of ['HTTP/1.1 200', 'HTTP/1.1 200 ', 'HTTP/1.1 200 \t odd \xe4 reason']) {
			assert.equal(accepts(`${line}\r\ncontent-length: 0\r\n\r\n`).heads[0]!.status, 200);
		}
	});

	it('may have any status from 200 to 599', () => {
		for (const status of [200, 206, 299, 404, 499, 500, 599]) {
			assert.equal(accepts(`HTTP/1.1 ${status} x\r\ncontent-length: 0\r\n\r\n`).heads[0]!.status, status);
		}
	});

	it('ends the connection when it says so, or is HTTP/1.0', () => {
		const rest = 'content-length: 0\r\n\r\n';
		assert.equal(accepts(`${OK}Connection: x, CLOSE\r\n${rest}`).keepAlive, false);
		assert.equal(accepts(`HTTP/1.0 200 OK\r\n${rest}`).keepAlive, false);
		assert.equal(accepts(`HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n${rest}`).keepAlive, false);
		assert.equal(accepts(`${OK}connection: keep-alive\r\n${rest}`).keepAlive, true);
		assert.equal(accepts(`${OK}connection: closed\r\n${rest}`).keepAlive, true);
	});

	it('may promise how long an idle connection is kept', () => {
		const told = accepts(`${OK}keep-alive: timeout=5, max=100\r\ncontent-length: 0\r\n\r\n`);
		assert.equal(told.keepAliveTimeoutMs, 5000);
		assert.deepEqual(told.heads[0]!.fields, []);
	});

	it('may follow interim responses, of which nothing is told', () => {
		const told = accepts(
			`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nx: y\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n${OK}content-length: 2\r\n\r\nok`,
		);
		assert.deepEqual(told.heads, [{ status: 200, fields: [], length: 2, hasBody: true }]);
		assert.equal(told.body, 'ok');
	});
});

describe('a parser', () => {
	it('does not take the end of the connection for that of a response over TLS', () => {
		for (const head of [OK, 'HTTP/1.0 200 OK\r\n', `${OK}connection: close\r\n`]) {
			const { parser, recorder } = expecting('GET', new ResponseParser(new ResponseHeads(), false));
			assert.throws(
				() => parser.push(Buffer.from(`${head}\r\nall of it`)),
				/neither content-length nor chunked over TLS/,
			);
			assert.deepEqual([recorder.heads, recorder.body, parser.isDone], [[], '', false]);
			// What has no body, or says how long it is, ends as ever.
			for (const [method, text] of [
				['HEAD', `${head}\r\n`],
				['GET', `${head.replace('200', '204')}\r\n`],
				['GET', `${head}content-length: 0\r\n\r\n`],
			] as const) {
				const { parser: other } = expecting(method, new ResponseParser(new ResponseHeads(), false));
				other.push(Buffer.from(text));
				assert.ok(other.isDone);
			}
		}
	});

	it('starts afresh with each request, whatever the response before', () => {
		const { parser, recorder: first } = expecting('HEAD');
		parser.push(Buffer.from(`${OK}connection: close\r\nkeep-alive: timeout=9\r\ncontent-length: 9\r\n\r\n`));
		assert.equal(parser.isDone, true);
		assert.equal(parser.keepAlive, false);
		const { recorder: second } = expecting('GET', parser);
		assert.equal(parser.started, false);
		assert.equal(parser.keepAliveTimeoutMs, undefined);
		assert.equal(parser.push(Buffer.from(`${OK}content-length: 2\r\n\r\nok`)), OK.length + 23);
		assert.equal(second.body, 'ok');
		assert.equal(parser.keepAlive, true);
		assert.equal(first.body, '');
	});

	it('tells whether the response has begun, from its first byte on', () => {
		const { parser } = expecting();
		assert.equal(parser.started, false);
		assert.equal(parser.isDone, false);
		parser.push(Buffer.from('H'));
		assert.equal(parser.started, true);
	});

	it('passes a body on as it comes, without holding it back', () => {
		for (const head of [
			`${OK}content-length: 100\r\n\r\n`,
			`${OK}transfer-encoding: chunked\r\n\r\n64\r\n`,
			`${OK}\r\n`,
		]) {
			const { parser, recorder } = expecting();
			parser.push(Buffer.from(head));
			assert.equal(recorder.heads.length, 1);
			for (const byte of 'abc') {
				parser.push(Buffer.from(byte));
				assert.equal(recorder.body.at(-1), byte);
			}
		}
	});
});

describe('a response is refused', () => {
	it('refuses a head of more than 2,048 fields, as over HTTP/2, in one piece and in many', () => {
		for (const size of [65_536, 1_000, 3]) {
			for (const [fields, isTaken] of [
				[2_048, true],
				[2_049, false],
			] as const) {
				const text = Buffer.from(`${OK}${'x:\r\n'.repeat(fields - 1)}content-length: 0\r\n\r\n`);
				const { parser } = expecting();
				const push = () => {
					for (let at = 0; at < text.length; at += size) parser.push(text.subarray(at, at + size));
				};
				if (isTaken) push();
				else assert.throws(push, /head too long/);
				assert.equal(parser.isDone, isTaken);
			}
		}
	});

	it('refuses a bare LF wherever the reads of a long head are cut', () => {
		const text = `${OK}${'x: 1\r\n'.repeat(300)}x: 1\n${'x: 1\r\n'.repeat(50)}`;
		const lf = text.indexOf('1\n') + 1;
		for (let cut = lf - 5; cut <= lf + 5; cut++) {
			const { parser } = expecting();
			assert.throws(() => {
				parser.push(Buffer.from(text.slice(0, cut)));
				parser.push(Buffer.from(text.slice(cut)));
			}, /bare LF in a head/);
		}
	});

	it('refuses an invalid status line', () => {
		for (const line of [
			...['HTTP/1.1 099 x', 'HTTP/1.1 600 x', 'HTTP/1.1 000 x', 'HTTP/1.1 999 x', 'HTTP/1.1 20 x', 'HTTP/1.1 2000 x'],
			...['HTTP/1.1  200 OK', 'HTTP/1.1 200OK', 'HTTP/1.1\t200 OK', 'HTTP/1.1 +20 OK', 'HTTP/1.1 2 0 OK', 'HTTP/1.1'],
			...[
				'HTTP/1.2 200 OK',
				'HTTP/2.0 200 OK',
				'HTTP/3 200 OK',
				'HTTP/0.9 200 OK',
				'HTTP/11 200 OK',
				'http/1.1 200 OK',
			],
			...[
				'ICY 200 OK',
				' HTTP/1.1 200 OK',
				'HTTP/1.1 200 a\x00b',
				'HTTP/1.1 200 a\x7fb',
				'HTTP/1.1 200 a\rb',
				'<html>',
				'',
			],
		]) {
			refuses(`${line}\r\ncontent-length: 0\r\n\r\n`);
		}
	});

	it('refuses a bare LF or CR at the end of a line', () => {
		for (const text of [
			'HTTP/1.1 200 OK\ncontent-length: 0\r\n\r\n',
			`${OK}content-length: 0\nx: y\r\n\r\n`,
			`${OK}content-length: 0\rx: y\r\n\r\n`,
			`${OK}x: y\r\n content-length: 0\r\n\r\n`,
			`\r\n${OK}content-length: 0\r\n\r\n`,
			`\n${OK}content-length: 0\r\n\r\n`,
		]) {
			refuses(text);
		}
	});

	it('refuses a folded line, a blank before the colon, and a line without a name', () => {
		for (const line of [
			'x: y\r\n z: w',
			'x: y\r\n\tz',
			' x: y',
			'x : y',
			'x\t: y',
			': y',
			'x',
			' ',
			'x y: z',
			'x\r: y',
		]) {
			refuses(`${OK}${line}\r\ncontent-length: 0\r\n\r\n`);
		}
	});

	it('refuses a control character in a name or a value', () => {
		for (let code = 0; code < 0x20; code++) {
			const control = String.fromCharCode(code);
			if (control !== '\t') refuses(`${OK}x: a${control}b\r\ncontent-length: 0\r\n\r\n`);
			refuses(`${OK}x${control}: a\r\ncontent-length: 0\r\n\r\n`);
		}
		refuses(`${OK}x: a\x7fb\r\ncontent-length: 0\r\n\r\n`);
		refuses(`${OK}x\x7f: a\r\ncontent-length: 0\r\n\r\n`);
		refuses(`${OK}\xe4: a\r\ncontent-length: 0\r\n\r\n`);
	});

	it('refuses a response of ambiguous length', () => {
		for (const lines of [
			'content-length: 5\r\ntransfer-encoding: chunked',
			'transfer-encoding: chunked\r\ncontent-length: 5',
			'content-length: 5\r\ncontent-length: 6',
			'content-length: 5\r\ncontent-length: 5',
			'content-length: 5, 5',
			...['+5', '-5', '0x5', '5 5', '', '5.0', '99999999999999999999', '5;', '\xb25'].map(
				(n) => `content-length: ${n}`,
			),
			'transfer-encoding: chunked\r\ntransfer-encoding: chunked',
			...[
				'xchunked',
				'gzip, chunked',
				'chunked, identity',
				'chunked, chunked',
				'identity',
				'gzip',
				'',
				'chunked;a',
			].map((coding) => `transfer-encoding: ${coding}`),
		]) {
			refuses(`${OK}${lines}\r\n\r\n5\r\nhello\r\n0\r\n\r\n`);
		}
		refuses('HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n');
	});

	it('refuses an ambiguous chunk size', () => {
		for (const size of [
			...[
				'0x5',
				'+5',
				'-5',
				' 5',
				'5 ',
				'5\t',
				'',
				'g',
				'5g',
				'5,',
				'5 5',
				'\xb25',
				'ffffffffffffffff',
				'100000000000005',
			],
			...['5\n', '5\r', '5;a\n', '5;a\x00', '5;a\x7f'],
		]) {
			refuses(`${OK}transfer-encoding: chunked\r\n\r\n${size}\r\nhello\r\n0\r\n\r\n`);
		}
		refuses(`${OK}transfer-encoding: chunked\r\n\r\n5;${'a'.repeat(1100)}\r\nhello\r\n0\r\n\r\n`.slice(0, 1500));
	});

	it('refuses a chunk that does not end after its size', () => {
		for (const end of ['\n', '\r', 'x\r\n', '\rx\n', '0\r\n', ' \r\n']) {
			refuses(`${OK}transfer-encoding: chunked\r\n\r\n5\r\nhello${end}0\r\n\r\n`);
		}
	});

	it('refuses a malformed trailer', () => {
		for (const trailer of ['x', 'x : y', 'x: a\x00b', ' x: y', 'x: y\nz: w', '\rx: y', 'x: y\r\n z']) {
			refuses(`${OK}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n${trailer}\r\n\r\n`);
		}
	});

	it('refuses a 101 that was not requested', () => {
		refuses('HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n');
	});

	it('refuses a flood of interim responses, and accepts a few', () => {
		const interim = 'HTTP/1.1 103 Early Hints\r\n\r\n';
		const final = `${OK}content-length: 0\r\n\r\n`;
		assert.equal(parse([interim.repeat(30) + final]).isWhole, true);
		for (const pieces of [[interim.repeat(2000)], Array.from({ length: 2000 }, () => interim)]) {
			assert.throws(() => parse(pieces), ProtocolError);
		}
	});

	it('refuses an endless head, chunk extension or trailers', () => {
		const endless = (start: string, filler: string) => [
			start,
			...Array.from({ length: 20 }, () => filler.repeat(5000)),
		];
		for (const pieces of [
			endless(`${OK}x: `, 'a'),
			endless(OK, 'a: b\r\n'),
			endless(`${OK}transfer-encoding: chunked\r\n\r\n5;`, 'a'),
			endless(`${OK}transfer-encoding: chunked\r\n\r\n0\r\n`, 'a: b\r\n'),
			endless('HTTP/1.1 200 ', 'a'),
		]) {
			assert.throws(() => parse(pieces), ProtocolError);
			assert.throws(() => parse([pieces.join('')]), ProtocolError);
		}
		assert.throws(() => parse([`${OK}x: ${'a'.repeat(100_000)}\r\ncontent-length: 0\r\n\r\n`]), ProtocolError);
	});

	it('refuses a response as soon as its first bytes cannot become a status line', () => {
		for (const start of ['<', 'HTTP/2', 'h', 'HTTP/1,', '\r\n', '\n', '\x16\x03\x01', ' ']) {
			assert.throws(() => parse([start]), ProtocolError, JSON.stringify(start));
		}
	});

	it('refuses a response without quoting it in the error', () => {
		const secret = 'hunter2';
		for (const text of [`${secret}\r\n\r\n`, `${OK}${secret}\r\n\r\n`, `${OK}x: \x00${secret}\r\n\r\n`]) {
			assert.throws(
				() => parse([text]),
				(error: Error) => error instanceof ProtocolError && !error.message.includes(secret),
			);
		}
	});
});

/** response-parser.properties.test.ts has what holds of every response, right or damaged. */
describe('responses in a row', () => {
	it('are each told as if there had been no other one before it, however much they are alike', () => {
		const plain = fc.constantFrom('A: 1', 'A: 2', 'a:1', 'A: 1 ', 'Keep-Alive: timeout=5', 'A : 1');
		const line = fc.oneof(plain, fc.constantFrom('Connection: close', 'Connection: z', 'Trailer: z'));
		const head = fc.tuple(
			fc.constantFrom('HTTP/1.1 200 OK', 'HTTP/1.0 200 OK', 'HTTP/1.1 304 OK', 'HTTP/1.1 103 OK', 'HTTP/2.1 200 OK'),
			fc.array(line, { maxLength: 3 }),
			fc.constantFrom('Content-Length: 2', 'Transfer-Encoding: chunked', 'Content-Length: 02', 'X: y'),
		);
		const one = fc.record({ head, isSent: fc.nat(3), method: fc.constantFrom('GET', 'HEAD'), cut: fc.nat(90) });
		fc.assert(
			fc.property(fc.array(one, { minLength: 1, maxLength: 6 }), fc.boolean(), (responses, inTurn) => {
				const heads = new ResponseHeads();
				const told = (pieces: string[], arrival: Arrival) => {
					try {
						return parse(pieces, { ...arrival, closes: true });
					} catch (error) {
						assert.ok(error instanceof ProtocolError, String(error));
						return error.message;
					}
				};
				const all = responses.flatMap((response) => Array(response.isSent).fill(response) as typeof responses);
				for (const { head, method, cut } of inTurn ? [...responses, ...responses, ...responses] : all) {
					const [status, list, framing] = head;
					const wire = `${[status, ...list, framing].join('\r\n')}\r\n\r\n2\r\nok\r\n0\r\nZ: 1\r\nY: 2\r\n\r\n`;
					const pieces =
						cut < wire.length ? [wire.slice(0, cut), wire.slice(cut)].filter((text) => text !== '') : [wire];
					assert.deepEqual(told(pieces, { method, heads }), told(pieces, { method }));
				}
			}),
			{ numRuns: 2000 },
		);
	});

	it('equal responses in a row share one object of fields', () => {
		const heads = new ResponseHeads();
		const given: ResponseFields[] = [];
		const send = (date: string) => {
			const parser = new ResponseParser(heads);
			parser.expect('GET', { onHead: (_, fields) => given.push(fields), onBody() {} });
			parser.push(Buffer.from(`${OK}date: ${date}\r\ncontent-length: 2\r\n\r\nok`));
		};
		for (const date of ['a', 'a', 'a', 'a', 'b', 'b', 'b', 'b']) send(date);
		assert.deepEqual(
			given.map(({ list }) => list[1]),
			[...'aaaabbbb'],
		);
		assert.equal(given[2], given[3]);
		assert.equal(given[6], given[7]);
	});
});

describe('the body of known length', () => {
	it('may be read past the parser, as far as it goes', () => {
		const { parser, recorder } = expecting();
		assert.equal(parser.leftOfBody, 0);
		parser.push(Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc'));
		assert.equal(parser.leftOfBody, 7);
		parser.skip(5);
		assert.equal(parser.place, 'after 8 of 10 bytes');
		parser.push(Buffer.from('i'));
		assert.deepEqual([recorder.body, parser.isDone], ['abci', false]);
		parser.skip(1);
		assert.deepEqual([parser.leftOfBody, parser.isDone], [0, true]);
	});

	it('is not there where chunks or the end of the connection tell the length', () => {
		for (const framing of ['Transfer-Encoding: chunked\r\n\r\n5\r\nab', 'X: y\r\n\r\nab']) {
			const { parser } = expecting();
			parser.push(Buffer.from(`HTTP/1.1 200 OK\r\n${framing}`));
			assert.equal(parser.leftOfBody, 0);
		}
	});
});
