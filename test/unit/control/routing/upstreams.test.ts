import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RouteConfig } from '../../../../packages/proxy/src/config/config.ts';
import type { UpstreamTlsMaterial } from '../../../../packages/proxy/src/control/files/upstream-tls-files.ts';
import { routingSeed } from '../../../../packages/proxy/src/control/routing/seed.ts';
import { type Endpoint, routesShown, tlsOf } from '../../../../packages/proxy/src/control/routing/table.ts';
import { Upstreams } from '../../../../packages/proxy/src/control/routing/upstreams.ts';
import { beginning, lastTransition } from '../../../../packages/proxy/src/control/status/upstreams.ts';
import { DEFAULT_BALANCING } from '../../../../packages/proxy/src/gates/balancing/settings.ts';
import { CLOSED, OPEN } from '../../../../packages/proxy/src/memory/breaker-cell.ts';
import { readTraffic } from '../../../../packages/proxy/src/memory/route-stats.ts';
import { TRANSITIONS } from '../../../../packages/proxy/src/memory/transition-counts.ts';
import { UpstreamLoad } from '../../../../packages/proxy/src/memory/upstream-load.ts';
import { UpstreamStats } from '../../../../packages/proxy/src/memory/upstream-stats.ts';
import type { UpstreamTlsSeed } from '../../../../packages/proxy/src/shared/messages.ts';
import { FakeTime } from '../fixtures/fake-time.ts';
import { RecordedLog } from '../fixtures/recorded-log.ts';
import { HEALTH, route, withUpstream } from '../fixtures/routes.ts';

const WORKERS = 2;
/** A group without a queue. */
const UNLIMITED = { limits: undefined, waiting: undefined };

function testUpstreams(log = new RecordedLog(), time = new FakeTime()): Upstreams {
	return new Upstreams(WORKERS, time, log.logger);
}

function use(upstreams: Upstreams, ...args: Parameters<Upstreams['plan']>): void {
	upstreams.apply(upstreams.plan(...args));
}

/** The upstreams of a table whose breakers have all been closed by a passing probe. */
function provenUpstreams(routes: readonly RouteConfig[]): Upstreams {
	const upstreams = testUpstreams();
	use(upstreams, routes);
	for (const upstream of upstreams.current.endpoints.values()) {
		upstream.breaker.health(true, 0);
		upstream.alive = true;
	}
	return upstreams;
}

function find(upstreams: Upstreams, authority: string): Endpoint {
	return upstreams.current.endpoints.get(authority)!;
}

