import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { assetsOf } from '../../../../packages/proxy/src/control/status/assets.ts';
import { countsOf } from '../../../../packages/proxy/src/control/status/counts.ts';
import type { Chart } from '../../../../packages/proxy/src/control/status/history.ts';
import { renderBody, renderPage } from '../../../../packages/proxy/src/control/status/page.ts';
import { judge, type Snapshot } from '../../../../packages/proxy/src/control/status/problems.ts';
import type { ShareStatus } from '../../../../packages/proxy/src/control/status/shares.ts';
import type { Found } from '../../../../packages/proxy/src/control/status/snapshot.ts';
import type { UpstreamStatus } from '../../../../packages/proxy/src/control/status/upstreams.ts';
import { grpcStatuses } from '../../../../packages/proxy/src/control/status/upstreams.ts';
import { pageOfSnapshot, parseView, type View } from '../../../../packages/proxy/src/control/status/view.ts';
import { GRPC_STATUS_NAMES } from '../../../../packages/proxy/src/gates/grpc-status.ts';
import { readCounters } from '../../../../packages/proxy/src/memory/worker-stats.ts';
import { inOneGo } from '../../../fixtures/in-one-go.ts';
import { type ExampleOptions, exampleFound } from '../../../system/status/example.ts';

const POINTS = Array.from({ length: 60 }, (_, i) => 1000.5 + i);
const CHART: Chart = {
	requests_per_second: POINTS,
	errors_per_second: POINTS,
	p50_seconds: POINTS,
	p99_seconds: POINTS,
};
const HISTORY = { chart: () => CHART, total: () => CHART };
const WELL = exampleFound({ well: true });
/** Of the moment of the example. */
const ago = (seconds: number) => new Date(Date.parse(WELL.at) - seconds * 1000).toISOString();

const pageOf = (snapshot: Snapshot, view: View, nowMs = 0) => inOneGo(pageOfSnapshot(snapshot, view, HISTORY, nowMs));

function bodyOf(found: Found, query = ''): string {
	const view = parseView(query);
	return inOneGo(renderBody(pageOf(judge(found), view), view, 'b'));
}

const [NAME] = WELL.dns as [Found['dns'][number]];
const [UPSTREAM] = WELL.upstreams as [UpstreamStatus];
const FAILING = { failures: 7, cause: 'no answer from the name server' };
const inState = (state: UpstreamStatus['breaker']['state']) => ({ ...UPSTREAM.breaker, state });

