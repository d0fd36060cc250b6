import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Rejection } from '../../../../packages/gate/src/gates/rejection.ts';
import { FieldScanner, splitFields } from '../../../../packages/proxy/src/data/http1/field-scanner.ts';
import { RequestHeadReader } from '../../../../packages/proxy/src/data/http1/head-reader.ts';
import { readView } from '../../../../packages/proxy/src/data/loop/read-buffer.ts';
import { FieldLines } from '../../../../packages/proxy/src/data/memo/field-lines.ts';
import type { Identifiers } from '../../../../packages/proxy/src/gates/field-kinds.ts';
import { type RequestHead, readHttp1Head } from '../../../../packages/proxy/src/gates/headers.ts';

const PLAIN_FACTS = ['authorization', 'lines', 'bodyLength', 'wantsUpgrade', 'expectsContinue', 'traceparent'] as const;
const FACTS = [...PLAIN_FACTS, 'requestId', 'tracestate', 'authority', 'claimsOrigin'] as const;

function factsOf(head: RequestHead | Rejection) {
	return head instanceof Rejection ? head.reason : FACTS.map((name) => head[name]);
}

/** What the byte-by-byte scanner and the list of names and values make of a block. */
function oracle(text: string, minor: number, apart: Identifiers) {
	const scanner = new FieldScanner();
	const end = scanner.scan(Buffer.from(text, 'latin1'), 0);
	if (end === -1) return { end };
	return { end, facts: factsOf(readHttp1Head(splitFields(text.slice(0, end)), minor, apart)) };
}

const NAMES = ['Host', 'host', 'Authorization', 'authorization', 'Content-Length', 'Transfer-Encoding', 'Connection'];
const MORE_NAMES = [
	'Cookie',
	'X-A',
	'X_A',
	'X-Proxy-Tenant',
	'x_forwarded_for',
	'Traceparent',
	'X-Request-Id',
	'Upgrade',
];
const VALUES = ['a', '', 'b c', '5', 'chunked', 'close', 'keep-alive, X-A', 'Bearer x', 'h2c', '\xe4', 'x'.repeat(70)];
const BAD = ['\0', 'a\nb', 'a\rb', '\x7f'];

const line = fc
	.record({
		name: fc.constantFrom(...NAMES, ...MORE_NAMES),
		before: fc.constantFrom(' ', '', '\t', '  '),
		value: fc.oneof({ weight: 20, arbitrary: fc.constantFrom(...VALUES) }, fc.constantFrom(...BAD)),
		behind: fc.oneof({ weight: 5, arbitrary: fc.constant('') }, fc.constantFrom(' ', '\t')),
		colon: fc.oneof({ weight: 30, arbitrary: fc.constant(':') }, fc.constantFrom(' :', '')),
		end: fc.oneof({ weight: 30, arbitrary: fc.constant('\r\n') }, fc.constantFrom('\n', '\r', '\r\n ')),
	})
	.map(({ name, before, value, behind, colon, end }) => `${name}${colon}${before}${value}${behind}${end}`);

/** Blocks of one connection: each is the one before with a line more, less or another one. */
const blocks = fc.array(
	fc.record({
		at: fc.nat(9),
		remove: fc.nat(1),
		add: fc.option(line, { nil: '' }),
		cut: fc.oneof({ weight: 20, arbitrary: fc.constant(null) }, fc.nat(40)),
	}),
	{ minLength: 1, maxLength: 12 },
);

