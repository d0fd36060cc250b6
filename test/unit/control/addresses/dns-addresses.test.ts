/** Upstreams with addresses from DNS: when lookups are made, and how their answers are used. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RouteConfig } from '../../../../packages/proxy/src/config/config.ts';
import { DnsAddresses } from '../../../../packages/proxy/src/control/addresses/dns-addresses.ts';
import type { Resolved } from '../../../../packages/proxy/src/control/addresses/resolve.ts';
import { FakeTime, settle } from '../fixtures/fake-time.ts';
import { RecordedLog } from '../fixtures/recorded-log.ts';
import { route, withUpstream } from '../fixtures/routes.ts';

const REFRESH_MS = 30_000;

function named(name: string, refreshMs = REFRESH_MS): RouteConfig {
	const dns = { authority: `${name}.test:8080`, host: `${name}.test`, port: 8080, server: undefined, refreshMs };
	return withUpstream(route('/', 'x:1'), { name, addresses: [], dns });
}

class Dns {
	readonly time = new FakeTime();
	readonly log = new RecordedLog();
	changes = 0;
	/** Names, in the order in which they were asked for. */
	readonly asked: string[] = [];
	/** What it says of each name; an error, or nothing, is a failure. */
	readonly answers = new Map<string, Resolved | Error>();
	silent = false;
	readonly addresses = new DnsAddresses(
		{
			resolve: async ({ host }) => {
				this.asked.push(host);
				if (this.silent) await new Promise(() => {});
				const answer = this.answers.get(host) ?? new Error('the name has no addresses');
				if (answer instanceof Error) throw answer;
				return answer;
			},
			timers: this.time,
			clock: this.time,
			random: () => 1,
			log: this.log.logger,
		},
		() => this.changes++,
	);

	/** It follows `BILLING`, which has these addresses. */
	static async knowing(addresses: string[], ttlMs?: number): Promise<Dns> {
		const dns = new Dns();
		dns.say('billing.test', addresses, ttlMs);
		await dns.addresses.follow([BILLING]);
		return dns;
	}

	say(host: string, addresses: string[], ttlMs?: number): void {
		this.answers.set(host, { addresses, ttlMs });
	}

	of(config: RouteConfig): string[] {
		return this.addresses.addressesOf(config.upstream).map(({ authority }) => authority);
	}
}

const BILLING = named('billing');

