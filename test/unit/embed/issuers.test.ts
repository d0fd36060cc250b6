import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { exportJWK, SignJWT } from 'jose';
import {
	createGate,
	type Fetch,
	type GateEvent,
	type IssuerOptions,
	type Verdict,
} from '../../../packages/gate/src/embed/gate.ts';

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const ed25519 = generateKeyPairSync('ed25519');

interface Token {
	readonly key: KeyObject;
	readonly alg: string;
	readonly iss: string;
	readonly kid?: string;
	readonly claims?: Record<string, unknown>;
}

async function bearer({ key, alg, iss, kid, claims = {} }: Token): Promise<string> {
	const token = new SignJWT({ sub: 'tenant', aud: 'edge', ...claims }).setIssuer(iss).setExpirationTime('1h');
	return `Bearer ${await token.setProtectedHeader({ alg, ...(kid !== undefined && { kid }) }).sign(key)}`;
}

const acme = {
	issuer: 'https://acme.test',
	audience: 'edge',
	publicKey: rsa.publicKey,
	tenantPrefix: 'acme:',
} as const;
const zeta = {
	issuer: 'https://zeta.test',
	audience: ['edge', 'other'],
	algorithms: ['ES256', 'EdDSA'],
	jwks: {
		keys: [
			{ ...(await exportJWK(p256.publicKey)), kid: 'a' },
			{ ...(await exportJWK(ed25519.publicKey)), kid: 'b' },
		],
	},
	tenantPrefix: 'zeta:',
	tenantClaim: ['org', 'id'],
	requiredClaims: { env: ['prod', 'test'] },
} as const satisfies IssuerOptions;

const outcome = (verdict: Verdict) => (verdict.ok ? verdict.tenant : verdict.refusal.reason);

describe('a gate with several issuers', () => {
	const gate = createGate({ issuers: [acme, zeta], tenantRps: 1 });
	const good = { iss: zeta.issuer, key: p256.privateKey, alg: 'ES256', kid: 'a' } as const;
	const org = { org: { id: 'seven' }, env: 'prod' };

	it('verifies each with its own keys and algorithms, and keeps their tenants apart', async () => {
		assert.equal(
			outcome(gate.check(await bearer({ iss: acme.issuer, key: rsa.privateKey, alg: 'RS256' }))),
			'acme:tenant',
		);
		assert.equal(outcome(gate.check(await bearer({ ...good, claims: org }))), 'zeta:seven');
		const ed = { iss: zeta.issuer, key: ed25519.privateKey, alg: 'EdDSA', kid: 'b' };
		// One tenant, one bucket, whatever the key: the second request within the second is over its limit.
		assert.equal(outcome(gate.check(await bearer({ ...ed, claims: org }))), "over the tenant's rps");
		assert.equal(outcome(gate.check(await bearer({ ...ed, claims: { ...org, org: { id: 'eight' } } }))), 'zeta:eight');
	});

	it('refuses tokens of other issuers, and those that lack a claim', async () => {
		const cases: [reason: string, token: Token][] = [
			['iss', { iss: 'https://nobody.test', key: rsa.privateKey, alg: 'RS256' }],
			['alg', { iss: zeta.issuer, key: rsa.privateKey, alg: 'RS256' }],
			['alg', { iss: acme.issuer, key: rsa.privateKey, alg: 'PS256' }],
			['unknown kid', { ...good, kid: 'c', claims: org }],
			['no tenant claim', { ...good, claims: { env: 'prod' } }],
			['required claim "env" has another value', { ...good, claims: { ...org, env: 'dev' } }],
		];
		for (const [reason, token] of cases) assert.equal(outcome(gate.check(await bearer(token))), reason);
	});
});

describe('a gate whose issuer publishes its keys', () => {
	it('is ready with the first set, applies the next one, and drops cached tokens of removed keys', async () => {
		const next = generateKeyPairSync('rsa', { modulusLength: 2048 });
		let keys = [{ ...(await exportJWK(rsa.publicKey)), kid: 'one' }];
		const { promise: judged, resolve: answer } = Promise.withResolvers<void>();
		const server = createServer(async (_req, res) => {
			await judged;
			res.setHeader('connection', 'close').end(JSON.stringify({ keys }));
		});
		await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
		const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`;
		const events: GateEvent[] = [];
		let onEvent: (event: GateEvent) => void = () => {};
		const issuer = { issuer: acme.issuer, audience: 'edge', jwksUrl: url, refreshMs: 20 };
		const gate = createGate({
			issuers: [issuer],
			tenantRps: 0,
			onEvent: (event) => {
				events.push(event);
				onEvent(event);
			},
		});
		try {
			const old = await bearer({ iss: acme.issuer, key: rsa.privateKey, alg: 'RS256', kid: 'one' });
			assert.equal(outcome(gate.check(old)), 'no keys of the issuer yet');
			answer();
			await gate.ready;
			assert.equal(outcome(gate.check(old)), 'tenant');
			const changed = new Promise<void>((resolve) => {
				onEvent = ({ message }) => /fetched, changed/.test(message) && resolve();
			});
			keys = [{ ...(await exportJWK(next.publicKey)), kid: 'two' }];
			await changed;
			await new Promise((resolve) => setImmediate(resolve));
			assert.equal(outcome(gate.check(old)), 'unknown kid');
			const fresh = await bearer({ iss: acme.issuer, key: next.privateKey, alg: 'RS256', kid: 'two' });
			assert.equal(outcome(gate.check(fresh)), 'tenant');
		} finally {
			gate.close();
			server.close();
		}
		const told = events.length;
		assert.ok(
			events.every(({ level }) => level === 'info' || level === 'debug'),
			JSON.stringify(events),
		);
		await new Promise<void>((resolve) => server.once('close', resolve));
		assert.equal(events.length, told, 'nothing is fetched after close');
	});

	it('is asked by the fetch of its options, and a failure of that is an event', async () => {
		const jwksUrl = 'https://nowhere.test/jwks.json';
		const issuer = { issuer: acme.issuer, audience: 'edge', jwksUrl };
		const key = { ...(await exportJWK(rsa.publicKey)), kid: 'one' };
		const good = createGate({ issuers: [{ ...issuer, fetch: async () => Response.json({ keys: [key] }) }] });
		await good.ready;
		good.close();
		const token = await bearer({ iss: acme.issuer, key: rsa.privateKey, alg: 'RS256', kid: 'one' });
		assert.equal(outcome(good.check(token)), 'tenant');

		const failures = [() => assert.fail('at once'), () => Promise.reject(new Error('later')), async () => undefined];
		for (const fail of failures) {
			const { promise: event, resolve: onEvent } = Promise.withResolvers<GateEvent>();
			const gate = createGate({ issuers: [{ ...issuer, fetch: fail as unknown as Fetch }], onEvent });
			assert.equal((await event).level, 'warn');
			assert.equal(outcome(gate.check(token)), 'no keys of the issuer yet');
			gate.close();
		}
	});
});
