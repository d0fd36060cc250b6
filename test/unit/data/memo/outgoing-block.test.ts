import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { OutgoingHead, versionAndHost } from '../../../../packages/proxy/src/data/client/outgoing-head.ts';
import { codedLines, OutgoingBlock } from '../../../../packages/proxy/src/data/memo/outgoing-block.ts';
import { listSizeOf } from '../../../../packages/proxy/src/http2/hpack-encoder.ts';
import { HpackReader } from '../../../fuzz/hpack.ts';

const read = (block: string) => new HpackReader().read(block).map(([name, value]) => `${name}: ${value}`);

/** The same request in HTTP/2. @param head as an HTTP/1.1 upstream gets it. */
function fieldsOf(head: string): string[] {
	const [requestLine, host, ...lines] = head.split('\r\n').filter((line) => line !== '');
	const [method, target] = requestLine!.split(' ');
	const fields = lines
		.map((line) => line.split(':'))
		.map(([name, value]) => `${name!.toLowerCase()}: ${value!.trim()}`);
	const kept = fields.filter((field) => !field.startsWith('transfer-encoding:'));
	return [
		`:method: ${method}`,
		`:path: ${target}`,
		`:authority: ${host!.slice('host: '.length)}`,
		...kept,
		'te: trailers',
	];
}

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

	it('has the fields of the head that an HTTP/1.1 upstream would get, whatever requests came before', () => {
		const part = fc.constantFrom('a: 1\r\n', 'B: 2\r\n', 'a: 1\r\nb:\t3 \r\n', '');
		const request = fc.tuple(
			fc.constantFrom('GET', 'POST', 'PROPFIND'),
			fc.constantFrom('/', '/x', '/a?b'),
			fc.constantFrom(versionAndHost('u'), versionAndHost('v:1'), `${versionAndHost('u')}x-forwarded-host: a\r\n`),
			...([part, part, part, part] as const),
			fc.constantFrom('', 'content-length: 5\r\n', 'transfer-encoding: chunked\r\n'),
		);
		fc.assert(
			fc.property(fc.array(request, { maxLength: 12 }), (requests) => {
				const kept = new OutgoingBlock('f: 0\r\n');
				// Each twice: the second one is written from what the first one has left.
				for (const parts of requests.flatMap((parts) => [parts, parts])) {
					assert.deepEqual(read(kept.write(...parts)), fieldsOf(new OutgoingHead('f: 0\r\n').write(...parts)));
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
