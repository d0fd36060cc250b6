import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { assetsOf, readAssets } from '../../../../src/control/status/assets.ts';
import type { Facts, UpstreamFacts } from '../../../../src/control/status/facts.ts';
import { changes, htmlOf } from '../../../../src/control/status/fragment.ts';
import { renderMain, renderPage } from '../../../../src/control/status/page.ts';
import type { Chart, Snapshot } from '../../../../src/control/status/schema.ts';
import type { Share } from '../../../../src/control/status/shares.ts';
import { pageOfSnapshot, takeSnapshot } from '../../../../src/control/status/snapshot.ts';
import { parseView, type View } from '../../../../src/control/status/view.ts';
import { HALF_OPEN, OPEN } from '../../../../src/gates/breaker.ts';
import { inOneGo } from '../../../fixtures/in-one-go.ts';
import { exampleFacts } from '../../../system/status/example.ts';

const POINTS = Array.from({ length: 60 }, (_, i) => 1000.5 + i);
const CHART: Chart = { requests_per_second: POINTS, p50_seconds: POINTS, p99_seconds: POINTS };
const POINT = { requests_per_second: 1059.5, p50_seconds: 0.01, p99_seconds: 0.02 };
const HISTORY = {
	latest: () => POINT,
	chart: () => CHART,
	total: () => CHART,
	rise: (_: string, now: number) => now,
	shares: (): Share[] => [],
};

const snapshotOf = (facts: Facts) => inOneGo(takeSnapshot(facts, HISTORY));
const WELL = exampleFacts({ well: true });

const pageOf = (snapshot: Snapshot, view: View, nowMs = 0) => inOneGo(pageOfSnapshot(snapshot, view, HISTORY, nowMs));

function mainOf(facts: Facts, query = ''): string {
	const view = parseView(query);
	return htmlOf(inOneGo(renderMain(pageOf(snapshotOf(facts), view, facts.monotonicMs), view, 'b')));
}

const NAME = WELL.names[0]!;
const FAILING = { failures: 7, cause: 'no answer of the name server' };