describe('Host of probes', () => {
	const HOST = { stripsPrefix: false, forwardedHost: false, forwardedPort: false, forwarded: false } as const;
	const by = (config: RouteConfig, host: NonNullable<RouteConfig['forwarding']>['host']): RouteConfig => ({
		...config,
		forwarding: { ...HOST, host },
	});
	const named = (prefix: string, name: string) => by(route(prefix, 'x:1'), { name });
	const dns = {
		authority: 'x.test.:1',
		hostField: 'x.test:1',
		host: 'x.test.',
		port: 1,
		server: undefined,
		refreshMs: 1,
	};
	const fromDns = (prefix: string, change = {}) =>
		withUpstream(route(prefix, 'x:1'), { name: 'pods', addresses: [], dns: { ...dns, ...change } });
	const resolved = { authority: '10.0.0.1:1', host: '10.0.0.1', port: 1, hostField: 'x.test:1' };
	const planned = (upstreams: Upstreams, routes: readonly RouteConfig[]) =>
		upstreams.plan(routes, undefined, (group) => (group.dns === undefined ? group.addresses : [resolved]));
	const probed = (upstreams: Upstreams) =>
		Array.from(upstreams.current.endpoints.values(), ({ address }) => address.hostField)[0];

	for (const [what, routes, expected] of [
		['the address', [route('/a', 'x:1')], undefined],
		['the name that all routes put there', [named('/a', 'a.internal'), named('/b', 'a.internal')], 'a.internal'],
		['the address where routes differ', [named('/a', 'a.internal'), named('/b', 'b.internal')], undefined],
		['the address where one route has none', [named('/a', 'a.internal'), route('/b', 'x:1')], undefined],
		['the address where it is the client that says', [by(route('/a', 'x:1'), 'client')], undefined],
		['the name that DNS was asked for', [fromDns('/a')], 'x.test:1'],
		[
			'the name of the route, though DNS was asked for another',
			[by(fromDns('/a'), { name: 'a.internal' })],
			'a.internal',
		],
	] as const) {
		test(`is ${what}`, () => {
			const upstreams = testUpstreams();
			upstreams.apply(planned(upstreams, routes));
			assert.equal(probed(upstreams), expected);
			// Of requests, each route says it for itself.
			const [seed] = routingSeed(upstreams.current, 0).endpoints;
			assert.equal(seed!.hostField, routes[0]!.upstream.dns?.hostField);
		});
	}

	test('a Host of probes that changes with its route is probed before the first request', () => {
		const upstreams = provenUpstreams([named('/a', 'a.internal')]);
		const plan = upstreams.plan([named('/a', 'b.internal')]);
		assert.deepEqual(
			plan.fresh.map(({ address }) => address.hostField),
			['b.internal'],
		);
	});

	test('a Host of probes that another route changes keeps the breakers of unchanged routes', () => {
		const upstreams = provenUpstreams([named('/a', 'a.internal')]);
		const old = find(upstreams, 'x:1');
		const plan = upstreams.plan([named('/a', 'a.internal'), route('/b', 'x:1')]);
		assert.deepEqual([plan.fresh, old.address.hostField], [[], 'a.internal']);
		upstreams.apply(plan);
		assert.equal(find(upstreams, 'x:1'), old);
		assert.equal(old.address.hostField, undefined);
	});

	test('Host is the new name after DNS is asked for another one, even for an address of both names', () => {
		const upstreams = testUpstreams();
		const routes = (change = {}) => [fromDns('/a', change), by(fromDns('/b', change), { name: 'b.internal' })];
		upstreams.apply(planned(upstreams, routes()));
		const before = routingSeed(upstreams.current, 0).endpoints[0]!;
		const plan = planned(upstreams, routes({ host: 'y.test', authority: 'y.test:1', hostField: 'y.test:1' }));
		const after = routingSeed(plan, 0).endpoints[0]!;
		assert.equal(after.hostField, 'y.test:1');
		assert.notEqual(after.breakerId, before.breakerId, 'a worker keeps what has the same id');
	});
});

