/** The resources: how their values are made, and that reloads and changes in between never undo each other. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RouteConfig } from '../../../../packages/proxy/src/config/config.ts';
import type { TlsMaterial } from '../../../../packages/proxy/src/shared/messages.ts';
import { settle } from '../fixtures/fake-time.ts';
import { ReconciledPool } from '../fixtures/reconciled.ts';
import { route, withUpstream } from '../fixtures/routes.ts';

const DNS = { authority: 'a.test:80', host: 'a.test', port: 80, server: undefined, refreshMs: 30_000 };

function named(name: string): RouteConfig {
	return withUpstream(route(`/${name}`, 'x:1'), { name, addresses: [], dns: { ...DNS, authority: `${name}.test:80` } });
}

class Table {
	readonly steps: string[] = [];
	/** What proving waits for. */
	proving: Promise<void> = Promise.resolve();
	addresses = ['10.0.0.1'];
	readonly pool = new ReconciledPool(
		{ identity: { identity: { issuers: [] }, remotes: [] }, routes: [named('old')] },
		{
			addresses: {
				follow: async (routes) => void this.steps.push(`follow ${namesOf(routes)}`),
				keepOnly: (routes) => void this.steps.push(`keep ${namesOf(routes)}`),
				addressesOf: () => this.addresses.map((host) => ({ authority: `${host}:80`, host, port: 80 })),
			},
			prober: { prove: () => this.proving, watch: () => {} },
		},
	);

	static async serving(): Promise<Table> {
		const table = new Table();
		await table.pool.serve();
		return table;
	}

	set(...routes: RouteConfig[]): Promise<void> {
		return this.pool.resources.routing.set({ routes, tls: new Map() });
	}

	get inForce(): string[] {
		return [...this.pool.upstreams.current.endpoints.keys()];
	}
}

function namesOf(routes: Iterable<Pick<RouteConfig, 'upstream'>>): string {
	return Array.from(routes, ({ upstream }) => upstream.name).join();
}

describe('a routing table that is set', () => {
	test('ends the look-ups of names that it leaves out, once it is in force', async () => {
		const table = await Table.serving();
		await table.set(named('new'));
		assert.deepEqual(table.steps, ['follow old', 'keep old', 'follow new', 'keep new']);
	});

	test('a refused routing table ends the look-ups of its names', async () => {
		const table = await Table.serving();
		table.pool.thread(1).temper = 'refusing';
		await assert.rejects(table.set(named('new')), /worker 1 refused/);
		assert.deepEqual(table.steps.slice(2), ['follow new', 'keep old']);
		assert.deepEqual(table.inForce, ['old/10.0.0.1:80']);
	});

	test('has the addresses that were known when it was planned, and gets those that came meanwhile in another round', async () => {
		const table = await Table.serving();
		const { promise, resolve } = Promise.withResolvers<void>();
		table.proving = promise;
		const set = table.set(named('a'), named('b'));
		await settle();
		table.addresses = ['10.0.0.2'];
		table.pool.resources.routing.changed();
		resolve();
		await set;
		assert.deepEqual(table.inForce, ['a/10.0.0.1:80', 'b/10.0.0.1:80']);
		await settle();
		assert.deepEqual(table.inForce, ['a/10.0.0.2:80', 'b/10.0.0.2:80']);
	});

	test('does not hold up the other resources while its upstreams are being proved', async () => {
		const table = await Table.serving();
		table.proving = new Promise(() => {});
		void table.set(named('slow'));
		const tls = { cert: 'new', key: 'new', ca: 'new' };
		await table.pool.resources.tls.set(tls);
		assert.equal(table.pool.inForce.tls, tls);
	});
});

test('revocations of the store are added to the TLS material of each reload, and reach all workers when they change', async () => {
	let revoked = 'first';
	const withRevoked = (tls: TlsMaterial) => ({ ...tls, ca: `${tls.ca} without ${revoked}` });
	const pool = new ReconciledPool(
		{ identity: { identity: { issuers: [] }, remotes: [] }, routes: [] },
		{ withRevoked },
	);
	await pool.serve();
	assert.equal(pool.inForce.tls.ca, 'old without first');
	revoked = 'second';
	pool.resources.tls.changed();
	await settle();
	await pool.resources.tls.set({ cert: 'new', key: 'new', ca: 'new' });
	assert.equal(pool.inForce.tls.ca, 'new without second');
	for (const { thread } of pool.spawned) {
		const sent = thread.received.flatMap((message) => (message.type === 'prepare-tls' ? message.tls.ca : []));
		assert.deepEqual(sent, ['old without second', 'new without second']);
	}
});
