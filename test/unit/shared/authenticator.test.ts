import assert from 'node:assert/strict';
import { createPublicKey } from 'node:crypto';
import { describe, it } from 'node:test';
import { Rejection, TOKEN_INVALID, TOKEN_MISSING } from '../../../packages/gate/src/gates/rejection.ts';
import { issuerWithKey } from '../../../packages/gate/src/identity/issuer.ts';
import { Quotas } from '../../../packages/gate/src/identity/quotas.ts';
import { NOTHING_REVOKED, RevokedTokens } from '../../../packages/gate/src/identity/revocations.ts';
import { Trust } from '../../../packages/gate/src/identity/trust.ts';
import { TenantLimiter } from '../../../packages/gate/src/memory/limiter.ts';
import { Authenticator } from '../../../packages/gate/src/shared/authenticator.ts';
import { createTokenKey, mintToken, type TokenClaims } from '../../../packages/proxy/src/cli/demo/tokens.ts';
import { assertRefusal } from '../../fixtures/refusal.ts';

const NOW = 1_800_000_000;
const key = createTokenKey();
const trustIn = (pem: string) =>
	new Trust({ issuers: [issuerWithKey(createPublicKey(pem), { issuer: undefined, audience: undefined })] });
const trust = trustIn(key.publicKeyPem);

const bearer = (claims: TokenClaims) => `Bearer ${mintToken(key, { sub: 'tenant-a', exp: NOW + 3600, ...claims })}`;

function accepted(authenticator: Authenticator, authorization: string, now = NOW) {
	const principal = authenticator.authenticate(authorization, now);
	assert.ok(!(principal instanceof Rejection));
	return principal;
}

/** Of the tenant `a`. */
function quotasOf(rps: number): Quotas {
	const seed = { tenants: [{ name: 'a', rate: { rps, burst: rps }, concurrency: undefined }] };
	return new Quotas(seed, 0, () => {
		throw new Error('nobody has slots');
	});
}

