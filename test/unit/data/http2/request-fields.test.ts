import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { HEADERS_TOO_LARGE, Rejection } from '../../../../packages/gate/src/gates/rejection.ts';
import {
	type RequestFacts,
	RequestField,
	RequestFieldsReader,
	requestDecoder,
} from '../../../../packages/proxy/src/data/http2/request-fields.ts';
import type { Identifiers } from '../../../../packages/proxy/src/gates/field-kinds.ts';
import { HeaderBlock } from '../../../../packages/proxy/src/http2/hpack-decoder.ts';
import { huffmanLiteral, stringLiteral } from '../../../fuzz/hpack.ts';

const MAX_BYTES = 200;

function blockOf(fields: readonly RequestField[]): HeaderBlock<RequestField> {
	const block = new HeaderBlock<RequestField>();
	block.fields.push(...fields);
	block.count = fields.length;
	for (const { name, value } of fields) block.bytes += name.length + value.length;
	return block;
}

function fieldsOf(...pairs: readonly (readonly [name: string, value: string])[]): RequestField[] {
	return pairs.map(([name, value]) => new RequestField(name, value));
}

function factsOf(read: RequestFacts | string): RequestFacts {
	assert.ok(typeof read !== 'string', String(read));
	return read;
}

const GET = [
	[':method', 'GET'],
	[':scheme', 'https'],
	[':authority', 'edge.example'],
] as const;

describe('The requests of an HTTP/2 connection', () => {
	it('have the head of the request before if only the path is another one', () => {
		const reader = new RequestFieldsReader(MAX_BYTES, 'none');
		const first = factsOf(reader.read(blockOf(fieldsOf(...GET, [':path', '/a'], ['accept', '*/*'])), true));
		const second = factsOf(reader.read(blockOf(fieldsOf(...GET, [':path', '/b?c'], ['accept', '*/*'])), true));
		assert.equal(second.head, first.head);
		assert.deepEqual([first.path, second.path], ['/a', '/b?c']);
		const third = factsOf(reader.read(blockOf(fieldsOf(...GET, [':path', '/b?c'], ['accept', 'text/*'])), true));
		assert.notEqual(third.head, first.head);
	});

	it('are refused as too large by the bytes of their names and values, whatever they are', () => {
		for (const field of [
			['x-a', 'v'.repeat(1000)],
			['n'.repeat(1000), ''],
			['cookie', 'c'.repeat(1000)],
			[':path', `/${'p'.repeat(1000)}`],
		] as const) {
			const path = field[0] === ':path' ? [] : [[':path', '/a'] as const];
			const block = blockOf(fieldsOf(...GET, ...path, field));
			const { head } = factsOf(new RequestFieldsReader(block.bytes, 'none').read(block, true));
			assert.ok(!(head instanceof Rejection), field[0]);
			const other = blockOf(block.fields);
			assert.equal(factsOf(new RequestFieldsReader(block.bytes - 1, 'none').read(other, true)).head, HEADERS_TOO_LARGE);
		}
	});

	it('mean the same whether a name is spelled out or refers to a field of before', () => {
		const names = [
			'te',
			'host',
			'content-length',
			'connection',
			'accept',
			'X',
			':path',
			':scheme',
			':odd',
			'authorization',
		];
		const values = ['trailers', 'Trailers', 'edge.example', '3', 'x', '', 'a\0', '/a', '*', 'https', '\t'];
		for (const name of names) {
			for (const value of values) {
				const alone = new RequestField(name, value);
				for (const before of values) {
					const named = new RequestField(name, value, new RequestField(name, before));
					assert.deepEqual([named.kind, named.line], [alone.kind, alone.line], `${name}: ${value} behind ${before}`);
				}
			}
		}
	});

	it('mean what their text means, in either code', () => {
		for (let code = 0; code < 256; code++) {
			const value = `a${String.fromCharCode(code)}b`;
			for (const literal of [stringLiteral(value), huffmanLiteral(value)]) {
				const block = Buffer.from(`\x00\x01x${literal}`, 'latin1');
				const [field] = requestDecoder(MAX_BYTES).decode(block, 0, block.length).fields;
				const { kind, line } = new RequestField('x', value);
				assert.deepEqual([field!.kind, field!.line], [kind, line], `code ${code}`);
			}
		}
	});

	// A small set of fields, so that requests that are nearly the same follow each other; each as one object and as several.
	const known = fieldsOf(
		...GET,
		[':method', 'OPTIONS'],
		[':method', 'BREW'],
		[':scheme', 'ftp'],
		[':path', '/a'],
		[':path', '/b'],
		[':path', '*'],
		[':path', 'c d'],
		[':path', `/${'long'.repeat(50)}`],
		['authorization', 'Bearer a'],
		['content-length', '0'],
		['content-length', '3'],
		['content-length', '03x'],
		['te', 'gzip'],
		['host', 'other.example'],
		['x', ' padded'],
		['x', '1'],
	);
	const field = fc.tuple(fc.constantFrom(...known), fc.boolean()).map(([field, again]) => {
		return again ? new RequestField(field.name, field.value) : field;
	});
	const path = fc.constantFrom(...known.filter(({ name }) => name === ':path'));
	const fields = fc.oneof(
		{ weight: 4, arbitrary: path.map((path) => [...known.slice(0, 3), path, known[11]!]) },
		{ weight: 4, arbitrary: fc.tuple(path, field).map(([path, field]) => [...known.slice(0, 3), path, field]) },
		{ weight: 1, arbitrary: fc.array(field, { maxLength: 6 }) },
	);

	const identifiers = fc.constantFrom<Identifiers>('none', 'trace', 'trace and request');

	it('mean what they would mean as the first request of a connection', () => {
		fc.assert(
			fc.property(fc.array(fc.tuple(fields, fc.boolean()), { maxLength: 12 }), identifiers, (requests, apart) => {
				const reader = new RequestFieldsReader(MAX_BYTES, apart);
				for (const [fields, endStream] of requests) {
					const alone = new RequestFieldsReader(MAX_BYTES, apart).read(blockOf(fields), endStream);
					const read = reader.read(blockOf(fields), endStream);
					if (typeof alone === 'string') assert.equal(read, alone);
					else assert.deepEqual(withoutControlData(factsOf(read)), withoutControlData(alone));
				}
			}),
			{ numRuns: 2000 },
		);
	});
});

/** A head says no path that anybody asks for: `RequestFacts.path` does. */
function withoutControlData({ head, ...facts }: RequestFacts): object {
	return { ...facts, head: { ...head, path: undefined } };
}
