/** Routing tables are taken over one after the other, each by all workers or by none. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RouteConfig } from '../../../../src/config/config.ts';
import { RoutingSwitch } from '../../../../src/control/reload/routing-switch.ts';
import { Upstreams } from '../../../../src/control/upstreams.ts';
import { FakeTime } from '../fixtures/fake-time.ts';
import { RecordedLog } from '../fixtures/recorded-log.ts';
import { route, withGroup } from '../fixtures/routes.ts';

const DNS = { authority: 'a.test:80', host: 'a.test', port: 80, server: undefined, refreshMs: 30_000 };

function named(name: string): RouteConfig {
	return withGroup(route(`/${name}`, 'x:1'), { name, addresses: [], dns: { ...DNS, authority: `${name}.test:80` } });
}

class Table {
	readonly steps: string[] = [];
	readonly upstreams = new Upstreams(1, new FakeTime(), new RecordedLog().logger);
	refusal: Error | undefined;
	/** What proving waits for. */
	proving: Promise<void> = Promise.resolve();
	addresses = ['10.0.0.1'];
	readonly routing = new RoutingSwitch({
		upstreams: this.upstreams,
		addresses: {
			follow: async (routes) => void this.steps.push(`follow ${namesOf(routes)}`),
			keepOnly: (routes) => void this.steps.push(`keep ${namesOf(routes)}`),
			addressesOf: () => this.addresses.map((host) => ({ authority: `${host}:80`, host, port: 80 })),
		},
		prober: { prove: () => this.proving, watch: () => {} },
		pool: {
			switchAll: async (prepare, apply) => {
				prepare(0, 1);
				if (this.refusal) throw this.refusal;
				apply();
			},
		},
	});

	take(...routes: RouteConfig[]): Promise<void> {
		return this.routing.take(
			() => ({ routes }),
			() => {},
			() => {},
		);
	}

	/** As a change of addresses does. */
	refresh(): Promise<void> {
		return this.routing.take(
			() => ({ routes: this.upstreams.current.routes }),
			() => {},
			() => {},
		);
	}

	get inForce(): string[] {
		return [...this.upstreams.current.upstreams.keys()];
	}
}

function namesOf(routes: readonly RouteConfig[]): string {
	return routes.map(({ group }) => group.name).join();
}

describe('taking a routing table over', () => {
	test('ends the questions for names that are left out, once it is in force', async () => {
		const table = new Table();
		await table.take(named('old'));
		await table.take(named('new'));
		assert.deepEqual(table.steps, ['follow old', 'keep old', 'follow new', 'keep new']);
	});

	test('that fails ends the questions for its own names: nobody would get their answers', async () => {
		const table = new Table();
		await table.take(named('old'));
		table.refusal = new Error('worker 1 has no memory left');
		await assert.rejects(table.take(named('new')), /no memory left/);
		assert.deepEqual(table.steps.slice(2), ['follow new', 'keep old']);
		assert.deepEqual(table.inForce, ['old/10.0.0.1:80']);
	});

	test('has the addresses that were known when it was planned, and those that came meanwhile in the next turn', async () => {
		const table = new Table();
		const { promise, resolve } = Promise.withResolvers<void>();
		table.proving = promise;
		const reload = table.take(named('a'), named('b'));
		await new Promise(setImmediate);
		table.addresses = ['10.0.0.2'];
		const refresh = table.refresh();
		resolve();
		await reload;
		assert.deepEqual(table.inForce, ['a/10.0.0.1:80', 'b/10.0.0.1:80']);
		await refresh;
		assert.deepEqual(table.inForce, ['a/10.0.0.2:80', 'b/10.0.0.2:80']);
	});
});
