import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { requestDecoder } from '../../../packages/proxy/src/data/http2/request-fields.ts';
import { codedLines, OutgoingBlock, webSocketField } from '../../../packages/proxy/src/data/memo/outgoing-block.ts';
import { codedFields } from '../../../packages/proxy/src/http2/hpack-encoder.ts';
import { SensitiveNames } from '../../../packages/proxy/src/http2/sensitive-names.ts';
import { headerBlock } from '../../fixtures/h2-frames.ts';
import { neverIndexed, representationsOf } from '../../fixtures/hpack-representations.ts';

const latin1 = (text: string) => Buffer.from(text, 'latin1');

describe('a field that its sender has marked as never indexed (RFC 7541 section 6.2.3)', () => {
	it('is a cookie or a token, however it came (section 7.1.3)', () => {
		const kinds = representationsOf(latin1(codedFields(['set-cookie', 'a', 'authorization', 'b'])));
		assert.deepEqual([...kinds.values()], ['never indexed', 'never indexed']);
		assert.equal(new SensitiveNames().has('content-type'), false);
	});

	it('is coded so in each block that follows, whatever was coded before', () => {
		const name = fc.constantFrom('x-a', 'x-b', 'x-c', 'accept-encoding', 'etag');
		const field = fc.record({ name, value: fc.constantFrom('1', '2', 'gzip, deflate'), isMarked: fc.boolean() });
		const outgoing = new OutgoingBlock('');
		fc.assert(
			fc.property(fc.array(field, { maxLength: 6 }), (fields) => {
				const block = Buffer.concat(
					fields.map((it) => (it.isMarked ? neverIndexed(it.name, it.value) : headerBlock([[it.name, it.value]]))),
				);
				const decoded = requestDecoder(10_000).decode(block, 0, block.length).fields;
				const list = decoded.flatMap((it) => [it.name, it.value]);
				const lines = decoded.map((it) => it.line).join('');
				const coded = [codedFields(list), codedLines(lines)];
				coded.push(outgoing.write('GET', '/', 'HTTP/1.1\r\nhost: a', '', '', '', lines, ''));
				for (const text of coded) {
					const kinds = representationsOf(latin1(text));
					for (const it of fields) {
						if (it.isMarked) assert.equal(kinds.get(`${it.name}: ${it.value}`), 'never indexed');
					}
				}
			}),
			{ numRuns: 500 },
		);
	});

	it('makes all names sensitive when there are too many of them, or a long one: none is forgotten', () => {
		const [many, long] = [new SensitiveNames(), new SensitiveNames()];
		const names = Array.from({ length: 400 }, (_, i) => `x-${i}`);
		for (const [i, name] of names.entries()) {
			many.add(name);
			assert.ok(names.slice(0, i + 1).every((one) => many.has(one)));
			if (i < 200) assert.equal(many.has('x-never-marked'), false);
		}
		assert.equal(many.has('x-never-marked'), true);
		long.add('x'.repeat(129));
		assert.equal(long.has('x'.repeat(129)), true);
	});

	it('is also the protocol of a WebSocket, which the proxy codes itself', () => {
		assert.equal(representationsOf(latin1(webSocketField())).has(':protocol: websocket'), true);
		const block = neverIndexed(':protocol', 'websocket');
		requestDecoder(10_000).decode(block, 0, block.length);
		assert.equal(representationsOf(latin1(webSocketField())).get(':protocol: websocket'), 'never indexed');
	});

	it('clears memos of coded fields once for each new name', () => {
		const names = new SensitiveNames();
		let cleared = 0;
		names.clears(() => {
			cleared++;
		});
		for (const name of ['x-a', 'x-a', 'cookie', 'x-b']) names.add(name);
		assert.deepEqual([cleared, names.version], [2, 2]);
	});
});