describe('a problem of a snapshot', () => {
	const cases: Record<string, [found: Partial<Found>, problems: string[]]> = {
		nothing: [{}, []],
		'an open breaker': [
			{ upstreams: [{ ...UPSTREAM, breaker: inState('open') }] },
			['error upstreams A breaker is open: orders.internal:8080'],
		],
		'many open breakers': [
			{
				upstreams: Array.from({ length: 9 }, (_, i) => ({ ...UPSTREAM, upstream: `u:${i}`, breaker: inState('open') })),
			},
			['error upstreams 9 breakers are open: u:0, u:1, u:2 and 6 more'],
		],
		'a half-open breaker': [
			{ upstreams: [{ ...UPSTREAM, breaker: inState('half-open') }] },
			['warning upstreams A breaker is half-open: orders.internal:8080'],
		],
		'an upstream that fails its health check while its breaker is closed': [
			{ upstreams: [{ ...UPSTREAM, health: 'unhealthy' }] },
			['warning upstreams An upstream fails its health check: orders.internal:8080'],
		],
		'a name that has no address, whether DNS says why or nothing yet': [
			{ dns: [{ ...NAME, ...FAILING, addresses: 0, failing_since: ago(0) }] },
			['error dns An upstream has no address: search (search.internal:9200: no answer from the name server)'],
		],
		'many names without an address': [
			{ dns: Array.from({ length: 5 }, (_, i) => ({ ...NAME, name: `n${i}:80`, addresses: 0, age_seconds: null })) },
			['error dns 5 upstreams have no address: search (n0:80), search (n1:80), search (n2:80) and 2 more'],
		],
		'a name server that has been away for a minute, and none that is for seconds': [
			{
				dns: [
					{ ...NAME, ...FAILING, failing_since: ago(60) },
					{ ...NAME, ...FAILING, failing_since: ago(59) },
				],
			},
			[
				'warning dns DNS lookups fail for an upstream: search (search.internal:9200: no answer from the name server); the last addresses stay in use',
			],
		],
		'a worker that is gone': [
			{ workers: { ...WELL.workers, listening: 3 } },
			['error workers 1 of 4 workers does not accept connections'],
		],
		'not being ready': [
			{ process: { ...WELL.process, not_ready: 'starting' }, workers: { ...WELL.workers, listening: 0 } },
			['error workers Not ready: starting'],
		],
		'a certificate that expires soon, and one that has': [
			{
				certificates: [
					{ kind: 'server', subject: 'CN=a', serial: '1', not_after: ago(-86_400 * 3.5), days_left: 3 },
					{ kind: 'client_ca', subject: 'CN=b', serial: '2', not_after: ago(1), days_left: -1 },
					{ kind: 'server_chain', subject: 'CN=c', serial: '3', not_after: ago(-86_400 * 14.5), days_left: 14 },
				],
			},
			[
				'error certificates The client CA CN=b has expired',
				'warning certificates The server certificate CN=a expires in 3 days',
			],
		],
		'a CRL that is overdue, and none that is merely fresh for hours': [
			{
				certificates: [
					{ kind: 'crl', subject: 'CN=a', serial: '', not_after: ago(60), days_left: -1 },
					{ kind: 'crl', subject: 'CN=b', serial: '', not_after: ago(-60), days_left: 0 },
				],
			},
			['error certificates The CRL of CN=a is overdue'],
		],
		'a store of limits that is away': [
			{ shared_limits: { ...WELL.shared_limits!, store: 'unavailable', reason: 'timeout' } },
			['warning limits The shared-limits store is unavailable (timeout): each replica allows its share of the limits'],
		],
		'a store of limits that answers late': [
			{ shared_limits: { ...WELL.shared_limits!, settle_seconds: 1.234 } },
			['warning limits The store of the shared limits is slow: replicas learn of each other within 1.23 s'],
		],
		'a store of limits that is away, where that refuses requests': [
			{ shared_limits: { ...WELL.shared_limits!, store: 'unavailable', reason: null, on_store_failure: 'refuse' } },
			['error limits The shared-limits store is unavailable (no reply yet): requests that have a limit are refused'],
		],
		'an issuer without keys': [
			{ issuers: [{ ...WELL.issuers[0]!, keys: [] }] },
			['error issuers No keys of https://login.example.com: its tokens are refused'],
		],
		'a budget that is nearly taken, and one that is': [
			{
				memory: [
					{ ...WELL.memory[0]!, used: 95, limit: 100 },
					{ ...WELL.memory[1]!, used: 7, limit: 7 },
				],
			},
			[
				'error memory The limit for client connections (limits.max_connections) is 100 % used',
				'warning memory The limit for request and response bodies (limits.max_buffered_bytes) is 95 % used',
			],
		],
		'parts whose last reload failed, and none that has succeeded since': [
			{
				reloads: {
					...WELL.reloads,
					last: [
						{ part: 'tls', outcome: 'success', at: ago(1), asked: 'SIGHUP', cause: null, generation: 2 },
						{ part: 'routes', outcome: 'failure', at: ago(2), asked: 'SIGHUP', cause: 'x', generation: 1 },
						{ part: 'tls', outcome: 'failure', at: ago(3), asked: 'SIGHUP', cause: 'x', generation: 1 },
					],
				},
			},
			['error reloads The last reload of routes failed: the previous state stays in force'],
		],
		'a log that cannot be written': [
			{ log: { lost_total: 3, failing_since: ago(60), cause: 'ENOSPC' } },
			['error memory The log cannot be written (ENOSPC): 3 lines lost since the start'],
		],
		'settings that need a restart': [
			{
				reloads: {
					...WELL.reloads,
					needs_restart: ['a (c.toml:3)', 'b (c.toml:3)'],
					needs_restart_since: ago(60),
				},
			},
			['warning reloads 2 settings need a restart: a (c.toml:3), b (c.toml:3)'],
		],
	};
	for (const [name, [found, expected]] of Object.entries(cases)) {
		test(`is ${name}`, () => {
			const { problems, well } = judge({ ...WELL, ...found });
			assert.deepEqual(
				problems.map(({ severity, panel, text }) => `${severity} ${panel} ${text}`),
				expected,
			);
			assert.equal(well, expected.length === 0);
		});
	}
});