describe('which breakers a reload keeps', () => {
	const before = [route('/a', 'x:1', 1_000), route('/b', 'x:1', 2_000), route('/c', 'y:2', 1_000)];

	for (const [what, after, kept] of [
		['nothing has changed', before, true],
		['the order has changed', before.toReversed(), true],
		['one of its rules is left', [route('/b', 'x:1', 2_000)], true],
		['one of its rules is left and another has come', [route('/b', 'x:1', 2_000), route('/new', 'x:1', 9_000)], true],
		['its rules have other prefixes', [route('/a2', 'x:1', 1_000)], false],
		['its rules have other cooldowns', [route('/a', 'x:1', 5_000), route('/b', 'x:1', 5_000)], false],
		["it has another upstream's rule", [route('/c', 'x:1', 1_000), route('/a', 'y:2', 1_000)], false],
	] as const) {
		test(`${what}: ${kept ? 'kept' : 'a fresh one'}`, () => {
			const upstreams = provenUpstreams(before);
			const old = find(upstreams, 'x:1');
			const plan = upstreams.plan(after);
			upstreams.apply(plan);
			const now = find(upstreams, 'x:1');
			assert.equal(now === old, kept);
			assert.equal(now.breaker.circuit, kept ? CLOSED : OPEN);
			assert.equal(plan.fresh.includes(now), !kept);
		});
	}

	for (const [what, change, ofGroup, kept] of [
		['the number of failures', { opening: { failures: 3, tenants: 1 } }, {}, false],
		['the number of tenants', { opening: { failures: 1, tenants: 2 } }, {}, false],
		['the path of the health check', {}, { health: { ...HEALTH, path: '/ready' } }, false],
		['how long idle connections are kept', {}, { idleTimeoutMs: 1_000 }, true],
		[
			'who may use the route',
			{ access: { allow: undefined, deny: undefined, tenants: ['a'], scopes: undefined } },
			{ idleTimeoutMs: 1_000 },
			true,
		],
	] as const) {
		test(`${what} changes: ${kept ? 'kept' : 'a fresh one'}`, () => {
			const upstreams = provenUpstreams([route('/a', 'x:1')]);
			const old = find(upstreams, 'x:1');
			use(upstreams, [{ ...withUpstream(route('/a', 'x:1'), ofGroup), ...change }]);
			assert.equal(find(upstreams, 'x:1') === old, kept);
			assert.equal(routingSeed(upstreams.current, 0).endpoints[0]!.idleTimeoutMs, kept ? 1_000 : 4_000);
		});
	}

	test('an upstream without probes starts closed, and one that gains probes starts unproven', () => {
		const upstreams = testUpstreams();
		use(upstreams, [withUpstream(route('/a', 'x:1'), { health: undefined })]);
		assert.equal(find(upstreams, 'x:1').breaker.circuit, CLOSED);
		use(upstreams, [route('/a', 'x:1')]);
		assert.equal(find(upstreams, 'x:1').breaker.circuit, OPEN);
	});

	test('a removed upstream returns unproven', () => {
		const upstreams = provenUpstreams(before);
		use(upstreams, []);
		use(upstreams, before);
		assert.equal(find(upstreams, 'x:1').breaker.circuit, OPEN);
		assert.equal(find(upstreams, 'x:1').alive, undefined);
	});

	test('a fresh breaker keeps the last verdict, so that the next one is only logged when it differs', () => {
		const upstreams = provenUpstreams(before);
		use(upstreams, [route('/z', 'x:1')]);
		assert.equal(find(upstreams, 'x:1').alive, true);
	});

	test('a plan that is not applied changes nothing', () => {
		const upstreams = provenUpstreams(before);
		const { current } = upstreams;
		upstreams.plan([route('/z', 'x:1'), route('/y', 'z:3')]);
		assert.equal(upstreams.current, current);
		assert.equal(find(upstreams, 'x:1').breaker.circuit, CLOSED);
	});
});

describe('what a worker receives', () => {
	test('each upstream once, with the shared breaker and its own counters; routes point at them', () => {
		const upstreams = testUpstreams();
		const access = { allow: ['dns:a'], deny: undefined, tenants: undefined, scopes: undefined };
		const certificateHeaders = { clientCert: 'leaf', xfcc: undefined } as const;
		const forwarding = {
			host: 'client',
			stripsPrefix: true,
			forwardedHost: true,
			forwardedPort: 443,
			forwarded: false,
		} as const;
		const requestLimits = { maxBodyBytes: 5, upstreamTimeoutMs: 500 };
		const guarded = { ...route('/b', 'y:2'), access, certificateHeaders, forwarding, requestLimits };
		use(upstreams, [route('/a', 'x:1', 1_000), guarded, route('/c', 'x:1')]);
		const [first, second] = [0, 1].map((worker) => routingSeed(upstreams.current, worker));
		const open = { rate: undefined, trailers: true };
		const seen = first!.routes.map(({ stats: _, ...seed }) => seed);
		assert.deepEqual(seen, [
			{ prefix: '/a', cooldownMs: 1_000, opening: { failures: 1, tenants: 1 }, upstream: 0, ...open },
			{
				...open,
				prefix: '/b',
				cooldownMs: 30_000,
				opening: { failures: 1, tenants: 1 },
				upstream: 1,
				access,
				certificateHeaders,
				forwarding,
				requestLimits,
			},
			{ prefix: '/c', cooldownMs: 30_000, opening: { failures: 1, tenants: 1 }, upstream: 0, ...open },
		]);
		assert.deepEqual(
			first!.endpoints.map(({ authority, host, port }) => [authority, host, port]),
			[
				['x:1', 'x', 1],
				['y:2', 'y', 2],
			],
		);
		assert.equal(first!.endpoints[0]!.breaker, second!.endpoints[0]!.breaker);
		assert.notEqual(first!.endpoints[0]!.stats, second!.endpoints[0]!.stats);
		assert.equal(first!.endpoints[0]!.durations, second!.endpoints[0]!.durations);
		assert.equal(first!.routes[0]!.stats, second!.routes[0]!.stats);
		assert.notEqual(first!.routes[0]!.stats, first!.routes[2]!.stats);
	});
});

