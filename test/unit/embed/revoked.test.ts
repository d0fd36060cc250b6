/** Who an embedded gate refuses although all else is good, and what it tells those that it lets through. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { before, describe, it } from 'node:test';
import type { RevokedOptions, Verdict } from '../../../packages/gate/src/embed/gate.ts';
import { FakeClock } from '../../conformance/subject.ts';
import { testPki } from '../../fixtures/pki.ts';
import { bearer, newGate } from './new-gate.ts';

let ours: X509Certificate;
let others: X509Certificate;
let ca: X509Certificate;

before(async () => {
	const pki = await testPki();
	ours = new X509Certificate(pki.clients.valid.certPem);
	others = new X509Certificate(pki.clients.fourIntermediates.certPem);
	ca = new X509Certificate(pki.ca.certPem);
});

const outcome = (verdict: Verdict) => (verdict.ok ? 'ok' : `${verdict.refusal.status} ${verdict.refusal.reason}`);

describe('what is revoked', () => {
	it('is refused: a token by its jti, a tenant, a certificate by its thumbprint or by its serial number', () => {
		const certificate = (one: X509Certificate) => ({ certificate: one });
		const { fingerprint256, issuer, serialNumber } = ours;
		const cases: [RevokedOptions, string][] = [
			[{ tokens: ['seven'] }, '401 revoked jti'],
			[{ tenants: ['tenant'] }, '401 revoked tenant'],
			[{ certificates: [fingerprint256] }, '401 revoked certificate'],
			[{ certificates: [`sha256:${fingerprint256.replaceAll(':', '').toLowerCase()}`] }, '401 revoked certificate'],
			[
				{ serials: [{ issuer: issuer.replaceAll('\n', ', '), serial: `00${serialNumber}` }] },
				'401 revoked certificate',
			],
		];
		for (const [revoked, expected] of cases) {
			const gate = newGate({ revoked: { ...revoked, leafOnly: true } });
			assert.equal(outcome(gate.check(bearer({ jti: 'seven' }), certificate(ours))), expected);
			const another = bearer({ sub: 'another', jti: 'eight' });
			assert.equal(outcome(gate.check(another, certificate(others))), 'ok', JSON.stringify(revoked));
		}
	});

	it('is exchanged at run time, also for tokens and certificates that were judged before', () => {
		const gate = newGate();
		const token = bearer({ jti: 'seven' });
		const caller = { certificate: () => ours };
		const lists: [RevokedOptions, string][] = [
			[{}, 'ok'],
			[{ tokens: ['seven'] }, '401 revoked jti'],
			[{ certificates: [ours.fingerprint256] }, '401 revoked certificate'],
			[{ certificates: [ca.fingerprint256], leafOnly: true }, 'ok'],
			[{ certificates: [ca.fingerprint256] }, "401 chain of the client's certificate unknown; see revoked.leafOnly"],
			[{ tenants: ['tenant'] }, '401 revoked tenant'],
			[{}, 'ok'],
		];
		for (const [list, expected] of lists) {
			gate.setRevoked(list);
			for (let i = 0; i < 2; i++) assert.equal(outcome(gate.check(token, caller)), expected);
		}
	});

	it('changes nothing when the new list is wrong', () => {
		const gate = newGate({ revoked: { tokens: ['seven'] } });
		assert.throws(() => gate.setRevoked({ tenants: [''] }), { code: 'ERR_GATE_REVOKED' });
		assert.equal(outcome(gate.check(bearer({ jti: 'seven' }))), '401 revoked jti');
	});

	it('refuses a program that never says whose connection it is, and a connection without a certificate', () => {
		const [issuer, serial] = ['CN=x', '1'];
		for (const list of [{ certificates: [ca.fingerprint256] }, { serials: [{ issuer, serial }] }]) {
			for (const leafOnly of [false, true]) {
				const gate = newGate({ revoked: { ...list, leafOnly } });
				for (const caller of [{}, { certificate: undefined }, { certificate: () => undefined }]) {
					assert.equal(outcome(gate.check(bearer(), caller)), '401 no client certificate to check for revocation');
				}
				const broken = { certificate: () => Buffer.from('none') };
				assert.match(outcome(gate.check(bearer(), broken)), /^401 could not be checked/);
			}
		}
	});
});

describe('rateLimitHeaders', () => {
	const POLICY = '"tenant";q=5;w=1, "concurrency";q=3;qu="concurrent-requests"';
	const tenants = [{ name: 'tenant', rps: 5, concurrency: 3 }];
	const limited = () => newGate({ tenants, rateLimitHeaders: true, clock: new FakeClock() });
	const token = () => bearer({ exp: 1_800_000_600 });

	it('says on each verdict what is left of the limits of its tenant, and nothing of those without any', () => {
		const gate = limited();
		const verdict = gate.check(token());
		assert.ok(verdict.ok);
		assert.deepEqual(verdict.headers, {
			'ratelimit-policy': POLICY,
			ratelimit: '"tenant";r=4;t=1, "concurrency";r=2',
		});
		const unlimited = gate.check(bearer({ sub: 'another', exp: 1_800_000_600 }));
		assert.ok(unlimited.ok);
		assert.equal(unlimited.headers, undefined);
		const scopes = gate.check(token(), { scopes: ['none'] });
		assert.ok(!scopes.ok);
		assert.equal(scopes.refusal.headers.ratelimit, '"tenant";r=3;t=1');
		assert.match(scopes.refusal.headers['www-authenticate']!, /insufficient_scope/);
	});

	it('is off by default', () => {
		const verdict = newGate({ tenants }).check(bearer());
		assert.ok(verdict.ok);
		assert.equal(verdict.headers, undefined);
	});
});