describe('what is not well', () => {
	const base = WELL.upstreams[0]!;
	const cases: Record<string, [facts: Partial<Facts>, problems: string[]]> = {
		nothing: [{}, []],
		'an open breaker': [
			{ upstreams: [{ ...base, circuit: OPEN }] },
			['error upstreams A breaker is open: orders.internal:8080'],
		],
		'many open breakers': [
			{ upstreams: Array.from({ length: 9 }, (_, i) => ({ ...base, upstream: `u:${i}`, circuit: OPEN })) },
			['error upstreams 9 breakers are open: u:0, u:1, u:2 and 6 more'],
		],
		'a half-open breaker': [
			{ upstreams: [{ ...base, circuit: HALF_OPEN }] },
			['warning upstreams A breaker is half-open: orders.internal:8080'],
		],
		'an upstream that fails its health check while its breaker is closed': [
			{ upstreams: [{ ...base, alive: false }] },
			['warning upstreams An upstream fails its health check: orders.internal:8080'],
		],
		'a name that has no address, whether DNS says why or nothing yet': [
			{ names: [{ ...NAME, addresses: 0, failing: { ...FAILING, sinceSeconds: WELL.wallMs / 1000 } }] },
			['error dns An upstream has no address: search (search.internal:9200: no answer of the name server)'],
		],
		'many names without an address': [
			{ names: Array.from({ length: 5 }, (_, i) => ({ ...NAME, name: `n${i}:80`, addresses: 0, ageMs: undefined })) },
			['error dns 5 upstreams have no address: search (n0:80), search (n1:80), search (n2:80) and 2 more'],
		],
		'a name server that has been away for a minute, and none that is for seconds': [
			{
				names: [
					{ ...NAME, failing: { ...FAILING, sinceSeconds: WELL.wallMs / 1000 - 60 } },
					{ ...NAME, failing: { ...FAILING, sinceSeconds: WELL.wallMs / 1000 - 59 } },
				],
			},
			[
				'warning dns DNS fails for an upstream: search (search.internal:9200: no answer of the name server); the last addresses hold',
			],
		],
		'a worker that is gone': [{ listening: 3 }, ['error workers 1 of 4 workers does not accept connections']],
		'not being ready': [{ obstacle: 'starting', listening: 0 }, ['error workers Not ready: starting']],
		'a certificate that expires soon, and one that has': [
			{
				certificates: [
					{ kind: 'server', subject: 'CN=a', serial: '1', expiresSeconds: WELL.wallMs / 1000 + 86_400 * 3.5 },
					{ kind: 'client_ca', subject: 'CN=b', serial: '2', expiresSeconds: WELL.wallMs / 1000 - 1 },
					{ kind: 'server_chain', subject: 'CN=c', serial: '3', expiresSeconds: WELL.wallMs / 1000 + 86_400 * 14.5 },
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
					{ kind: 'crl', subject: 'CN=a', serial: '', expiresSeconds: WELL.wallMs / 1000 - 60 },
					{ kind: 'crl', subject: 'CN=b', serial: '', expiresSeconds: WELL.wallMs / 1000 + 60 },
				],
			},
			['error certificates The CRL of CN=a is overdue'],
		],
		'a store of limits that is away': [
			{ store: { ...WELL.store!, isAway: true, reason: 'timeout' } },
			['warning limits The store of the shared limits is away (timeout): each replica allows its share of the limits'],
		],
		'a store of limits that answers late': [
			{ store: { ...WELL.store!, delayMs: 1_234 } },
			['warning limits The store of the shared limits is slow: replicas learn of each other within 1.23 s'],
		],
		'a store of limits that is away, where that refuses requests': [
			{ store: { ...WELL.store!, isAway: true, reason: undefined, onStoreFailure: 'refuse' } },
			['error limits The store of the shared limits is away (no answer yet): requests under a limit are refused'],
		],
		'an issuer without keys': [
			{ issuers: [{ ...WELL.issuers[0]!, kids: [] }] },
			['error issuers No keys of https://login.example.com: its tokens are refused'],
		],
		'a budget that is nearly taken, and one that is': [
			{ bodyBudget: { used: 95, limit: 100 }, connectionBudget: { used: 7, limit: 7 } },
			[
				'error memory The limit for client connections (limits.max_connections) is 100 % taken',
				'warning memory The limit for request and answer bodies (limits.max_buffered_bytes) is 95 % taken',
			],
		],
		'parts whose last reload failed, and none that has succeeded since': [
			{
				reloads: {
					success: 1,
					failure: 1,
					last: [
						{ part: 'tls', result: 'success', atSeconds: 3, asked: 'SIGHUP', cause: undefined, generation: 2 },
						{ part: 'routes', result: 'failure', atSeconds: 2, asked: 'SIGHUP', cause: 'x', generation: 1 },
						{ part: 'tls', result: 'failure', atSeconds: 1, asked: 'SIGHUP', cause: 'x', generation: 1 },
					],
				},
			},
			['error reloads The last reload of routes failed: what was there before is in force'],
		],
		'a log that cannot be written': [
			{
				log: { accessLines: 2, lines: 3, failing: { code: 'ENOSPC', sinceSeconds: WELL.wallMs / 1000 - 60 } },
			},
			['error memory The log cannot be written (ENOSPC): 3 lines lost since the start'],
		],
		'settings that need a restart': [
			{
				reloads: {
					...WELL.reloads,
					needsRestart: {
						settings: ['a', 'b'].map((key) => ({ key, words: `${key} (c.toml:3)` })),
						sinceSeconds: WELL.wallMs / 1000 - 60,
					},
				},
			},
			['warning reloads 2 settings need a restart: a (c.toml:3), b (c.toml:3)'],
		],
	};
	for (const [name, [facts, expected]] of Object.entries(cases)) {
		test(`is ${name}`, () => {
			const { problems, well } = snapshotOf({ ...WELL, ...facts });
			assert.deepEqual(
				problems.map(({ severity, panel, text }) => `${severity} ${panel} ${text}`),
				expected,
			);
			assert.equal(well, expected.length === 0);
		});
	}
});

