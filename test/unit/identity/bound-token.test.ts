import assert from 'node:assert/strict';
import { createHash, createPublicKey } from 'node:crypto';
import { describe, it } from 'node:test';
import { Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import {
	type CertificateBound,
	confirmationOf,
	refuseOtherHolder,
} from '../../../packages/gate/src/identity/bound-token.ts';
import { issuerWithKey } from '../../../packages/gate/src/identity/issuer.ts';
import { Trust } from '../../../packages/gate/src/identity/trust.ts';
import { createTokenKey, mintToken, type TokenClaims } from '../../../packages/proxy/src/cli/demo/tokens.ts';

const NOW = 1_800_000_000;
const thumbprint = createHash('sha256').update('a certificate').digest();
const x5t = thumbprint.toString('base64url');
const bound = { cnf: { 'x5t#S256': x5t } };

const reasonOf = (verdict: unknown) => (verdict instanceof Rejection ? verdict.reason : verdict);

describe('a token bound to a certificate (RFC 8705)', () => {
	it('yields the thumbprint of its certificate if the rule checks it', () => {
		for (const rule of ['if-present', 'required'] as const) {
			assert.deepEqual(confirmationOf(bound, rule), thumbprint);
		}
		assert.equal(confirmationOf(bound, 'ignore'), undefined);
	});

	it('is optional unless it is required', () => {
		assert.equal(confirmationOf({}, 'if-present'), undefined);
		assert.equal(confirmationOf({}, 'ignore'), undefined);
		assert.equal(reasonOf(confirmationOf({}, 'required')), 'not bound to a certificate');
	});

	it('is refused if it is bound to anything else, or to more', () => {
		const others: [reason: string, cnf: unknown][] = [
			['cnf of another kind', { jkt: x5t }],
			['cnf of another kind', { 'x5t#S256': x5t, jkt: x5t }],
			['cnf of another kind', { jwk: { kty: 'RSA' } }],
			['cnf of another kind', { kid: '1' }],
			['cnf of another kind', {}],
			['bad cnf', null],
			['bad cnf', x5t],
			['bad cnf', [x5t]],
			['bad cnf', true],
			['bad cnf', { 'x5t#S256': 7 }],
			['bad cnf', { 'x5t#S256': '' }],
			['bad cnf', { 'x5t#S256': `${x5t}=` }],
			['bad cnf', { 'x5t#S256': thumbprint.toString('hex') }],
			// The last character carries two bits that say nothing; one spelling has them zero.
			['bad cnf', { 'x5t#S256': `${x5t.slice(0, -1)}${x5t.endsWith('9') ? '8' : '9'}` }],
			['bad cnf', { 'x5t#S256': `+${x5t.slice(1)}` }],
		];
		for (const [reason, cnf] of others) {
			for (const rule of ['if-present', 'required'] as const) {
				assert.equal(reasonOf(confirmationOf({ cnf }, rule)), reason, JSON.stringify(cnf));
			}
			assert.equal(confirmationOf({ cnf }, 'ignore'), undefined);
		}
	});

	it('passes only on connections of its certificate', () => {
		assert.equal(refuseOtherHolder(thumbprint, Buffer.from(thumbprint)), undefined);
		const other = Buffer.from(thumbprint);
		other[31]! ^= 1;
		assert.equal(refuseOtherHolder(thumbprint, other)?.reason, 'bound to another certificate');
		assert.equal(refuseOtherHolder(thumbprint, undefined)?.reason, 'bound to another certificate');
	});

	const key = createTokenKey();
	const issuer = issuerWithKey(createPublicKey(key.publicKeyPem), { issuer: undefined, audience: undefined });
	const trust = (certificateBound: CertificateBound) => new Trust({ issuers: [{ ...issuer, certificateBound }] });
	const token = (claims: TokenClaims) => mintToken(key, { sub: 'tenant', exp: NOW + 60, ...claims });

	it('is verified like any other, by the rule of its issuer', () => {
		const verified = trust('if-present').verify(token(bound), NOW);
		assert.ok(!(verified instanceof Rejection));
		assert.deepEqual(verified.confirmation, thumbprint);
		assert.equal(reasonOf(trust('required').verify(token({}), NOW)), 'not bound to a certificate');
		assert.equal(reasonOf(trust('if-present').verify(token({ cnf: { jkt: 'x' } }), NOW)), 'cnf of another kind');
		const ignored = trust('ignore').verify(token({ cnf: { jkt: 'x' } }), NOW);
		assert.ok(!(ignored instanceof Rejection) && ignored.confirmation === undefined);
	});

	it('keeps its verdict across a reload only if the rule is unchanged', () => {
		const rules = ['if-present', 'required', 'ignore'] as const;
		const holds = (claims: TokenClaims, before: CertificateBound) => {
			const verified = trust(before).verify(token(claims), NOW);
			assert.ok(!(verified instanceof Rejection));
			return rules.filter((rule) => trust(rule).stillVerifies(verified));
		};
		for (const before of rules) {
			if (before !== 'required') assert.deepEqual(holds({}, before), [before]);
			assert.deepEqual(holds(bound, before), [before]);
		}
	});
});
