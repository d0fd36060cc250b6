import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readScopes } from '../../../packages/gate/src/gates/scopes.ts';
import type { VerifiedToken } from '../../../packages/gate/src/gates/token-cache.ts';
import { Caller } from '../../../packages/proxy/src/identity/caller.ts';
import type { CertificateNames } from '../../../packages/proxy/src/identity/certificate-names.ts';
import { RouteAccess, type RouteAccessSeed } from '../../../packages/proxy/src/identity/route-access.ts';

const NOTHING: RouteAccessSeed = { allow: undefined, deny: undefined, tenants: undefined, scopes: undefined };

const token = (tenant = 'tenant', payload: Record<string, unknown> = {}) =>
	({ tenant, claims: { payload, scopes: readScopes(payload) } }) as unknown as VerifiedToken;

/** A route, and how often certificates have been read for it. */
function route(seed: Partial<RouteAccessSeed>) {
	const reads = { count: 0 };
	const access = new RouteAccess({ ...NOTHING, ...seed }, (certificate) => {
		reads.count++;
		return (certificate as unknown as { names: CertificateNames | undefined }).names;
	});
	return { access, reads };
}

const connection = (names: Partial<CertificateNames> | undefined) => ({
	caller: new Caller({ names: names && { uris: [], dns: [], commonNames: [], ...names } } as never, () => undefined) as
		| Caller
		| undefined,
});

const verdict = (seed: Partial<RouteAccessSeed>, names: Partial<CertificateNames> | undefined, identity = token()) => {
	const refusal = route(seed).access.refuse(connection(names), identity);
	return refusal && `${refusal.status} ${refusal.body}: ${refusal.code}, ${refusal.reason}`;
};

const CERTIFICATE = '403 forbidden: certificate-forbidden, ';
const PAY = { uris: ['spiffe://example.org/ns/pay/card'] };

describe('who may use a route', () => {
	it('is admitted with an allowed name', () => {
		const allow = ['spiffe://example.org/ns/pay/*', 'dns:*.billing.internal', 'cn:legacy-client'];
		for (const names of [PAY, { dns: ['x.example', 'a.billing.internal'] }, { commonNames: ['legacy-client'] }]) {
			assert.equal(verdict({ allow }, names), undefined);
		}
		for (const names of [{}, { uris: ['spiffe://example.org/ns/ship/x'] }, { commonNames: ['a.billing.internal'] }]) {
			assert.equal(verdict({ allow }, names), `${CERTIFICATE}no allowed name in the certificate`);
		}
	});

	it('checks common names only if a rule names one', () => {
		assert.equal(
			verdict({ allow: ['dns:legacy-client'] }, { commonNames: ['legacy-client'] }),
			`${CERTIFICATE}no allowed name in the certificate`,
		);
	});

	it('is refused with a denied name, also with an allowed one; without "allow" all others are admitted', () => {
		const deny = ['dns:old.internal', 'spiffe://example.org/ns/pay/card'];
		const denied = `${CERTIFICATE}denied by spiffe://example.org/ns/pay/card`;
		assert.equal(verdict({ allow: ['spiffe://example.org/ns/*/*'], deny }, PAY), denied);
		assert.equal(verdict({ deny }, PAY), denied);
		assert.equal(
			verdict({ deny }, { dns: ['new.internal', 'OLD.internal.'] }),
			`${CERTIFICATE}denied by dns:old.internal`,
		);
		assert.equal(verdict({ deny }, { dns: ['new.internal'] }), undefined);
		assert.equal(verdict({ deny }, {}), undefined);
	});

	it('is refused with names that cannot be read, of the kinds that a rule asks for', () => {
		const twisted = { dns: ['old.internal\0'], ...PAY };
		assert.equal(verdict({ deny: ['dns:old.internal'] }, twisted), `${CERTIFICATE}malformed name in the certificate`);
		assert.equal(verdict({ allow: ['spiffe://example.org/ns/pay/*'] }, twisted), undefined);
		assert.equal(verdict({ deny: ['cn:x'] }, undefined), `${CERTIFICATE}names in the certificate cannot be read`);
	});

	it('is refused on a connection that is gone', () => {
		const { access } = route({ deny: ['cn:x'] });
		assert.equal(access.refuse({ caller: undefined }, token())?.reason, 'no certificate');
	});

	it('is computed once for a connection and a routing table', () => {
		const one = connection(PAY);
		const before = route({ allow: ['spiffe://example.org/ns/pay/*'] });
		for (let i = 0; i < 3; i++) assert.equal(before.access.refuse(one, token()), undefined);
		const after = route({ deny: ['spiffe://example.org/ns/pay/card'] });
		const refusals = [1, 2, 3].map(() => after.access.refuse(one, token()));
		assert.equal(refusals[0]?.reason, 'denied by spiffe://example.org/ns/pay/card');
		assert.equal(new Set(refusals).size, 1);
		// The names are read once for the connection, whatever tables come.
		assert.deepEqual([before.reads.count, after.reads.count], [1, 0]);
	});

	it('is decided for tenants by their exact names', () => {
		const tenants = ['acme', 'eu/acme'];
		for (const tenant of tenants) assert.equal(verdict({ tenants }, {}, token(tenant)), undefined);
		for (const tenant of ['Acme', 'acm', 'us/acme', 'acme2', '__proto__']) {
			assert.equal(verdict({ tenants }, {}, token(tenant)), '403 forbidden: tenant-forbidden, tenant', tenant);
		}
	});

	it('is decided for tokens by all the required scopes', () => {
		const scopes = ['billing:read', 'billing:write'];
		for (const payload of [{ scope: 'x billing:write billing:read' }, { scp: ['billing:read', 'billing:write'] }]) {
			assert.equal(verdict({ scopes }, {}, token('t', payload)), undefined);
		}
		const refused = '403 insufficient scope: insufficient-scope, scope';
		for (const payload of [
			{},
			{ scope: 'billing:read' },
			{ scope: 'billing' },
			{ scope: 'BILLING:READ billing:write' },
		]) {
			assert.equal(verdict({ scopes }, {}, token('t', payload)), refused, JSON.stringify(payload));
		}
	});

	it('is challenged for the scopes (RFC 6750 section 3.1)', () => {
		const { access } = route({ scopes: ['billing:read', 'billing:write'] });
		assert.deepEqual(access.refuse(connection({}), token())?.headers, [
			'www-authenticate',
			'Bearer error="insufficient_scope", scope="billing:read billing:write"',
		]);
	});

	it('is asked for the certificate first, then for the tenant, then for the scopes', () => {
		const seed = { deny: ['cn:bad'], tenants: ['a'], scopes: ['s'] };
		const codes = [
			[{ commonNames: ['bad'] }, token()],
			[{}, token()],
			[{}, token('a')],
			[{}, token('a', { scope: 's' })],
		] as const;
		assert.deepEqual(
			codes.map(([names, identity]) => route(seed).access.refuse(connection(names), identity)?.code),
			['certificate-forbidden', 'tenant-forbidden', 'insufficient-scope', undefined],
		);
	});

	it('ignores the certificate if no rule is about it', () => {
		const untouched = {
			get caller(): never {
				throw new Error('asked for');
			},
		};
		assert.equal(
			route({ tenants: ['a'], scopes: ['s'] }).access.refuse(untouched, token('a', { scope: 's' })),
			undefined,
		);
	});
});
