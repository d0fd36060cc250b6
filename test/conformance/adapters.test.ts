import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { request } from '../fixtures/clients.ts';
import { AUDIENCE, ISSUER, testPki } from '../fixtures/pki.ts';
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
	});
}
