import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { codedLines, OutgoingBlock } from '../../../../packages/proxy/src/data/client/outgoing-block.ts';
import { versionAndHost } from '../../../../packages/proxy/src/data/client/outgoing-head.ts';
import { listSizeOf } from '../../../../packages/proxy/src/http2/hpack-encoder.ts';
import { HpackReader } from '../../../fuzz/hpack.ts';

const read = (block: string) => new HpackReader().read(block).map(([name, value]) => `${name}: ${value}`);

describe('the header block of a request to an HTTP/2 upstream', () => {
	it('has control data first, names in lower case, and no field of a connection', () => {
		const block = new OutgoingBlock('x-forwarded-for: 192.0.2.1\r\n').write(
			...([
				'POST',
				'/a?b',
				`${versionAndHost('up.test:1')}x-forwarded-host: a\r\n`,
				'x-proxy-tenant: t\r\n',
				'',
			] as const),
			...(['x-request-id: 1\r\n', 'X-Own: A b\r\nCookie: a=1\r\n', 'transfer-encoding: chunked\r\n'] as const),
		);
		assert.deepEqual(read(block), [
			...[':method: POST', ':path: /a?b', ':authority: up.test:1', 'x-forwarded-host: a', 'x-request-id: 1'],
			...['x-forwarded-for: 192.0.2.1', 'x-proxy-tenant: t', 'x-own: A b', 'cookie: a=1', 'te: trailers'],
		]);
	});

	it('keeps nothing of the last request where something differs', () => {
		const part = fc.constantFrom('a: 1\r\n', 'b: 2\r\n', '');
		const request = fc.tuple(
			fc.constantFrom('/', '/x'),
			part,
			part,
			part,
			fc.constantFrom('', 'content-length: 5\r\n'),
		);
		fc.assert(
			fc.property(fc.array(request, { maxLength: 12 }), (requests) => {
				const kept = new OutgoingBlock('f: 0\r\n');
				for (const [target, tenant, certificate, lines, framing] of requests) {
					const parts = ['GET', target, versionAndHost('u'), tenant, certificate, '', lines, framing] as const;
					assert.equal(kept.write(...parts), new OutgoingBlock('f: 0\r\n').write(...parts));
				}
			}),
		);
	});

	it('strips blanks around a value, and no other byte: 0xA0 ends letters in UTF-8', () => {
		const utf8 = Buffer.from('voilà').toString('latin1');
		assert.deepEqual(read(codedLines(`x-name: \t ${utf8} \t\r\nx-of: \xa0a\xa0\r\nx-none: \t \r\n`)), [
			`x-name: ${utf8}`,
			'x-of: \xa0a\xa0',
			'x-none: ',
		]);
	});

	it('counts by SETTINGS_MAX_HEADER_LIST_SIZE what its fields count', () => {
		const name = fc.constantFrom('accept', 'x-own', 'accept-encoding');
		const value = fc.stringMatching(/^[a-z, ]{0,300}$/).map((text) => text.trim());
		fc.assert(
			fc.property(fc.array(fc.tuple(name, value)), (fields) => {
				const size = fields.reduce((sum, [own, text]) => sum + own.length + text.length + 32, 0);
				assert.equal(listSizeOf(codedLines(fields.map(([own, text]) => `${own}: ${text}\r\n`).join(''))), size);
			}),
		);
	});
});