describe('the counters of an upstream', () => {
	const answered = (upstreams: Upstreams, authority: string) => {
		const region = find(upstreams, authority).counters.stats[0]!;
		return new UpstreamStats(region).read().responses.get(200) ?? 0;
	};
	const count = (upstreams: Upstreams, authority: string) => {
		new UpstreamStats(find(upstreams, authority).counters.stats[0]!).responded(200);
	};

	test('go on with a fresh breaker, and when it comes back', () => {
		const upstreams = provenUpstreams([route('/a', 'x:1')]);
		count(upstreams, 'x:1');
		use(upstreams, [route('/other', 'x:1')]);
		assert.equal(answered(upstreams, 'x:1'), 1);
		use(upstreams, []);
		use(upstreams, [route('/a', 'x:1')]);
		assert.equal(answered(upstreams, 'x:1'), 1);
	});

	test('count transitions by health probes too, and log each', () => {
		const log = new RecordedLog();
		const upstreams = testUpstreams(log);
		for (const prefix of ['/a', '/b']) {
			use(upstreams, [route(prefix, 'x:1')]);
			find(upstreams, 'x:1').breaker.health(true, 0, 'health: 204');
			use(upstreams, []);
		}
		use(upstreams, [route('/a', 'x:1')]);
		const { cells } = find(upstreams, 'x:1').counters.transitions;
		const closings = TRANSITIONS.findIndex(({ to, reason }) => to === 'closed' && reason === 'health');
		assert.equal(cells[closings], 2);
		assert.deepEqual(log.lines, Array(2).fill('info proxy::breaker: circuit is closed'));
		const fields = {
			upstream: 'x:1',
			group: undefined,
			from: 'open',
			to: 'closed',
			reason: 'health',
			cause: 'health: 204',
		};
		assert.deepEqual(log.fields('circuit is closed'), { ...fields, suppressed: undefined });
	});

	test('are forgotten after 256 later departures, so that new upstreams do not fill the memory', () => {
		const upstreams = provenUpstreams([route('/a', 'first:1')]);
		count(upstreams, 'first:1');
		for (let i = 0; i < 257; i++) use(upstreams, [route('/a', `other-${i}:1`)]);
		use(upstreams, [route('/a', 'first:1')]);
		assert.equal(answered(upstreams, 'first:1'), 0);
	});

	test('a dead worker has no connections, neither here nor to upstreams that have left', () => {
		const upstreams = provenUpstreams([route('/a', 'stays:1'), route('/b', 'leaves:2')]);
		const regions = ['stays:1', 'leaves:2'].map((authority) => find(upstreams, authority).counters.stats);
		const stats = regions.map((all) => all.map((region) => new UpstreamStats(region)));
		for (const one of stats.flat()) one.connections('idle', 3);
		use(upstreams, [route('/a', 'stays:1')]);
		upstreams.clearGauges(0);
		assert.deepEqual(
			stats.map((all) => all.map((one) => one.read().idle)),
			[
				[0, 3],
				[0, 3],
			],
		);
	});
});