describe('a problem', () => {
	test('has the share of the last minute that failed, the time it began, and what to look at', () => {
		const share = (kind: ShareStatus['kind'], count: number, total: number, over_since: string | null = ago(70)) => {
			return { kind, count, total, last_ten_minutes: { count, total }, bound: 0.05, over_since };
		};
		const shares = [
			share('401', 556, 556),
			share('429', 30, 100),
			share('5xx', 33, 100),
			share('grpc', 7, 40),
			share('handshakes', 5, 20),
			share('401', 556, 556, null),
		];
		const { problems } = judge({ ...WELL, shares });
		assert.deepEqual(
			problems.map(({ severity, text, link }) => `${severity} ${text} ${link}`),
			[
				'error 556 of 556 responses of the last minute are 401 (100 %) #refusals',
				'error 33 of 100 responses of the last minute are 500 or above (33 %) #upstreams',
				'error 7 of 40 gRPC calls of the last minute failed (17 %) #grpc',
				'warning 30 of 100 responses of the last minute are 429 (30 %) #refusals',
				'warning 5 of 20 TLS handshakes of the last minute failed (25 %) #handshakes',
			],
		);
		assert.equal(problems[0]!.since, ago(70));
		assert.match(problems[0]!.look, /proxy::auth/);
	});

	test('links to its upstreams, on whichever page they are', () => {
		const upstreams = Array.from({ length: 40 }, (_, i) => ({ ...UPSTREAM, upstream: `u${i}:80` }));
		const dead: Partial<UpstreamStatus> = {
			breaker: { ...inState('open'), since: '2027-01-15T08:00:00.000Z' },
			health: 'unhealthy',
		};
		const shown = (...indexes: number[]) => {
			const found = {
				...WELL,
				upstreams: upstreams.map((one, i) => (indexes.includes(i) ? { ...one, ...dead } : one)),
			};
			const [{ link, since } = { link: '', since: '' }] = judge(found).problems;
			assert.equal(since, '2027-01-15T08:00:00.000Z');
			assert.match(bodyOf(found), new RegExp(`<a href="${link.replaceAll('?', '\\?').replaceAll('&', '&amp;')}">`));
			const page = pageOf(judge(found), parseView(new URL(link, 'http://a').search));
			return page.upstreams.items.map(({ upstream }) => upstream);
		};
		assert.deepEqual(shown(30, 38), ['u30:80', 'u38:80']);
		assert.deepEqual(shown(38), ['u38:80']);
	});

	test('has its beginning if that is known', () => {
		const certificates = [{ ...WELL.certificates[0]!, not_after: ago(-86_400 * 9), days_left: 9 }];
		const upstreams = [{ ...UPSTREAM, health: 'unhealthy' as const, health_since: ago(8) }];
		const issuers = [{ ...WELL.issuers[0]!, keys: [], age_seconds: null }];
		const { problems } = judge({ ...WELL, certificates, upstreams, issuers });
		assert.deepEqual(
			problems.map(({ panel, since }) => [panel, since]),
			[
				['issuers', WELL.process.started_at],
				['upstreams', ago(8)],
				['certificates', ago(86_400 * 5)],
			],
		);
	});

	test('leads to something on the page, and says what to look at', () => {
		const body = bodyOf(exampleFound());
		const { problems } = judge(exampleFound());
		assert.ok(problems.length > 3);
		for (const { link, panel, look } of problems) {
			assert.ok(body.includes(`id="${panel}"`) && link.endsWith(`#${panel}`), link);
			assert.ok(look.length > 5);
		}
	});
});

