/** The gate's promises, for each of its forms. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { describe, test } from 'node:test';
import type { Protocol } from '../fixtures/clients.ts';
import { AUDIENCE, testPki } from '../fixtures/pki.ts';
import { assertRateLimited, assertUnauthorized, assertUnauthorizedToHead, rawAnswer } from './answers.ts';
import { ask, type RunningGate, start } from './running-gate.ts';
import type { GateSettings, Subject } from './subject.ts';

/** The tests of a place's wiring, over each protocol. What the gate itself decides is the same code everywhere; unit tests prove it. */
export function addTests(subject: Subject): void {
	for (const protocol of subject.protocols) {
		const run = (settings?: Partial<GateSettings>) => start(subject, protocol, settings);
		describe(`${subject.name} over ${protocol}`, () => addWiringTests(run, protocol));
	}
}

type Run = (settings?: Partial<GateSettings>) => Promise<RunningGate>;

function addWiringTests(run: Run, protocol: Protocol): void {
	test('admits a valid token and passes on its claims', async () => {
		await using gate = await run();
		assert.deepEqual(await gate.whoami({ scope: 'read write' }), { sub: 'tenant', scope: 'read write' });
	});

	test('takes the scheme in any case and splits at the first space', async () => {
		await using gate = await run();
		const token = gate.mint();
		for (const scheme of ['Bearer', 'bearer', 'BEARER', 'bEaReR']) {
			assert.equal((await gate.ask(`${scheme} ${token}`)).status, 200, scheme);
		}
		const refused = [token, `Basic ${token}`, `Bearer: ${token}`, `Bearer  ${token}`, `Bearer\t${token}`, 'Bearer', ''];
		for (const value of refused) assertUnauthorized(await gate.ask(value), JSON.stringify(value.slice(0, 20)));
	});

	test('refuses a request without a token', async () => {
		await using gate = await run();
		assertUnauthorized(await gate.ask(undefined));
	});

	test('refuses two Authorization headers, also when each of them is good', async () => {
		await using gate = await run();
		const value = `Bearer ${gate.mint()}`;
		assert.equal((await gate.ask(value)).status, 200);
		assert.equal(await gate.askWithTwo(value, value), 'unauthorized');
		assert.equal(await gate.askWithTwo(value, 'Basic eA=='), 'unauthorized');
		assert.equal(await gate.askWithTwo('Basic eA==', value), 'unauthorized');
	});

	test('accepts a bound token only from the holder of its certificate (RFC 8705)', async () => {
		await using gate = await run();
		const { clients } = await testPki();
		const boundTo = ({ certPem }: { readonly certPem: string }) => {
			const sha256 = new X509Certificate(certPem).fingerprint256.replaceAll(':', '');
			return `Bearer ${gate.mint({ cnf: { 'x5t#S256': Buffer.from(sha256, 'hex').toString('base64url') } })}`;
		};
		const [ours, others] = [boundTo(clients.valid), boundTo(clients.fourIntermediates)];
		// The second time it is a remembered verdict that is compared.
		for (let i = 0; i < 2; i++) {
			assert.equal((await gate.ask(ours)).status, 200);
			assertUnauthorized(await gate.ask(others));
		}
		await using connection = await gate.open({ cert: clients.fourIntermediates });
		assert.equal((await ask(connection, others)).status, 200);
		assertUnauthorized(await ask(connection, ours));
		assertUnauthorized(await gate.ask(`Bearer ${gate.mint({ cnf: { jkt: 'a key of DPoP' } })}`));
	});

	test('admits a burst of tenantRps, then one request a period', async () => {
		await using gate = await run({ tenantRps: 5 });
		const value = `Bearer ${gate.mint()}`;
		const statuses = async (n: number) => {
			const seen: number[] = [];
			for (let i = 0; i < n; i++) seen.push((await gate.ask(value)).status);
			return seen;
		};
		assert.deepEqual(await statuses(7), [200, 200, 200, 200, 200, 429, 429]);
		gate.clock.ms += 199;
		assert.deepEqual(await statuses(1), [429]);
		gate.clock.ms += 1;
		assert.deepEqual(await statuses(2), [200, 429]);
		gate.clock.ms += 400;
		assert.deepEqual(await statuses(3), [200, 200, 429]);
		gate.clock.ms += 5000;
		assert.deepEqual(await statuses(6), [200, 200, 200, 200, 200, 429]);
	});

	test('counts exactly when requests come at the same time', async () => {
		await using gate = await run({ tenantRps: 20 });
		const value = `Bearer ${gate.mint()}`;
		const connections = await Promise.all(Array.from({ length: 5 }, () => gate.open()));
		const asked = connections.flatMap((connection) => Array.from({ length: 12 }, () => ask(connection, value)));
		const answers = await Promise.all(asked);
		await Promise.all(connections.map((connection) => connection.close()));
		const refused = answers.filter(({ status }) => status !== 200);
		assert.equal(answers.length - refused.length, 20);
		for (const answer of refused) assertRateLimited(answer);
	});

	test('refuses a token whose signature has one bit changed', async () => {
		await using gate = await run();
		const token = gate.mint();
		const [signed, signature] = [token.slice(0, token.lastIndexOf('.') + 1), token.slice(token.lastIndexOf('.') + 1)];
		const bytes = Buffer.from(signature, 'base64url');
		bytes[100]! ^= 1;
		assertUnauthorized(await gate.ask(`Bearer ${signed}${bytes.toString('base64url')}`));
	});

	test('requires the configured issuer and audience', async () => {
		await using gate = await run();
		for (const claims of [{ iss: 'https://other.test' }, { aud: 'other' }, { aud: undefined }]) {
			assertUnauthorized(await gate.ask(`Bearer ${gate.mint(claims)}`), JSON.stringify(claims));
		}
		assert.equal((await gate.ask(`Bearer ${gate.mint({ aud: ['other', AUDIENCE] })}`)).status, 200);
	});

	test('omits the body in its answer to HEAD, and nothing else', async () => {
		await using gate = await run();
		assertUnauthorizedToHead(await gate.ask(undefined, 'HEAD'));
	});

	// HTTP/2 has no bytes to compare; the other tests look at every field of its answers.
	if (protocol === 'h2') return;
	test('sends 401 and 429 responses with exactly these bytes', async () => {
		await using gate = await run({ tenantRps: 1 });
		const value = `Bearer ${gate.mint()}`;
		assert.equal((await gate.ask(value)).status, 200);
		assert.equal(
			await rawAnswer(gate.target, ''),
			'HTTP/1.1 401 Unauthorized\r\ncontent-length: 12\r\ncontent-type: text/plain; charset=utf-8\r\n' +
				'www-authenticate: Bearer\r\n\r\nunauthorized',
		);
		assert.equal(
			await rawAnswer(gate.target, `Authorization: ${value}\r\n`),
			'HTTP/1.1 429 Too Many Requests\r\ncontent-length: 12\r\ncontent-type: text/plain; charset=utf-8\r\n' +
				'retry-after: 1\r\n\r\nrate limited',
		);
	});
}