describe('the counters of a route', () => {
	const of = (upstreams: Upstreams, prefix: string) => upstreams.current.traffic.get(prefix)!;

	test('continue when the route comes back, and nothing of a dead worker is in flight', () => {
		const upstreams = testUpstreams();
		use(upstreams, [route('/a', 'x:1'), route('/b', 'x:1')]);
		const { stats, createdSeconds } = of(upstreams, '/a');
		stats[0]!.received('h2', 5);
		stats[0]!.inFlight('h2', 1);
		stats[1]!.inFlight('h2', 1);
		use(upstreams, [route('/b', 'x:1')]);
		assert.equal(of(upstreams, '/a'), undefined);
		upstreams.clearGauges(0);
		use(upstreams, [route('/a', 'y:2')]);
		assert.equal(of(upstreams, '/a').createdSeconds, createdSeconds);
		assert.deepEqual(readTraffic(of(upstreams, '/a').stats, 'h2'), { inFlight: 1, received: 5, gave: 0 });
	});
});

describe('the last transition of an upstream', () => {
	test('is the latest, of a worker or a health probe', () => {
		const upstreams = testUpstreams();
		use(upstreams, [route('/a', 'x:1')]);
		const upstream = find(upstreams, 'x:1');
		assert.equal(lastTransition(upstream), undefined);
		assert.deepEqual(beginning(upstream), {
			wallSeconds: upstream.counters.createdSeconds,
			reason: 'health',
			cause: 'no health probe has passed yet',
		});
		upstream.breaker.health(true, 0, 'the probe passed');
		assert.equal(lastTransition(upstream)!.reason, 'health');
		const worker = (index: number) => new UpstreamStats(upstream.counters.stats[index]!).transitions;
		worker(1).count('open', 'status', 'status 503', 20, 2);
		worker(0).count('open', 'timeout', '', 10, 1);
		assert.deepEqual(lastTransition(upstream), {
			to: 'open',
			reason: 'status',
			cause: 'status 503',
			at: 20,
			wallSeconds: 2,
		});
	});
});

describe('a fresh breaker', () => {
	test('is open since its creation, not since the last transition of its predecessor; its counters continue', async () => {
		const time = new FakeTime();
		const upstreams = testUpstreams(undefined, time);
		use(upstreams, [route('/a', 'x:1')]);
		const before = find(upstreams, 'x:1');
		await time.advance(10_000);
		before.breaker.health(true, time.now(), 'the probe passed');
		assert.equal(lastTransition(before)!.to, 'closed');
		await time.advance(10_000);
		use(upstreams, [route('/other', 'x:1')]);
		const after = find(upstreams, 'x:1');
		assert.equal(after.counters, before.counters);
		assert.equal(lastTransition(after), undefined);
		assert.equal(beginning(after).wallSeconds, time.wallSeconds());
	});
});