describe('a problem', () => {
	const problemsOf = (facts: Partial<Facts>, history = HISTORY) =>
		inOneGo(takeSnapshot({ ...WELL, ...facts }, history)).problems;

	test('says how much of the last minute went wrong, since when, and what to look at', () => {
		const share = (kind: Share['kind'], count: number, total: number): Share => ({ kind, count, total, sinceMs: 0 });
		const shares = [share('401', 556, 556), share('429', 30, 100), share('5xx', 33, 100), share('handshakes', 5, 20)];
		const problems = problemsOf({}, { ...HISTORY, shares: () => [...shares, { ...shares[0]!, sinceMs: undefined }] });
		assert.deepEqual(
			problems.map(({ severity, text, link }) => `${severity} ${text} ${link}`),
			[
				'error 556 of 556 answers of the last minute are 401 (100 %) #refusals',
				'error 33 of 100 answers of the last minute are 500 or above (33 %) #upstreams',
				'warning 30 of 100 answers of the last minute are 429 (30 %) #refusals',
				'warning 5 of 20 TLS handshakes of the last minute failed (25 %) #handshakes',
			],
		);
		assert.equal(problems[0]!.since, new Date(WELL.wallMs - WELL.monotonicMs).toISOString());
		assert.match(problems[0]!.look, /proxy::auth/);
	});

	test('links to the upstreams that it is about, wherever they stand among those that are well', () => {
		const [base] = WELL.upstreams;
		const upstreams: UpstreamFacts[] = Array.from({ length: 40 }, (_, i) => ({ ...base!, upstream: `u${i}:80` }));
		const dead: Partial<UpstreamFacts> = {
			circuit: OPEN,
			alive: false,
			transition: { wallSeconds: 1_800_000_000, reason: 'health', cause: '' },
		};
		const shown = (...indexes: number[]) => {
			const facts = {
				...WELL,
				upstreams: upstreams.map((one, i) => (indexes.includes(i) ? { ...one, ...dead } : one)),
			};
			const [{ link, since } = { link: '', since: '' }] = snapshotOf(facts).problems;
			assert.equal(since, '2027-01-15T08:00:00.000Z');
			assert.match(mainOf(facts), new RegExp(`<a href="${link.replaceAll('?', '\\?').replaceAll('&', '&amp;')}">`));
			const page = pageOf(snapshotOf(facts), parseView(new URL(link, 'http://a').search));
			return page.upstreams.items.map(({ upstream }) => upstream);
		};
		assert.deepEqual(shown(30, 38), ['u30:80', 'u38:80']);
		assert.deepEqual(shown(38), ['u38:80']);
	});

	test('leads to something on the page, and says what to look at', () => {
		const main = mainOf(exampleFacts());
		const { problems } = snapshotOf(exampleFacts());
		assert.ok(problems.length > 3);
		for (const { link, panel, look } of problems) {
			assert.ok(main.includes(`id="${panel}"`) && link.endsWith(`#${panel}`), link);
			assert.ok(look.length > 5);
		}
	});
});

describe('a snapshot', () => {
	test('says why and since when a breaker is open', () => {
		const { breaker, health } = snapshotOf(exampleFacts()).upstreams[4]!;
		assert.deepEqual(breaker, {
			state: 'open',
			since: '2026-09-15T14:28:49.000Z',
			reason: 'health',
			cause: 'health: connection refused',
			opened_total: 1,
		});
		assert.equal(health, 'unhealthy');
	});

	test('has each name that DNS is asked for, with what has come of it', () => {
		assert.deepEqual(snapshotOf(exampleFacts()).dns[1], {
			group: 'billing',
			name: 'billing.internal:8080',
			routes: ['/api/billing'],
			addresses: 0,
			age_seconds: null,
			failing_since: '2026-09-15T14:30:32.000Z',
			failures: 9,
			cause: 'the name has no addresses',
		});
	});

	test('has refusals by reason and status, the latest first, and leaves out what has never been', () => {
		const { refusals } = snapshotOf(WELL);
		assert.deepEqual(refusals.slice(0, 3), [
			{ reason: 'token invalid', status: 401, total: 1_718, last_ten_minutes: 1_718 },
			{ reason: "over the tenant's rate", status: 429, total: 540, last_ten_minutes: 540 },
			{ reason: 'no route', status: 404, total: 288, last_ten_minutes: 288 },
		]);
		assert.ok(refusals.every(({ total }) => total > 0));
		// 401, 403 and 429 are counted by reason, and not once more by status.
		assert.equal(
			refusals.filter(({ status }) => status === 401).reduce((sum, { total }) => sum + total, 0),
			1_932,
		);
	});

	test('has the members that docs/reference/status.md promises, and no others', () => {
		const view = parseView('rows=1');
		const history = { ...HISTORY, shares: (): Share[] => [{ kind: '401', count: 0, total: 0, sinceMs: undefined }] };
		const page = pageOf(inOneGo(takeSnapshot(exampleFacts({ tenants: true }), history)), view);
		const docs = readFileSync(new URL('../../../../docs/reference/status.md', import.meta.url), 'utf8');
		const promised = [...docs.matchAll(/^\| `([a-z_\d.]+)` \|/gm)].map(([, member]) => member);
		assert.deepEqual(membersOf(page), promised.sort());
	});

	test('leaves tenants out unless they are to be shown', () => {
		assert.equal(snapshotOf(WELL).tenants, null);
		assert.ok(!mainOf(WELL).includes('id="tenants"'));
	});

	test('of thousands of upstreams gives one page, by name, by prefix, or of those in trouble', () => {
		const facts = exampleFacts({ others: 3_000 });
		const snapshot = snapshotOf(facts);
		const found = (query: string) => pageOf(snapshot, parseView(query)).upstreams;
		assert.deepEqual([found('').matching, found('').items.length, found('').pages], [3_006, 25, 121]);
		assert.deepEqual(
			found('filter=SHARD-77.').items.map((one) => one.upstream),
			['shard-77.internal:7000'],
		);
		assert.deepEqual(
			found('filter=/api/carts').items.map((one) => one.upstream),
			['orders.internal:8080'],
		);
		assert.deepEqual(
			found('show=trouble').items.map((one) => one.upstream),
			['10.4.0.17:9200', 'reports.internal:8080'],
		);
	});
});

