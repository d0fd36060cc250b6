import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BAD_REQUEST } from '../../../packages/gate/src/gates/rejection.ts';
import { Forwarding, type ForwardingSeed } from '../../../packages/proxy/src/gates/forwarding.ts';
import type { CleanTarget } from '../../../packages/proxy/src/gates/path.ts';
import { assertRefusal } from '../../fixtures/refusal.ts';

const PLAIN: ForwardingSeed = {
	host: 'upstream',
	stripsPrefix: false,
	forwardedHost: false,
	forwardedPort: false,
	forwarded: false,
};
const forwarding = (seed: Partial<ForwardingSeed>, prefix = '/api') => new Forwarding({ ...PLAIN, ...seed }, prefix);
const arrival = { ip: '192.0.2.7', port: 8443 };
const target = '/api/x' as CleanTarget;

describe('the request that a route forwards', () => {
	it("is Host of the upstream, of the client, or a name; the upstream's if the client named none", () => {
		assert.equal(forwarding({}).host('api.example'), undefined);
		assert.equal(forwarding({ host: 'client' }).host('API.example:8443'), 'API.example:8443');
		assert.equal(forwarding({ host: 'client' }).host(undefined), undefined);
		for (const asked of ['api.example', undefined]) {
			assert.equal(forwarding({ host: { name: 'billing.internal' } }).host(asked), 'billing.internal');
		}
	});

	it('is a line for each switch, and none for what the client has not said', () => {
		const all = { forwardedHost: true, forwardedPort: true, stripsPrefix: true, forwarded: true } as const;
		assert.equal(
			forwarding(all).lines('api.example:443', arrival),
			'x-forwarded-host: api.example:443\r\nx-forwarded-port: 8443\r\nx-forwarded-prefix: /api\r\n' +
				'forwarded: for=192.0.2.7;host="api.example:443";proto=https\r\n',
		);
		assert.equal(
			forwarding(all, '/api/').lines(undefined, { ...arrival, port: undefined }),
			'x-forwarded-prefix: /api\r\nforwarded: for=192.0.2.7;proto=https\r\n',
		);
		assert.equal(forwarding({ forwardedPort: 443 }).lines('a', arrival), 'x-forwarded-port: 443\r\n');
		// Of the shortest prefix nothing is cut.
		assert.equal(forwarding({ stripsPrefix: true }, '/').lines('a', arrival), '');
		assert.equal(forwarding({ host: 'client' }).lines('a', arrival), '');
	});

	it('is the same target, or one without the prefix', () => {
		assert.equal(forwarding({ host: 'client' }).target(target, 'a'), target);
		assert.equal(forwarding({ stripsPrefix: true }).target(target, 'a'), '/x');
	});

	it('is nothing if the host in an absolute target is none and would be passed on', () => {
		for (const seed of [{ host: 'client' }, { forwardedHost: true }, { forwarded: true }] as const) {
			assertRefusal(forwarding(seed).target(target, null), BAD_REQUEST, '', 'malformed host');
		}
		for (const seed of [{ stripsPrefix: true }, { host: { name: 'a' } }, { forwardedPort: true }]) {
			assert.equal(typeof forwarding(seed).target(target, null), 'string');
		}
	});

	it("is the client's lines without those that the route writes itself, in whatever spelling", () => {
		const ours = ['X-Forwarded-Host: a', 'x_forwarded.host: b', 'x-forwarded-port: 1', 'X-FORWARDED_PREFIX: /c'];
		const others = ['x-forwarded-hosts: d', 'X-Other: x-forwarded-host: e', 'x-empty: '];
		const text = (lines: string[]) => lines.map((line) => `${line}\r\n`).join('');
		const lines = text([others[0]!, ...ours, ...others.slice(1)]);
		const left = (seed: Partial<ForwardingSeed>, claimsOrigin = true) =>
			forwarding(seed).linesOf({ lines, claimsOrigin });
		assert.equal(left({ forwardedHost: true, forwardedPort: 1, stripsPrefix: true }), text(others));
		assert.equal(left({ forwardedHost: true }), text([others[0]!, ...ours.slice(2), ...others.slice(1)]));
		assert.equal(left({ forwardedPort: true }), text([others[0]!, ours[0]!, ours[1]!, ours[3]!, ...others.slice(1)]));
		assert.equal(left({ forwarded: true, host: 'client' }), lines);
		assert.equal(forwarding({ forwardedHost: true }).linesOf({ lines: '', claimsOrigin: true }), '');
	});

	it('knows which fields it writes, in any spelling', () => {
		const route = forwarding({ forwardedHost: true });
		assert.deepEqual(
			['X_Forwarded.Host', 'x-forwarded-port', 'host'].map((name) => route.writes(name)),
			[true, false, false],
		);
	});
});
