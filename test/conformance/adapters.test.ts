import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { describe, test } from 'node:test';
import { mintToken } from '../../packages/proxy/src/cli/demo/tokens.ts';
import { connect, request } from '../fixtures/clients.ts';
import { AUDIENCE, ISSUER, testPki } from '../fixtures/pki.ts';
import { until } from '../fixtures/wait.ts';
import { adapters } from './adapters.ts';
import { FakeClock } from './subject.ts';
import { addTests } from './suite.ts';

for (const adapter of adapters) {
	addTests(adapter);

	describe(adapter.name, () => {
		test('leaves /health outside the gate, as it was told', async () => {
			const { tokenKey } = await testPki();
			const settings = { publicKeyPem: tokenKey.publicKeyPem, issuer: ISSUER, audience: AUDIENCE };
			await using gate = await adapter.start({ ...settings, tenantRps: 1, clock: new FakeClock() });
			for (const protocol of adapter.protocols) {
				const answer = await request(protocol, gate, { path: '/health', token: null });
				assert.equal(answer.status, 200);
				assert.equal(answer.text, 'ok');
			}
		});

		test('refuses a certificate that is revoked, or whose CA is, and tells the others what is left of their limits', async () => {
			const { ca, tokenKey, clients, issueClient } = await testPki();
			const leaf = await issueClient();
			const thumbprint = (pem: string) => new X509Certificate(pem).fingerprint256;
			const [, intermediate] = clients.fourIntermediates.certPem.match(/-----BEGIN[\s\S]*?-----END CERTIFICATE-----/g)!;
			const settings = {
				publicKeyPem: tokenKey.publicKeyPem,
				issuer: ISSUER,
				audience: AUDIENCE,
				tenantRps: 1000,
				clock: new FakeClock(),
				tenants: [{ name: 'tenant', rps: 1000, concurrency: 1 }],
				rateLimitHeaders: true,
				revoked: { certificates: [thumbprint(leaf.certPem), thumbprint(intermediate!)] },
			};
			await using gate = await adapter.start(settings);
			const rootRevoked = { ...settings, revoked: { certificates: [thumbprint(ca.certPem)] } };
			await using belowRevoked = await adapter.start(rootRevoked);
			const exp = settings.clock.wall + 600;
			const token = mintToken(tokenKey, { iss: ISSUER, aud: AUDIENCE, sub: 'tenant', exp });
			for (const protocol of adapter.protocols) {
				for (const cert of [leaf, clients.fourIntermediates]) {
					await using connection = await connect(protocol, gate, { cert });
					for (let i = 0; i < 2; i++) {
						assert.equal((await connection.request({ path: '/whoami', token })).status, 401, protocol);
					}
				}
				assert.equal((await request(protocol, belowRevoked, { path: '/whoami', token })).status, 401, protocol);
				await using connection = await connect(protocol, gate);
				// One after the other: each has given its slot back before its client has seen the end, or soon after.
				for (let i = 0; i < 20; i++) {
					const { status, headers } = await until(async () => {
						const answer = await connection.request({ path: '/whoami', token });
						return answer.status === 429 ? undefined : answer;
					}, 'a slot');
					assert.equal(status, 200);
					assert.match(String(headers.ratelimit), /^"tenant";r=\d+;t=1, "concurrency";r=0$/);
				}
			}
		});
	});
}
