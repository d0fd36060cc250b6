import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { OutgoingHead } from '../../../src/data/outgoing-head.ts';

describe("what follows the target in a request's head on its way to the upstream", () => {
	it('is made of its own lines, whatever those of the requests before were', () => {
		const part = (values: string[]) => fc.constantFrom(...values);
		const request = fc.tuple(
			part([' HTTP/1.1\r\nhost: a\r\n', ' HTTP/1.1\r\nhost: b\r\n']),
			part(['x-proxy-tenant: a\r\n', 'x-proxy-tenant: b\r\n']),
			part(['client-cert: :AAAA:\r\n', '']),
			part(['accept: */*\r\n', 'accept: */*\r\nx-latin: \xe9\r\n', '']),
			part(['', 'content-length: 1\r\n', 'content-length: 2\r\n']),
		);
		fc.assert(
			fc.property(fc.array(request, { maxLength: 30 }), (requests) => {
				const outgoing = new OutgoingHead('x-forwarded-for: 192.0.2.1\r\n');
				for (const [versionAndHost, tenant, certificate, lines, framing] of requests) {
					assert.equal(
						outgoing.behindTarget(versionAndHost, tenant, certificate, lines, framing),
						`${versionAndHost}x-forwarded-for: 192.0.2.1\r\n${tenant}${certificate}${lines}${framing}\r\n`,
					);
				}
			}),
		);
	});
});