describe('the page', () => {
	test('is bounded, however much there is to show', () => {
		const many = exampleFacts({ others: 5_000 });
		const certificates = Array.from({ length: 500 }, (_, i) => ({ ...many.certificates[0]!, serial: `${i}` }));
		const facts = { ...many, certificates, workers: Array.from({ length: 64 }, () => many.workers[0]!) };
		assert.ok(mainOf(facts).length < 120_000, `${mainOf(facts).length}`);
		assert.ok(mainOf(facts, 'rows=1000000').length < 600_000);
		assert.match(mainOf(facts), /and 450 more, in <a href="\/status.json">/);
	});

	test('names the reason for an upstream that has no address, and does not say that there are no routes', () => {
		const main = mainOf({ ...exampleFacts(), upstreams: [] });
		assert.match(main, /billing <small>billing\.internal:8080<\/small>.*none<.*the name has no addresses.*9×, since/s);
		assert.match(main, /No upstream has an address\./);
		assert.ok(!mainOf({ ...WELL, names: [] }).includes('id="dns"'));
	});

	test('sends little when little has changed', () => {
		const render = (facts: Facts) => {
			const view = parseView('');
			return inOneGo(renderMain(pageOf(snapshotOf(facts), view), view, 'b'));
		};
		const [first, ...others] = WELL.upstreams;
		const after = { ...WELL, upstreams: [{ ...first!, active: first!.active + 1 }, ...others] };
		const [update, ...more] = changes(render(WELL), render(after));
		assert.match(update!, /^<tr id="upstream-0"/);
		assert.deepEqual(more, []);
		assert.deepEqual(changes(render(WELL), render(WELL)), []);
	});

	test('shows what others have named as text', () => {
		const hostile = `</script><script>alert(1)</script>"onload='x'`;
		const facts = exampleFacts({ hostile, tenants: true });
		const page = inOneGo(
			renderPage(
				pageOf(snapshotOf(facts), parseView(`filter=${encodeURIComponent(hostile)}`)),
				parseView(`filter=${encodeURIComponent(hostile)}&page=2`),
				assetsOf('', []),
			),
		);
		assert.ok(!page.includes('<script>alert'));
		assert.ok(!page.includes(`"onload`) && !page.includes(`'x'`));
		assert.ok(page.includes('&lt;script&gt;alert(1)&lt;/script&gt;'));
	});

	test('has one heading and a table with a caption in each panel', () => {
		const main = mainOf(exampleFacts({ tenants: true }));
		const sections = main.split('<section ').slice(1);
		assert.equal(sections.length, 14);
		for (const section of sections) assert.equal(section.split('<h2').length, 2, section.slice(0, 60));
		assert.equal(main.split('<table').length, main.split('<caption').length);
		assert.doesNotMatch(main, /<th(?![^>]*scope=)[\s>]/);
		const ids = [...main.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
		assert.equal(new Set(ids).size, ids.length);
	});

	test('is made of files that end no element, each named by its hash', () => {
		const { policy, scripts } = readAssets();
		assert.equal(scripts.length, 3);
		assert.equal(policy.match(/'sha256-/g)!.length, 4);
		assert.notEqual(assetsOf('a', []).build, assetsOf('b', []).build);
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
