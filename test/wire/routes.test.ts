/** Route lookup by the longest prefix. */
import { deepEqual, equal } from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Connection, connect, PROTOCOLS } from '../fixtures/clients.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';

/** What matches is in unit/gates/prefix-table.test.ts and routes.test.ts; `explain.test.ts` sends the longest of two, and none. */
const PREFIXES = ['/down', '/down/deeper'] as const;
const upstreams = new Map<string, Upstream>();
for (const prefix of PREFIXES) upstreams.set(prefix, await startUpstream());
upstreams.get('/down/deeper')!.setHealth(500);
const proxy = await startProxy({
	config: { health_interval_secs: 3600, default_cooldown_secs: 3600 },
	// The shortest first, so that it is not the order in the file that makes the longest win.
	routes: PREFIXES.map((prefix) => ({ prefix, upstream: upstreams.get(prefix)!.url })),
});
after(async () => {
	await proxy[Symbol.asyncDispose]();
	for (const upstream of upstreams.values()) await upstream.close();
});

for (const protocol of PROTOCOLS) {
	describe(`routing over ${protocol}`, () => {
		let client: Connection;
		before(async () => {
			client = await connect(protocol, proxy);
		});
		after(() => client.close());

		test('the longest match is final: if its upstream is down, a shorter one is no way around', async () => {
			const before = requestCounts();
			assertOwnAnswer(await client.request({ path: '/down/deeper/x' }), 503, 'upstream unavailable');
			equal((await client.request({ path: '/down/x' })).status, 200);
			deepEqual(requestCounts(), { ...before, '/down': before['/down']! + 1 });
		});
	});
}

test('a proxy without routes says 404, and "/" matches every path that no other prefix matches', async () => {
	const [catchAll, api] = await Promise.all([startUpstream(), startUpstream()]);
	await using empty = await startProxy({ routes: [], workers: 1 });
	for (const protocol of PROTOCOLS) {
		await using client = await connect(protocol, empty);
		for (const path of ['/', '/x']) assertOwnAnswer(await client.request({ path }), 404, 'no route');
	}
	empty.writeConfig({ routes: [route('/', catchAll), route('/api', api)] });
	await empty.reload();
	for (const protocol of PROTOCOLS) {
		await using client = await connect(protocol, empty);
		for (const path of ['/', '/x', '/apix', '/?q', '/api']) equal((await client.request({ path })).status, 200);
	}
	deepEqual(
		catchAll.requests.map(({ target }) => target),
		['/', '/x', '/apix', '/?q', '/', '/x', '/apix', '/?q'],
	);
	equal(api.requests.length, 2);
	await Promise.all([catchAll.close(), api.close()]);
});

function route(prefix: string, { url }: Upstream): { prefix: string; upstream: string } {
	return { prefix, upstream: url };
}

function requestCounts(): Record<string, number> {
	return Object.fromEntries([...upstreams].map(([prefix, { requests }]) => [prefix, requests.length]));
}
