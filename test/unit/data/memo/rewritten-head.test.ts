import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Rejection } from '../../../../packages/gate/src/gates/rejection.ts';
import { versionAndHost } from '../../../../packages/proxy/src/data/client/outgoing-head.ts';
import { RewrittenHead } from '../../../../packages/proxy/src/data/memo/rewritten-head.ts';
import { Forwarding } from '../../../../packages/proxy/src/gates/forwarding.ts';
import { readHttp1Head } from '../../../../packages/proxy/src/gates/headers.ts';

describe("what a route puts instead of the host line and of the client's lines", () => {
	const heads = [['x-forwarded-host', 'evil', 'accept', '*/*'], ['x-forwarded-port', '1'], []].map((fields) => {
		const head = readHttp1Head(['host', 'edge.test', ...fields], 1);
		assert.ok(!(head instanceof Rejection));
		return head;
	});
	const plain = {
		host: 'upstream',
		stripsPrefix: false,
		forwardedHost: false,
		forwardedPort: false,
		forwarded: false,
	} as const;
	const routes = [
		new Forwarding({ ...plain, host: 'client', forwardedHost: true }, '/a'),
		new Forwarding({ ...plain, host: { name: 'b' }, forwardedPort: true }, '/b'),
		new Forwarding({ ...plain, stripsPrefix: true, forwarded: true }, '/c'),
	];
	const arrival = { ip: '192.0.2.1', port: 8443 };

	it('is its own, whatever those of the requests before were, and the same text for the same request', () => {
		const request = fc.tuple(
			fc.constantFrom(...routes),
			fc.constantFrom(versionAndHost('up.test:1'), versionAndHost('up.test:2')),
			fc.constantFrom('edge.test', 'other.test', undefined),
			fc.constantFrom(...heads),
		);
		fc.assert(
			fc.property(fc.array(request, { maxLength: 30 }), (requests) => {
				const rewritten = new RewrittenHead();
				for (const [forwarding, upstream, authority, head] of requests) {
					rewritten.update(forwarding, upstream, authority, head, arrival);
					const host = forwarding.host(authority);
					const start = host === undefined ? upstream : versionAndHost(host);
					assert.equal(rewritten.versionAndHost, start + forwarding.lines(authority, arrival));
					assert.equal(rewritten.lines, forwarding.linesOf(head));
				}
			}),
		);
	});
});