describe('the addresses of a name', () => {
	test('are all of them, of both families, each once and in one order; Host stays the name', async () => {
		const dns = await Dns.knowing(['10.0.0.2', 'fd00::1', '10.0.0.1', '10.0.0.2']);
		assert.deepEqual(dns.of(BILLING), ['10.0.0.1:8080', '10.0.0.2:8080', '[fd00::1]:8080']);
		const [, , last] = dns.addresses.addressesOf(BILLING.upstream);
		assert.deepEqual(last, {
			authority: '[fd00::1]:8080',
			host: 'fd00::1',
			port: 8080,
			hostField: 'billing.test:8080',
		});
	});

	test('are asked for again when the answer is over: after the refresh time, or its TTL, but not more often than each second', async () => {
		for (const [ttlMs, wait] of [
			[undefined, REFRESH_MS],
			[5_000, 5_000],
			[300_000, REFRESH_MS],
			[0, 1_000],
		] as const) {
			const dns = await Dns.knowing(['10.0.0.1'], ttlMs);
			await dns.time.advance(wait - 1);
			assert.equal(dns.asked.length, 1, `TTL ${ttlMs}`);
			await dns.time.advance(1);
			assert.equal(dns.asked.length, 2, `TTL ${ttlMs}`);
		}
	});

	test('are taken over when they change, and only then', async () => {
		const dns = await Dns.knowing(['10.0.0.1', '10.0.0.2']);
		assert.equal(dns.changes, 1);
		dns.say('billing.test', ['10.0.0.2', '10.0.0.1']);
		await dns.time.advance(REFRESH_MS);
		assert.equal(dns.changes, 1, 'another order');
		dns.say('billing.test', ['10.0.0.2', '10.0.0.3']);
		await dns.time.advance(REFRESH_MS);
		assert.equal(dns.changes, 2);
		const { added, removed } = dns.log.fields('addresses of an upstream have changed');
		assert.deepEqual([added, removed], [['10.0.0.3:8080'], ['10.0.0.1:8080']]);
	});

	test('hold over failures, which are tried again after longer and longer, and never longer than the refresh time', async () => {
		const dns = await Dns.knowing(['10.0.0.1']);
		dns.answers.set('billing.test', new Error('no answer from the name server'));
		await dns.time.advance(REFRESH_MS);
		const waits: number[] = [];
		for (let i = 0; i < 8; i++) {
			const { retry_in_ms: wait } = dns.log.fields('addresses not resolved; keeping old');
			waits.push(wait as number);
			await dns.time.advance(wait as number);
		}
		assert.deepEqual(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
		assert.deepEqual(dns.of(BILLING), ['10.0.0.1:8080']);
		assert.equal(dns.changes, 1);
		const [one] = dns.addresses.all;
		assert.deepEqual(one!.fetches, { success: 1, failure: 9 });
		assert.ok(one!.ageMs! > 120_000);
		const sinceSeconds = 1_800_000_000 + REFRESH_MS / 1000;
		assert.deepEqual(one!.failing, { sinceSeconds, failures: 9, cause: 'no answer from the name server' });
		dns.say('billing.test', ['10.0.0.1']);
		await dns.time.advance(REFRESH_MS);
		assert.equal(dns.log.fields('addresses of an upstream resolved again, unchanged').failures, 9);
		assert.deepEqual([one!.ageMs, one!.failing], [0, undefined]);
	});

	test('are none while none are known, and are taken over when they are', async () => {
		const dns = new Dns();
		await dns.addresses.follow([BILLING]);
		assert.deepEqual(dns.of(BILLING), []);
		assert.equal(dns.log.fields('addresses not resolved; the upstream has none').cause, 'the name has no addresses');
		dns.say('billing.test', ['10.0.0.1']);
		await dns.time.advance(1_000);
		assert.deepEqual([dns.of(BILLING), dns.changes], [['10.0.0.1:8080'], 1]);
	});

	test('are waited for by a start for 2 s, and no longer', async () => {
		const dns = new Dns();
		dns.silent = true;
		let isThrough = false;
		void dns.addresses.follow([BILLING]).then(() => {
			isThrough = true;
		});
		await dns.time.advance(1_999);
		assert.equal(isThrough, false);
		await dns.time.advance(1);
		assert.equal(isThrough, true);
	});

	test('hold over a reload that asks for the same name in another way while DNS is away', async () => {
		const dns = new Dns();
		const [slower, renamed] = [named('billing', 60_000), withUpstream(BILLING, { name: 'invoices' })];
		dns.say('billing.test', ['10.0.0.1']);
		await dns.addresses.follow([BILLING]);
		dns.answers.delete('billing.test');
		await dns.time.advance(5_000);
		for (const changed of [slower, renamed]) {
			await dns.addresses.follow([changed]);
			assert.deepEqual(dns.of(changed), ['10.0.0.1:8080']);
			dns.addresses.keepOnly([changed]);
		}
		const [one] = dns.addresses.all;
		assert.equal(one!.ageMs, 5_000, 'known since then');
		// Half of the name is another one: its port is what is connected to.
		const other = named('billing');
		const moved = withUpstream(other, { dns: { ...other.upstream.dns!, authority: 'billing.test:9090', port: 9090 } });
		await dns.addresses.follow([moved]);
		assert.deepEqual(dns.of(moved), []);
	});

	test('are 1,000 at most; of the others one line tells, until there are fewer again', async () => {
		const dns = new Dns();
		const many = (count: number) => Array.from({ length: count }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
		const lines = () =>
			dns.log.lines.filter((line) => line.endsWith(': an upstream has more addresses than are used')).length;
		for (const [count, so_far] of [
			[1_000, 0],
			[1_001, 1],
			[1_200, 1],
			[1_000, 1],
			[1_001, 2],
		] as const) {
			dns.say('billing.test', many(count));
			if (count === 1_000 && so_far === 0) await dns.addresses.follow([BILLING]);
			else await dns.time.advance(REFRESH_MS);
			assert.deepEqual([dns.of(BILLING).length, lines()], [1_000, so_far], `${count} addresses`);
		}
		const { addresses, used } = dns.log.fields('an upstream has more addresses than are used');
		assert.deepEqual([addresses, used], [1_001, 1_000]);
	});

	test('have no dot in Host that only resolvers read', async () => {
		const dns = new Dns();
		const config = named('billing');
		const whole = withUpstream(config, {
			dns: {
				...config.upstream.dns!,
				authority: 'billing.test.:8080',
				host: 'billing.test.',
				hostField: 'billing.test:8080',
			},
		});
		dns.say('billing.test.', ['10.0.0.1']);
		await dns.addresses.follow([whole]);
		assert.deepEqual(dns.asked, ['billing.test.'], 'the look-up stays absolute');
		assert.equal(dns.addresses.addressesOf(whole.upstream)[0]!.hostField, 'billing.test:8080');
	});

	test('stay the same while the process ends, without further look-ups', async () => {
		const dns = await Dns.knowing(['10.0.0.1']);
		dns.addresses.stop();
		await dns.addresses.follow([BILLING, named('other')]);
		assert.deepEqual(dns.of(BILLING), ['10.0.0.1:8080']);
		assert.deepEqual(dns.asked, ['billing.test']);
		assert.equal(dns.time.pending, 0);
	});

	test('are shown once for a group that a reload asks for in another way, and counts of look-ups never fall', async () => {
		const dns = new Dns();
		const slower = named('billing', 60_000);
		dns.say('billing.test', ['10.0.0.1']);
		const shown = () => [...dns.addresses.all].map(({ group, fetches }) => [group, fetches.success]);
		await dns.addresses.follow([BILLING]);
		dns.addresses.keepOnly([BILLING]);
		const [before] = dns.addresses.all;
		await dns.addresses.follow([slower]);
		assert.deepEqual(shown(), [['billing', 2]]);
		assert.equal([...dns.addresses.all][0], before, 'until the table is in force');
		dns.addresses.keepOnly([slower]);
		assert.deepEqual(shown(), [['billing', 2]]);
		assert.notEqual([...dns.addresses.all][0], before);
		// The group leaves, and comes back.
		dns.addresses.keepOnly([]);
		assert.deepEqual(shown(), []);
		await dns.addresses.follow([BILLING]);
		assert.deepEqual(shown(), [['billing', 3]]);
		dns.addresses.stop();
	});

	test('are asked for as long as a route leads there', async () => {
		const dns = new Dns();
		const [other, slower] = [named('other'), named('billing', 60_000)];
		for (const name of ['billing.test', 'other.test']) dns.say(name, ['10.0.0.1']);
		await dns.addresses.follow([BILLING, other, BILLING]);
		assert.deepEqual(dns.asked, ['billing.test', 'other.test']);
		await dns.addresses.follow([BILLING]);
		dns.addresses.keepOnly([BILLING]);
		await dns.time.advance(REFRESH_MS);
		assert.deepEqual(dns.asked.slice(2), ['billing.test']);
		// Another refresh time makes it another one.
		await dns.addresses.follow([slower]);
		dns.addresses.keepOnly([slower]);
		await dns.time.advance(REFRESH_MS);
		assert.equal(dns.asked.length, 4);
		dns.addresses.stop();
		await settle();
		assert.equal(dns.time.pending, 0);
	});
});
