/** Who an embedded gate refuses although all else is good, and what it tells those that it lets through. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { before, describe, it } from 'node:test';
import express from 'express';
import Fastify from 'fastify';
import { Hono } from 'hono';
import { guard as fastifyGuard } from '../../../packages/gate/src/embed/fastify.ts';
import { guard as fetchGuard } from '../../../packages/gate/src/embed/fetch.ts';
import {
	type CommonOptions,
	createGate,
	type Gate,
	type RefreshingGate,
	type RevokedOptions,
	type Verdict,
} from '../../../packages/gate/src/embed/gate.ts';
import { guard as honoGuard } from '../../../packages/gate/src/embed/hono.ts';
import { guard as nodeGuard } from '../../../packages/gate/src/embed/node.ts';
import {
	createTokenKey,
	mintToken,
	type TokenClaims,
	type TokenKey,
} from '../../../packages/proxy/src/cli/demo/tokens.ts';
import { FakeClock } from '../../conformance/subject.ts';
import { testPki } from '../../fixtures/pki.ts';

let key: TokenKey;
let ours: X509Certificate;
let others: X509Certificate;
let ca: X509Certificate;

before(async () => {
	key = createTokenKey();
	const pki = await testPki();
	ours = new X509Certificate(pki.clients.valid.certPem);
	others = new X509Certificate(pki.clients.fourIntermediates.certPem);
	ca = new X509Certificate(pki.ca.certPem);
});

function gateWith(options: Partial<CommonOptions> = {}): RefreshingGate {
	return createGate({ jwtPublicKey: key.publicKeyPem, issuer: null, audience: null, tenantRps: 0, ...options });
}

function bearer(claims: TokenClaims = {}): string {
	return `Bearer ${mintToken(key, { sub: 'tenant', exp: Date.now() / 1000 + 600, ...claims })}`;
}

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
			const gate = gateWith({ revoked: { ...revoked, leafOnly: true } });
			assert.equal(outcome(gate.check(bearer({ jti: 'seven' }), certificate(ours))), expected);
			const another = bearer({ sub: 'another', jti: 'eight' });
			assert.equal(outcome(gate.check(another, certificate(others))), 'ok', JSON.stringify(revoked));
		}
	});

	it('is exchanged at run time, also for tokens and certificates that were judged before', () => {
		const gate = gateWith();
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
		const gate = gateWith({ revoked: { tokens: ['seven'] } });
		assert.throws(() => gate.setRevoked({ tenants: [''] }), { code: 'ERR_GATE_REVOKED' });
		assert.equal(outcome(gate.check(bearer({ jti: 'seven' }))), '401 revoked jti');
	});

	it('refuses a program that never says whose connection it is, and a connection without a certificate', () => {
		const [issuer, serial] = ['CN=x', '1'];
		for (const list of [{ certificates: [ca.fingerprint256] }, { serials: [{ issuer, serial }] }]) {
			for (const leafOnly of [false, true]) {
				const gate = gateWith({ revoked: { ...list, leafOnly } });
				for (const caller of [{}, { certificate: undefined }, { certificate: () => undefined }]) {
					assert.equal(outcome(gate.check(bearer(), caller)), '401 no client certificate to check for revocation');
				}
				const broken = { certificate: () => Buffer.from('none') };
				assert.match(outcome(gate.check(bearer(), broken)), /^401 could not be checked/);
			}
		}
	});

	it('is refused if it is malformed', () => {
		const wrong: [unknown, RegExp][] = [
			[{ certificate: [] }, /^revoked.certificate is unknown; did you mean certificates\?$/],
			[{ certificates: ['ab'] }, /^revoked.certificates\[0\] must be the SHA-256 of a certificate/],
			[{ serials: [{ issuer: 'x', serial: '1' }] }, /^revoked.serials\[0\].issuer must be a name/],
			[{ serials: [{ issuer: 'CN=q"uo\\te', serial: '1' }] }, /^revoked.serials\[0\].issuer must be a name/],
			[{ serials: [{ issuer: 'CN=x', serial: 'z' }] }, /^revoked.serials\[0\].serial must be a serial number/],
			[{ serials: [{ issuer: 'CN=x', number: '1' }] }, /^revoked.serials\[0\].number is unknown/],
			[{ tokens: 'seven' }, /^revoked.tokens must be a list$/],
			[{ tenants: [7] }, /^revoked.tenants\[0\] must be the name of a tenant$/],
			[{ leafOnly: 'false' }, /^revoked.leafOnly must be true or false$/],
			[{ leafOnly: null }, /^revoked.leafOnly must be true or false$/],
			[{ leafonly: true }, /^revoked.leafonly is unknown; did you mean leafOnly\?$/],
			[null, /^revoked must be an object/],
		];
		for (const [revoked, message] of wrong) {
			assert.throws(() => gateWith({ revoked: revoked as RevokedOptions }), { code: 'ERR_GATE_REVOKED', message });
		}
	});
});

describe('rateLimitHeaders', () => {
	const POLICY = '"tenant";q=5;w=1, "concurrency";q=3;qu="concurrent-requests"';
	const tenants = [{ name: 'tenant', rps: 5, concurrency: 3 }];
	const newGate = () => gateWith({ tenants, rateLimitHeaders: true, clock: new FakeClock() });
	const token = () => bearer({ exp: 1_800_000_600 });

	it('says on each verdict what is left of the limits of its tenant, and nothing of those without any', () => {
		const gate = newGate();
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
		const verdict = gateWith({ tenants }).check(bearer());
		assert.ok(verdict.ok);
		assert.equal(verdict.headers, undefined);
	});

	const asked: Record<string, (gate: Gate, authorization: string) => Promise<Response>> = {
		'node:http and Express': async (gate, authorization) => {
			const app = express().use(nodeGuard(gate));
			app.get('/', (_req, res) => void res.send('ok'));
			const server = app.listen(0, '127.0.0.1');
			await new Promise((resolve) => server.once('listening', resolve));
			const { port } = server.address() as { port: number };
			const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { authorization } });
			server.close();
			return response;
		},
		Fastify: async (gate, authorization) => {
			const app = Fastify();
			await app.register(fastifyGuard, { gate });
			app.get('/', () => 'ok');
			const { statusCode, headers, body } = await app.inject({ url: '/', headers: { authorization } });
			return new Response(body, { status: statusCode, headers: headers as Record<string, string> });
		},
		Hono: async (gate, authorization) => {
			const app = new Hono().use(honoGuard(gate));
			app.get('/', () => Response.redirect('https://localhost/other'));
			return await app.request('/', { headers: { authorization } });
		},
		fetch: async (gate, authorization) => {
			const handler = fetchGuard(gate, () => Response.redirect('https://localhost/other'));
			return await handler(new Request('http://localhost/', { headers: { authorization } }));
		},
	};
	for (const [name, ask] of Object.entries(asked)) {
		it(`is put on the answer by ${name}, also if its headers cannot be changed`, async () => {
			const { headers, status } = await ask(newGate(), token());
			assert.ok(status === 200 || (status === 302 && headers.get('location') === 'https://localhost/other'));
			assert.equal(headers.get('ratelimit-policy'), POLICY);
			assert.equal(headers.get('ratelimit'), '"tenant";r=4;t=1, "concurrency";r=2');
		});
	}
});

describe('unknown options', () => {
	const issuer = { issuer: 'https://a.test', audience: null, publicKey: '' };
	const wrong: [string, object, RegExp][] = [
		['ERR_GATE_OPTIONS', { rateLimitHeader: true }, /^rateLimitHeader is unknown; did you mean rateLimitHeaders\?$/],
		[
			'ERR_GATE_TENANTS',
			{ tenants: [{ name: 'a', rps: 1, concurency: 2 }] },
			/^tenants\[0\].concurency is unknown; did you mean concurrency\?$/,
		],
		[
			'ERR_GATE_TENANTS',
			{ tenants: [{ name: 'a', concurrency: 0 }] },
			/^tenants\[0\].concurrency must be a whole number/,
		],
		['ERR_GATE_TENANTS', { tenants: [{ name: 'a', burst: 2 }] }, /^tenants\[0\].burst needs rps, too$/],
	];
	for (const [code, options, message] of wrong) {
		it(`${message}`, () => assert.throws(() => gateWith(options as never), { code, message }));
	}
	const wrongIssuers: [object, RegExp][] = [
		[{ refresh_secs: 3 }, /^issuers\[0\].refresh_secs is unknown; write refreshMs, in milliseconds$/],
		[{ leewaySecs: 3 }, /^issuers\[0\].leewaySecs is unknown; write leewayMs, in milliseconds$/],
		[{ tennant: 3 }, /^issuers\[0\].tennant is unknown; there are issuer, audience, /],
		[{ refreshMs: 3 }, /^issuers\[0\].refreshMs is only for jwksUrl and discovery; leave it out$/],
		[{ maxStaleMs: 3 }, /^issuers\[0\].maxStaleMs is only for jwksUrl and discovery/],
		[{ fetch }, /^issuers\[0\].fetch is only for jwksUrl and discovery/],
		[{ maxRps: 3 }, /^issuers\[0\].maxRps is the upper bound of rateClaim, which is not set; set rateClaim/],
	];
	for (const [options, message] of wrongIssuers) {
		it(`${message}`, () => {
			const issuers = [{ ...issuer, publicKey: key.publicKeyPem, ...options }];
			assert.throws(() => createGate({ issuers, tenantRps: 0 } as never), { code: 'ERR_GATE_ISSUERS', message });
		});
	}
	it('an issuer that is not an object', () => {
		assert.throws(() => createGate({ issuers: [null], tenantRps: 0 } as never), { code: 'ERR_GATE_ISSUERS' });
	});
});