describe('the addresses of one upstream', () => {
	const [a, b, c] = ['a:1', 'b:2', 'c:3'];
	const billing = (authorities: readonly string[]) =>
		withUpstream(route('/', 'a:1'), {
			name: 'billing',
			addresses: authorities.map((authority) => route('/', authority).upstream.addresses[0]!),
		});
	const keys = (upstreams: Upstreams) => [...upstreams.current.endpoints.keys()];

	test('stay as they are when others are added and removed', () => {
		const upstreams = provenUpstreams([billing([a, b])]);
		const stays = find(upstreams, 'billing/b:2');
		const plan = upstreams.plan([billing([b, c])]);
		upstreams.apply(plan);
		assert.deepEqual(keys(upstreams), ['billing/b:2', 'billing/c:3']);
		assert.equal(find(upstreams, 'billing/b:2'), stays);
		assert.deepEqual(plan.fresh, [find(upstreams, 'billing/c:3')]);
	});

	test('differ from those of a URL and of another name', () => {
		const other = { ...withUpstream(billing([a]), { name: 'other' }), prefix: '/other' };
		const upstreams = provenUpstreams([billing([a]), other, route('/url', 'a:1')]);
		assert.deepEqual(keys(upstreams), ['billing/a:1', 'other/a:1', 'a:1']);
		assert.equal(new Set([...upstreams.current.endpoints.values()].map(({ breakerId }) => breakerId)).size, 3);
	});

	test('stay as they are when weights and balance change', () => {
		const upstreams = provenUpstreams([billing([a, b])]);
		const before = [...upstreams.current.endpoints.values()];
		const balancing = { balance: 'hash', slowStartMs: 5_000, retries: 3 } as const;
		const addresses = billing([a, b]).upstream.addresses.map((address, i) => ({ ...address, weight: 7 + i }));
		const plan = upstreams.plan([withUpstream(billing([]), { addresses, balancing })]);
		assert.deepEqual(plan.fresh, []);
		upstreams.apply(plan);
		assert.deepEqual([...upstreams.current.endpoints.values()], before);
		const [group] = routingSeed(upstreams.current, 1).upstreams;
		assert.deepEqual(group, { name: 'billing', endpoints: [0, 1], weights: [7, 8], balancing, ...UNLIMITED });
	});

	test('share one count of requests under way; those of a dead worker are removed', () => {
		const upstreams = provenUpstreams([billing([a, b])]);
		const places = [0, 1].map((worker) => routingSeed(upstreams.current, worker).endpoints[1]!.place);
		const [one, two] = places.map(({ loads, at }, worker) => new UpstreamLoad(loads, worker, at));
		one!.inc();
		two!.inc();
		two!.inc();
		assert.equal(one!.total, 3);
		upstreams.clearGauges(1);
		assert.equal(one!.total, 1);
	});

	test('are adjacent in memory; an address that returns gets a fresh place', () => {
		const many = Array.from({ length: 70 }, (_, i) => `a:${i + 1}`);
		const upstreams = testUpstreams();
		const placesOf = (addresses: typeof many) => {
			use(upstreams, [billing(addresses)]);
			return routingSeed(upstreams.current, 0).endpoints.map(({ place }) => place);
		};
		const places = placesOf(many);
		assert.deepEqual(
			places.map(({ at }) => at),
			many.map((_, i) => i % 64),
		);
		assert.equal(new Set(places.map(({ states }) => states)).size, 2);
		assert.equal(new Set(places.map(({ loads }) => loads)).size, 2);
		placesOf(many.slice(1));
		const [back, stays] = placesOf(many);
		assert.equal(stays!.at, 1);
		assert.ok(places.every(({ loads, at }) => loads !== back!.loads || at !== back!.at));
	});

	test('serve from the moment that their breakers close', async () => {
		const time = new FakeTime();
		const upstreams = testUpstreams(undefined, time);
		use(upstreams, [billing([a, b])]);
		const upstream = find(upstreams, 'billing/a:1');
		const load = new UpstreamLoad(upstream.place.loads, 0, upstream.place.at);
		assert.equal(load.since, time.now());
		await time.advance(5_000);
		upstream.breaker.health(true, 5_000);
		assert.equal(load.since, 5_000);
		await time.advance(5_000);
		upstream.breaker.health(false, 10_000);
		assert.equal(load.since, 5_000);
		await time.advance(5_000);
		upstream.breaker.health(true, 15_000);
		assert.equal(load.since, 15_000);
	});

	test('reach workers once, however many routes name them', () => {
		const upstreams = provenUpstreams([route('/url', 'x:9'), billing([a, b]), { ...billing([a, b]), prefix: '/two' }]);
		const seed = routingSeed(upstreams.current, 0);
		assert.deepEqual(
			seed.endpoints.map(({ authority, group }) => [authority, group]),
			[
				['x:9', undefined],
				[a, 'billing'],
				[b, 'billing'],
			],
		);
		assert.deepEqual(seed.upstreams, [
			{ name: undefined, endpoints: [0], weights: [1], balancing: DEFAULT_BALANCING, ...UNLIMITED },
			{ name: 'billing', endpoints: [1, 2], weights: [1, 1], balancing: DEFAULT_BALANCING, ...UNLIMITED },
		]);
		assert.deepEqual(
			seed.routes.map(({ upstream }) => upstream),
			[0, 1, 1],
		);
	});
});