describe('refusals', () => {
	test('are by reason and status, the latest first, without those that never happened', () => {
		const refusals = countsOf(
			'refusals',
			{
				...readCounters([]),
				responses: new Map([
					[401, 1_932],
					[404, 288],
					[429, 540],
					[503, 0],
				]),
				auth: new Map([
					['missing', 214],
					['invalid', 1_718],
				]),
				forbidden: new Map([['tenant', 0]]),
				rateLimited: new Map([['tenant', 540]]),
			},
			{ rise: (counter, now) => (counter === 'refusals no route' ? 0 : now) },
		);
		// 401 and 429 are counted by reason, and not once more by status.
		assert.deepEqual(refusals, [
			{ reason: 'token invalid', status: 401, total: 1_718, last_ten_minutes: 1_718 },
			{ reason: "over the tenant's rate", status: 429, total: 540, last_ten_minutes: 540 },
			{ reason: 'token missing', status: 401, total: 214, last_ten_minutes: 214 },
			{ reason: 'no route', status: 404, total: 288, last_ten_minutes: 0 },
		]);
	});
});

describe('statuses of gRPC', () => {
	const of = (upstream: string, ...counts: readonly (readonly [code: number, total: number, lately: number])[]) => ({
		...UPSTREAM,
		upstream,
		grpc: counts.map(([code, total, lately]) => {
			return { code, status: GRPC_STATUS_NAMES[code]!, total, last_ten_minutes: lately };
		}),
	});
	const upstreams = [
		of('a:1', [0, 500, 50], [5, 9, 9], [14, 70, 0]),
		of('b:2', [0, 900, 90], [14, 4, 2]),
		of('c:3', [14, 1, 1], [13, 1, 1]),
		of('d:4', [14, 80, 0]),
	];

	test('are added up over upstreams: failures first, OK last, each with its recent upstreams', () => {
		assert.deepEqual(grpcStatuses(upstreams), [
			{
				...{ code: 14, status: 'UNAVAILABLE', total: 155, last_ten_minutes: 3 },
				...{ upstreams: ['b:2', 'c:3', 'd:4'], upstreams_total: 4 },
			},
			{ code: 13, status: 'INTERNAL', total: 1, last_ten_minutes: 1, upstreams: ['c:3'], upstreams_total: 1 },
			{ code: 5, status: 'NOT_FOUND', total: 9, last_ten_minutes: 9, upstreams: ['a:1'], upstreams_total: 1 },
			{ code: 0, status: 'OK', total: 1400, last_ten_minutes: 140, upstreams: ['b:2', 'a:1'], upstreams_total: 2 },
		]);
	});

	test('are in a panel and at the upstream after the first call; a recent failure has a sign', () => {
		const found = { ...WELL, upstreams, grpc: grpcStatuses(upstreams) };
		const body = bodyOf(found);
		const panel = /<section id="grpc"[\s\S]*?<\/section>/.exec(body)?.[0] ?? '';
		const signs = [...panel.matchAll(/badge (\w+)"><span aria-hidden="true">.<\/span> (.+?)<\/span>/g)];
		assert.deepEqual(
			signs.map(([, state, status]) => [state, status]),
			[
				['bad', '14 UNAVAILABLE'],
				['bad', '13 INTERNAL'],
				['doubtful', '5 NOT_<wbr>FOUND'],
			],
		);
		assert.match(panel, /<th scope="row">0 OK <small>b:<wbr>2,<wbr> a:<wbr>1<\/small><\/th>/);
		assert.match(body, /gRPC in the last ten minutes: 14 UNAVAILABLE 1×, 13 INTERNAL 1×</);
		assert.doesNotMatch(bodyOf({ ...WELL, upstreams: [UPSTREAM], grpc: [] }), /gRPC/);
		// What happened long ago is in the table only.
		const past = [of('d:4', [14, 80, 0])];
		const later = bodyOf({ ...WELL, upstreams: past, grpc: grpcStatuses(past) });
		assert.match(later, /<th scope="row">14 UNAVAILABLE <small>/);
		assert.doesNotMatch(later, /gRPC in the last/);
	});
});

describe('a snapshot', () => {
	test('has the members that docs/reference/status.md promises, and no others', () => {
		const figures = { count: 0, total: 0 };
		const shares: ShareStatus[] = [
			{ kind: '401', ...figures, last_ten_minutes: figures, bound: 0.2, over_since: null },
		];
		const found = exampleFound({ tenants: true });
		// The upstream that speaks gRPC: of a list that is empty nothing is known.
		const page = pageOf(judge({ ...found, shares }), parseView('rows=1&filter=accounts'));
		const docs = readFileSync(new URL('../../../../docs/reference/status.md', import.meta.url), 'utf8');
		const promised = [...docs.matchAll(/^\| `([a-z_\d.]+)` \|/gm)].map(([, member]) => member);
		assert.deepEqual(membersOf(page), promised.sort());
	});

	test('a snapshot of thousands of upstreams gives one page: by name, by prefix, or those in trouble first', () => {
		const snapshot = judge(exampleFound({ others: 3_000 }));
		const found = (query: string) => pageOf(snapshot, parseView(query)).upstreams;
		const names = (query: string) => found(query).items.map((one) => one.upstream);
		const { matching, items, pages, healthy } = found('');
		assert.deepEqual([matching, items.length, pages, healthy], [3_006, 25, 121, 3_004]);
		assert.deepEqual(names('').slice(0, 3), ['reports.internal:8080', '10.4.0.17:9200', 'orders.internal:8080']);
		assert.deepEqual(names('filter=SHARD-77.'), ['shard-77.internal:7000']);
		assert.deepEqual(names('filter=/api/carts'), ['orders.internal:8080']);
		assert.deepEqual(names('show=trouble'), ['reports.internal:8080', '10.4.0.17:9200']);
	});
});

describe('the page', () => {
	test('is bounded for any amount of data', () => {
		const many = exampleFound({ others: 5_000 });
		const certificates = Array.from({ length: 500 }, (_, i) => ({ ...many.certificates[0]!, serial: `${i}` }));
		const workers = { ...many.workers, each: Array.from({ length: 64 }, () => many.workers.each[0]!) };
		const found = { ...many, certificates, workers };
		assert.ok(bodyOf(found).length < 120_000, `${bodyOf(found).length}`);
		assert.ok(bodyOf(found, 'rows=1000000').length < 600_000);
		assert.match(bodyOf(found), /and 450 more, in <a href="\/status.json">/);
	});

	test('names the reason for an upstream that has no address, and does not say that there are no routes', () => {
		const main = bodyOf({ ...exampleFound(), upstreams: [] });
		assert.match(main, /billing <small>billing\.internal:8080<\/small>.*none<.*the name has no addresses.*9×, since/s);
		assert.match(main, /No upstream has an address\./);
		assert.ok(!bodyOf({ ...WELL, dns: [] }).includes('id="dns"'));
	});

	test('colours problems only', () => {
		const coloured = (options: ExampleOptions, rest: Partial<Found> = {}) =>
			[...bodyOf({ ...exampleFound(options), ...rest }).matchAll(/<div class="(?:bad|doubtful)"><dt>([^<]+)/g)].map(
				([, tile]) => tile,
			);
		assert.deepEqual(coloured({ well: true }), []);
		const workers = { ...WELL.workers, listening: 3 };
		const over = { count: 9, total: 10, last_ten_minutes: { count: 9, total: 10 }, bound: 0.05, over_since: ago(60) };
		const shares = (['401', '5xx', 'handshakes'] as const).map((kind) => ({ kind, ...over }));
		assert.deepEqual(coloured({}, { workers, shares }), [
			'Errors, 10 min',
			'Refused, 10 min',
			'TLS failed, 10 min',
			'Upstreams',
			'Workers',
		]);
		assert.match(bodyOf({ ...WELL, shares, upstreams: [{ ...UPSTREAM, error_share: 0.05 }] }), /▲<\/span> 5 %</);
	});

	test('shows the protocol of an upstream, and the number of open WebSockets', () => {
		const body = bodyOf(WELL);
		assert.match(body, /accounts[\s\S]{0,60}<small>HTTP\/2, TLS<\/small>/);
		assert.match(body, /orders[\s\S]{0,60}<small>HTTP\/1\.1<\/small>/);
		assert.match(body, /2<small> \+ 0 idle, 14 in flight<\/small>/);
		assert.match(body, /<dt>WebSockets open<\/dt><dd>12</);
		assert.match(body, />WebSocket ended: token_expired</);
		assert.doesNotMatch(body, />WebSocket ended: client</, 'an end as it should be');
		const connections = { ...WELL.connections, websockets: 0, websocket_ends: [] };
		assert.doesNotMatch(bodyOf({ ...WELL, connections, upstreams: [UPSTREAM] }), /HTTP\/2, TLS|WebSocket/);
	});

	test('shows the state of an upstream in one line, with details to open', () => {
		const body = bodyOf(exampleFound());
		assert.match(body, /<details id="state reports[^>]*><summary>.*open<\/span> <small>3 min<\/small><\/summary>/);
		assert.match(body, /Breaker open since .*: health: connection refused<\/li><li>Opened 1×/);
		assert.match(body, /Health check: connection refused: start it, or correct the port/);
		assert.equal(bodyOf({ ...WELL, upstreams: [UPSTREAM] }).includes('<details'), false);
	});

	test('shows names from outside as text', () => {
		const hostile = `</script><script>alert(1)</script>"onload='x'`;
		const found = exampleFound({ hostile, tenants: true });
		const page = inOneGo(
			renderPage(
				pageOf(judge(found), parseView(`filter=${encodeURIComponent(hostile)}`)),
				parseView(`filter=${encodeURIComponent(hostile)}&page=2`),
				assetsOf('', []),
			),
		);
		assert.ok(!page.includes('<script>alert'));
		assert.ok(!page.includes(`"onload`) && !page.includes(`'x'`));
		assert.ok(page.includes('&lt;script&gt;alert(1)&lt;/script&gt;'));
	});

	test('has another build when a style or a script changes', () => {
		const builds = [assetsOf('a', []), assetsOf('b', []), assetsOf('a', ['c'])].map(({ build }) => build);
		assert.equal(new Set(builds).size, 3);
	});

	test('has one heading and a table with a caption in each panel', () => {
		const main = bodyOf(exampleFound({ tenants: true }));
		const sections = main.split('<section ').slice(1);
		assert.equal(sections.length, 15);
		for (const section of sections) assert.equal(section.split('<h2').length, 2, section.slice(0, 60));
		assert.equal(main.split('<table').length, main.split('<caption').length);
		assert.doesNotMatch(main, /<th(?![^>]*scope=)[\s>]/);
		const ids = [...main.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
		assert.equal(new Set(ids).size, ids.length);
	});
});

/** Names of all members, with a dot for each level; of lists those of the first element. */
function membersOf(value: unknown, prefix = ''): string[] {
	if (Array.isArray(value))
		return typeof value[0] === 'object' && value[0] !== null ? membersOf(value[0], prefix) : [prefix];
	if (typeof value !== 'object' || value === null) return [prefix];
	return Object.entries(value)
		.flatMap(([name, member]) => membersOf(member, prefix === '' ? name : `${prefix}.${name}`))
		.sort();
}