describe('a block of field lines that is compared with the last one', () => {
	it('has the end and the facts that it has on a new connection, whatever blocks came before', () => {
		const seen = { whole: 0, refused: 0, broken: 0 };
		fc.assert(
			fc.property(blocks, fc.constantFrom<Identifiers>('none', 'trace and request'), (changes, apart) => {
				const reader = new RequestHeadReader(65_536, apart);
				const lines = ['Host: a\r\n', 'Accept: */*\r\n', 'Authorization: Bearer t\r\n', 'X-A: 1\r\n'];
				for (const { at, remove, add, cut } of changes) {
					const kept = [...lines];
					kept.splice(at, remove, ...(add === '' ? [] : [add]));
					const text = `${kept.join('')}\r\n`.slice(0, cut === null ? undefined : cut);
					const wanted = oracle(text, 1, apart);
					const alone = new FieldLines(apart);
					assert.equal(alone.read(Buffer.from(text, 'latin1'), 0), wanted.end, JSON.stringify(text));
					const head = Buffer.from(`GET / HTTP/1.1\r\n${text}`, 'latin1');
					const end = reader.read(head, 0);
					if (wanted.end === -1) {
						seen.broken++;
						assert.equal(end, -1);
						// The connection is over, or waits for the rest.
						return;
					}
					assert.equal(end, 16 + wanted.end, JSON.stringify(text));
					assert.deepEqual(factsOf(reader.block.head), wanted.facts, JSON.stringify(text));
					if (typeof wanted.facts === 'string') seen.refused++;
					else {
						seen.whole++;
						lines.splice(0, lines.length, ...kept);
					}
				}
			}),
			{ numRuns: 1500 },
		);
		for (const [kind, times] of Object.entries(seen)) assert.ok(times > 100, `${kind}: ${times}`);
	});

	it('is read as by a new reader, whichever of the blocks before were remembered', () => {
		// Names of one length but of different kinds, and values with a colon: a stale line would have the bytes of another one.
		const lines = fc.array(
			fc.tuple(fc.constantFrom('Cookie', 'Expect', 'X-Real', 'X-A'), fc.constantFrom('a', 'b: c', ' d', 'e ')),
			{ maxLength: 4 },
		);
		const read = (reader: FieldLines, bytes: Buffer) => {
			const end = reader.read(bytes, 0);
			return { end, lines: structuredClone(reader.lines.slice(0, reader.count)) };
		};
		let found = 0;
		fc.assert(
			fc.property(fc.array(fc.tuple(lines, fc.boolean()), { minLength: 2, maxLength: 8 }), (heads) => {
				const reader = new FieldLines('none');
				let remembered: string | undefined;
				for (const [fields, isRemembered] of heads) {
					const text = `${fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
					const bytes = Buffer.from(text);
					const isKnown = reader.findLast(bytes, 0) !== -1;
					assert.equal(isKnown, text === remembered, JSON.stringify(heads));
					if (isKnown) found++;
					const block = read(reader, bytes);
					assert.deepEqual(block, read(new FieldLines('none'), bytes), JSON.stringify(heads));
					if (isRemembered) reader.remember(bytes, 0, block.end);
					remembered = isRemembered ? text : undefined;
				}
			}),
			{ numRuns: 2000 },
		);
		assert.ok(found > 20, `${found} blocks were found again`);
	});

	it('is the same in the read buffer as in any other, with any byte at any place of a value, and wherever the read ends', () => {
		const read = (bytes: Buffer) => {
			const reader = new FieldLines('none');
			return { end: reader.read(bytes, 0), lines: reader.lines };
		};
		const readInPlace = (text: string, length = text.length) => {
			readView(text.length).write(text, 'latin1');
			return read(readView(length));
		};
		for (const name of ['A', 'AB', 'ABC', 'ABCD']) {
			for (let place = 0; place < 10; place++) {
				for (let byte = 0; byte < 256; byte++) {
					const value = `${'v'.repeat(place)}${String.fromCharCode(byte)}${'v'.repeat(9 - place)}`;
					const text = `${name}: ${value}\r\n\r\n`;
					assert.deepEqual(readInPlace(text), read(Buffer.from(text, 'latin1')), JSON.stringify(text));
				}
			}
			const text = `${name}: ${'v'.repeat(20)}\r\n\r\n`;
			assert.equal(readInPlace(text).end, text.length);
			// The bytes after the read are those of an earlier one.
			for (let length = 0; length < text.length; length++) assert.equal(readInPlace(text, length).end, -1);
		}
	});

	it('has as many lines as a client likes: more than are compared are read all the same', () => {
		const reader = new RequestHeadReader(65_536);
		for (const count of [1, 63, 64, 65, 200, 3]) {
			const lines = Array.from({ length: count }, (_, i) => `X-${i}: ${i}\r\n`).join('');
			const head = Buffer.from(`GET / HTTP/1.1\r\nHost: a\r\n${lines}\r\n`);
			assert.equal(reader.read(head, 0), head.length);
			assert.equal((reader.block.head as RequestHead).lines, lines);
		}
	});
});