describe('TLS to the upstreams of a table', () => {
	const TLS = {
		key: undefined,
		caPath: undefined,
		serverName: undefined,
		certPath: undefined,
		keyPath: undefined,
		minVersion: undefined,
		verify: true,
	};
	const seed = (change: Partial<UpstreamTlsSeed> = {}): UpstreamTlsMaterial =>
		new Map([
			[
				'x:1',
				{
					ca: undefined,
					cert: undefined,
					key: undefined,
					serverName: 'x',
					minVersion: undefined,
					verify: true,
					...change,
				},
			],
		]);
	const overTls = withUpstream(route('/a', 'x:1'), { tls: TLS });

	test('goes to the workers with its group, and to the probes', () => {
		const upstreams = testUpstreams();
		const plan = upstreams.plan([overTls], seed());
		assert.equal(plan.fresh[0]!.tls?.servername, 'x', 'what is fresh is probed before it is in force');
		upstreams.apply(plan);
		assert.deepEqual(routingSeed(plan, 0).upstreams[0]!.tls, seed().get('x:1'));
		assert.deepEqual(tlsOf(plan), [...seed().values()]);
		const whole = upstreams.plan([overTls], seed({ serverName: 'x.internal.' }));
		upstreams.apply(whole);
		assert.equal(find(upstreams, 'x:1').tls?.servername, 'x.internal', 'RFC 6066 section 3: without the dot');
	});

	test('keeps the breaker when it changes, and is another one to the probes once the table is in force', () => {
		const upstreams = testUpstreams();
		use(upstreams, [overTls], seed());
		const before = find(upstreams, 'x:1');
		use(upstreams, [overTls]);
		assert.equal(before.tls?.servername, 'x', 'what is in force stays unless something else is given');
		const plan = upstreams.plan([overTls], seed({ serverName: 'y' }));
		assert.deepEqual(plan.fresh, []);
		assert.equal(before.tls?.servername, 'x');
		upstreams.apply(plan);
		assert.equal(find(upstreams, 'x:1'), before);
		assert.equal(before.tls?.servername, 'y');
	});

	test('is another upstream than the same address without, with the same counters', () => {
		const upstreams = testUpstreams();
		use(upstreams, [route('/a', 'x:1')]);
		const before = find(upstreams, 'x:1');
		use(upstreams, [overTls], seed());
		assert.notEqual(find(upstreams, 'x:1'), before);
		assert.equal(find(upstreams, 'x:1').counters, before.counters);
	});

	test('is never skipped because its files are missing', () => {
		assert.throws(() => testUpstreams().plan([overTls]), /the TLS files of x:1 have not been read/);
	});
});

test('the first line lists at most 20 routes, and then says how many there are', () => {
	const routes = Array.from({ length: 21 }, (_, i) => route(`/${i}`, 'up:1'));
	const shown = routes.slice(0, 20).map(({ prefix }) => ({ prefix, upstream: 'up:1' }));
	assert.deepEqual(routesShown(routes), { routes: shown, routes_total: 21 });
	assert.deepEqual(routesShown(routes.slice(0, 20)), { routes: shown });
});
