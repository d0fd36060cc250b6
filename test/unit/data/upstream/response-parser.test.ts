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
	/** Bytes after the response. */
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

/** A parser that waits for a response, and a recorder of its reports. */
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

/** The report of a response, which is the same for all cuts of its bytes. */
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

/** Refused however the bytes are cut. */
function refuses(text: string, arrival?: Arrival): void {
	for (const pieces of everyCut(text)) {
		assert.throws(() => parse(pieces, arrival), ProtocolError, JSON.stringify(pieces));
	}
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

	it('a response without framing ends with the connection, which is not reused', () => {
		const told = accepts(`${OK}x: y\r\n\r\nhello`, { closes: true });
		assert.equal(told.body, 'hello');
		assert.equal(told.heads[0]!.length, UNDECLARED);
		assert.equal(told.keepAlive, false);
		assert.equal(parseAnyhow(`${OK}x: y\r\n\r\nhello`).isWhole, false);
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

	it('keeps names and values, in order and with repetitions, names in lower case', () => {
		const told = accepts(
			`${OK}Set-Cookie: a=1\r\nVary:\t x \t\r\nset-cookie:b=2\r\nX-Empty:\r\ncontent-length: 0\r\n\r\n`,
		);
		assert.deepEqual(told.heads[0]!.fields, ['set-cookie', 'a=1', 'vary', 'x', 'set-cookie', 'b=2', 'x-empty', '']);
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

	it('may follow interim responses, which are not reported', () => {
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
			// A response without a body, or with a declared length, ends as over TCP.
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

	it('tells whether a response has begun, from its first byte on, whatever the response before', () => {
		const parser = new ResponseParser();
		for (let i = 0; i < 2; i++) {
			parser.expect('GET', new Recorder());
			const { started, isDone, keepAlive, keepAliveTimeoutMs } = parser;
			assert.deepEqual([started, isDone, keepAlive, keepAliveTimeoutMs], [false, false, false, undefined]);
			parser.push(Buffer.from('H'));
			assert.equal(parser.started, true);
			parser.push(Buffer.from('TTP/1.1 200 OK\r\nkeep-alive: timeout=9\r\ncontent-length: 0\r\n\r\n'));
			assert.equal(parser.keepAliveTimeoutMs, 9_000);
		}
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

	const withLine = (line: string) => `${OK}${line}\r\ncontent-length: 0\r\n\r\n`;
	const withFraming = (lines: string) => `${OK}${lines}\r\n\r\n5\r\nhello\r\n0\r\n\r\n`;
	const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`;
	/** Examples. The properties hold the rules over all odd lines, lengths and chunks of the fuzzer. */
	const REFUSED: Record<string, string[]> = {
		'an invalid status line': [
			'HTTP/1.1 099 x',
			'HTTP/1.1 600 x',
			'HTTP/1.1 2000 x',
			'HTTP/1.1  200 OK',
			'HTTP/1.2 200 OK',
			'HTTP/11 200 OK',
			'HTTP/1.1 200 a\x7fb',
			'',
		].map((line) => `${line}\r\ncontent-length: 0\r\n\r\n`),
		'a bare LF or CR at the end of a line': [
			'HTTP/1.1 200 OK\ncontent-length: 0\r\n\r\n',
			withLine('x: y\nz: w'),
			withLine('x: y\rz: w'),
			`\n${withLine('x: y')}`,
		],
		'a folded line, a blank before the colon, or a line without a name': [
			'x: y\r\n z: w',
			' x: y',
			'x : y',
			': y',
			'x',
		].map(withLine),
		'a control character in a name or a value': Array.from({ length: 0x20 }, (_, code) => String.fromCharCode(code))
			.concat('\x7f')
			.flatMap((control) => [`x: a${control}b`, `x${control}: a`])
			.filter((line) => line !== 'x: a\tb')
			.map(withLine),
		'a response of ambiguous length': [
			'content-length: 5\r\ntransfer-encoding: chunked',
			'transfer-encoding: chunked\r\ncontent-length: 5',
			'content-length: 5\r\ncontent-length: 5',
			'content-length: +5',
			'content-length: 99999999999999999999',
			'transfer-encoding: chunked\r\ntransfer-encoding: chunked',
			'transfer-encoding: chunked, chunked',
			'transfer-encoding: gzip',
		].map(withFraming),
		'a chunked response in HTTP/1.0': [withFraming('transfer-encoding: chunked').replace('HTTP/1.1', 'HTTP/1.0')],
		'an ambiguous chunk size': [`${CHUNKED}0x5\r\nhello\r\n0\r\n\r\n`],
		'a chunk that does not end after its size': [`${CHUNKED}5\r\nhellox\r\n0\r\n\r\n`],
		'a malformed trailer': [`${CHUNKED}5\r\nhello\r\n0\r\nx : y\r\n\r\n`],
		'a 101 that was not requested': [
			'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n',
		],
	};
	for (const [what, texts] of Object.entries(REFUSED)) {
		it(`refuses ${what}`, () => {
			for (const text of texts) refuses(text);
		});
	}

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
	it('are each reported as on a new connection, however similar they are', () => {
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