describe('the authenticator', () => {
	it('distinguishes a missing header from an invalid one', () => {
		const authenticator = new Authenticator(trust, undefined);
		assert.equal(authenticator.authenticate(undefined, NOW), TOKEN_MISSING);
		for (const invalid of [null, '', 'Bearer', 'Bearer x', 'Basic x']) {
			assertRefusal(authenticator.authenticate(invalid, NOW), TOKEN_INVALID);
		}
	});

	it('has the tenant header ready, and the key of the tenant', () => {
		const limiter = new TenantLimiter(TenantLimiter.allocate(new Uint8Array(32), 8), 0);
		const principal = accepted(new Authenticator(trust, limiter), bearer({ sub: 'tenant a', scope: 'read' }));
		assert.equal(principal.tenantHeader, 'x-proxy-tenant: tenant a\r\n');
		assert.equal(principal.tenantKey, limiter.keyOf('tenant a'));
		assert.deepEqual([principal.claims.sub, principal.claims.scope], ['tenant a', 'read']);
	});

	it('remembers the verdict on a token, and only on exactly that one', () => {
		const authenticator = new Authenticator(trust, undefined);
		const header = bearer({});
		const first = accepted(authenticator, header);
		assert.equal(accepted(authenticator, header), first);
		assert.equal(accepted(authenticator, header.replace('Bearer', 'bearer')), first);
		assertRefusal(authenticator.authenticate(`${header}x`, NOW), TOKEN_INVALID);
		assertRefusal(authenticator.authenticate(header.slice(0, -1), NOW), TOKEN_INVALID);
		assert.notEqual(accepted(authenticator, bearer({ jti: '2' })), first);
	});

	it('refuses manually revoked tokens, cached or not, until the revocation is lifted', () => {
		const authenticator = new Authenticator(trust, undefined);
		const [stolen, gone, other] = [bearer({ jti: 'stolen' }), bearer({ sub: 'gone' }), bearer({ jti: 'other' })];
		const first = accepted(authenticator, other);
		accepted(authenticator, stolen);
		authenticator.refuseRevoked(new RevokedTokens({ ...NOTHING_REVOKED, tokens: ['stolen'], tenants: ['gone'] }));
		const reasons = [stolen, gone].map((header) => authenticator.authenticate(header, NOW));
		assert.deepEqual(
			reasons.map((refusal) => refusal instanceof Rejection && refusal.is(TOKEN_INVALID) && refusal.reason),
			['revoked jti', 'revoked tenant'],
		);
		assert.equal(accepted(authenticator, other), first);
		authenticator.refuseRevoked(new RevokedTokens(NOTHING_REVOKED));
		for (const header of [stolen, gone]) accepted(authenticator, header);
	});

	it('refuses a revoked jti that is a number', () => {
		const authenticator = new Authenticator(trust, undefined);
		authenticator.refuseRevoked(new RevokedTokens({ ...NOTHING_REVOKED, tokens: ['4711', '12345678901234567890'] }));
		for (const jti of [4711, '4711', Number('12345678901234567890')]) {
			const header = bearer({ jti });
			assertRefusal(authenticator.authenticate(header, NOW), TOKEN_INVALID);
		}
		accepted(authenticator, bearer({ jti: 4712 }));
	});

	it('checks exp on a cache hit as on the first use: 59 s late passes, 61 s does not', () => {
		const authenticator = new Authenticator(trust, undefined);
		const header = bearer({ exp: NOW });
		const first = accepted(authenticator, header, NOW - 10);
		assert.equal(accepted(authenticator, header, NOW + 59), first);
		assertRefusal(authenticator.authenticate(header, NOW + 61), TOKEN_INVALID);
		accepted(new Authenticator(trust, undefined), header, NOW + 59);
		assertRefusal(new Authenticator(trust, undefined).authenticate(header, NOW + 61), TOKEN_INVALID);
	});

	it('refuses every token when the time is not finite: none would ever expire', () => {
		const authenticator = new Authenticator(trust, undefined);
		const [good, expired] = [bearer({}), bearer({ exp: NOW - 3600 })];
		for (const nothing of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
			for (const header of [good, expired]) {
				const verdict = authenticator.authenticate(header, nothing);
				assert.ok(verdict instanceof Rejection && verdict.is(TOKEN_INVALID));
				assert.match(verdict.reason!, /clock/);
			}
			accepted(authenticator, good);
		}
	});

	it('verifies a token again after five minutes', () => {
		const authenticator = new Authenticator(trust, undefined);
		const header = bearer({});
		const first = accepted(authenticator, header);
		assert.equal(accepted(authenticator, header, NOW + 299), first);
		assert.notEqual(accepted(authenticator, header, NOW + 300), first);
	});

	it('does not cache refusals', () => {
		const authenticator = new Authenticator(trust, undefined);
		const header = bearer({ nbf: NOW + 100 });
		assertRefusal(authenticator.authenticate(header, NOW), TOKEN_INVALID);
		accepted(authenticator, header, NOW + 100);
	});

	it('forgets cached tokens of a removed key at once', () => {
		const authenticator = new Authenticator(trust, undefined);
		const header = bearer({});
		const before = accepted(authenticator, header);
		authenticator.use(trustIn(key.publicKeyPem));
		assert.equal(accepted(authenticator, header), before, 'the same key, read anew');
		authenticator.use(trustIn(createTokenKey().publicKeyPem));
		assertRefusal(authenticator.authenticate(header, NOW), TOKEN_INVALID);
	});

	it('applies the current quotas to cached tokens without verifying them again', () => {
		const authenticator = new Authenticator(trust, undefined, quotasOf(5));
		const header = bearer({ sub: 'a' });
		const before = accepted(authenticator, header);
		assert.equal(before.quota.rate?.rps, 5);
		authenticator.use(trust, quotasOf(7));
		assert.equal(accepted(authenticator, header), before);
		assert.equal(before.quota.rate?.rps, 7);
	});

	it('keeps the newest verdicts, up to its capacity', () => {
		const authenticator = new Authenticator(trust, undefined, undefined, 3);
		const headers = [1, 2, 3, 4].map((jti) => bearer({ jti }));
		const principals = headers.map((header) => accepted(authenticator, header));
		for (const i of [1, 2, 3]) assert.equal(accepted(authenticator, headers[i]!), principals[i]);
		assert.notEqual(accepted(authenticator, headers[0]!), principals[0]);
	});
});
