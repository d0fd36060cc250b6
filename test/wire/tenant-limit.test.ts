/** The rate limit of each tenant. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Connection, connect, PROTOCOLS, type Protocol, request } from '../fixtures/clients.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { testPki } from '../fixtures/pki.ts';
import { type Stage, startLanes } from '../fixtures/stage.ts';

const pki = await testPki();
/** A tenant that no other test has used. */
let tenants = 0;
const newTenant = () => `tenant-${++tenants}`;
const tenantNow = () => `tenant-${tenants}`;

const [slow, fast] = await Promise.all([
	startLanes({ config: { tenant_rps: 5 } }),
	startLanes({ config: { tenant_rps: 1000 } }),
]);
after(() => Promise.all([slow.close(), fast.close()]));
const lane = slow.lane();
const { path } = lane;
const fastPath = fast.lane().path;

/**
 * Does what must be done before the bucket of a new tenant gets its next token, 200 ms after the first request; once
 * more if the machine was too busy for that.
 */
async function withinOnePeriod(action: (token: string) => Promise<void>): Promise<void> {
	for (let attempt = 1; ; attempt++) {
		const startedAt = performance.now();
		const inTime = () => performance.now() - startedAt < 200;
		try {
			await action(pki.token(newTenant()));
			if (inTime()) return;
		} catch (error) {
			if (inTime() || attempt >= 20) throw error;
		}
	}
}

/** So many connections that every worker has some of them. */
const connectAll = (edge: Stage, protocol: Protocol, count: number): Promise<Connection[]> =>
	Promise.all(Array.from({ length: count }, () => connect(protocol, edge.proxy)));

for (const protocol of PROTOCOLS) {
	describe(`tenant_rps over ${protocol}`, () => {
		let client: Connection;
		before(async () => {
			client = await connect(protocol, slow.proxy);
		});
		after(() => client.close());
		const ask = async (token: string, rest = '/x') => client.request({ path: path + rest, token });

		test('admits as many requests at once as its value, then refuses and counts each refusal once, and the upstream hears nothing', () =>
			withinOnePeriod(async (token) => {
				for (let i = 0; i < 5; i++) equal((await ask(token)).status, 200, `request ${i + 1} of the burst`);
				const before = lane.upstream.bytesReceived;
				const counted = await slow.during(async () => assertOwnAnswer(await ask(token), 429, 'rate limited'));
				deepEqual(counted, { 429: 1, 'rate limited': 1 });
				equal(lane.upstream.bytesReceived, before);
			}));

		test('counts the sub, not the token: two tokens of a tenant share, two tenants do not', () =>
			withinOnePeriod(async (token) => {
				const another = pki.token(tenantNow(), { jti: 'another' });
				const statuses = [];
				for (let i = 0; i < 6; i++) statuses.push((await ask(i % 2 === 0 ? token : another)).status);
				deepEqual(statuses, [200, 200, 200, 200, 200, 429]);
				equal((await ask(pki.token(newTenant()))).status, 200);
			}));

		test('charges for a bad path, a missing route and TRACE, not for a bad token', () =>
			withinOnePeriod(async (token) => {
				const forged = pki.token(tenantNow(), { aud: 'other' });
				for (let i = 0; i < 10; i++) equal((await ask(forged)).status, 401);
				equal((await request(protocol, slow.proxy, { path: `${path}/../x`, token })).status, 400);
				equal((await client.request({ path: '/no-route', token })).status, 404);
				equal((await client.request({ method: 'TRACE', path, token })).status, 405);
				equal((await ask(token)).status, 200);
				equal((await ask(token)).status, 200);
				equal((await ask(token)).status, 429);
			}));

		test('is exact over all worker threads: 1600 requests, 20 connections at once', async () => {
			const connections = await connectAll(fast, protocol, 20);
			const token = pki.token(newTenant());
			const startedAt = performance.now();
			const answers = await Promise.all(
				connections.map(async (connection) => {
					const send = () => connection.request({ path: fastPath, token, ms: 30_000 });
					const statuses: number[] = [];
					// Over HTTP/1.1 these go one after another, over HTTP/2 ten at a time.
					for (let i = 0; i < 8; i++) {
						for (const answer of await Promise.all(Array.from({ length: 10 }, send))) statuses.push(answer.status);
					}
					return statuses;
				}),
			);
			const elapsed = performance.now() - startedAt;
			const admitted = answers.flat().filter((status) => status === 200).length;
			const refused = answers.flat().filter((status) => status === 429).length;
			equal(admitted + refused, 1600);
			ok(admitted >= 1000, `only ${admitted} were admitted`);
			ok(admitted <= 1000 + elapsed, `${admitted} were admitted in ${elapsed} ms`);
			await Promise.all(connections.map((connection) => connection.close()));
		});
	});
}
