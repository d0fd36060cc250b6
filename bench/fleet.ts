/**
 * One limit over many replicas, simulated: the proxy's own limiter and settlement, with a simulated store, network and clock. The same
 * seed gives the same figures on any machine.
 *
 *   npm run fleet                  all cases, some minutes: bench/fleet.json, docs/images/fleet.svg, and the rows of docs/internals/shared-rate-limits.md
 *   node bench/fleet.ts --draw     draws the chart and the rows again from bench/fleet.json
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { LEAST_SLACK_MS } from '../packages/proxy/src/control/store/settlement.ts';
import { Fleet } from '../test/models/fleet.ts';

export interface FleetCase {
	readonly replicas: number;
	readonly tenants: number;
	/** Rate and burst of each tenant. */
	readonly rps: number;
}

export interface FleetResult extends FleetCase {
	/** Requests per second of all tenants. */
	readonly asked: number;
	/** The most that a tenant was admitted beyond its rate in any window, in percent of the promised bound. */
	readonly mostPercent: number;
	/** Tenants that send three times their rate: what they were admitted after the first burst was paid back, in percent of the rate. */
	readonly overPercent: number;
	/** Tenants within their rate: the least that one of them was admitted, in percent of its requests. */
	readonly leastPercent: number;
	/** The same for all of them together. */
	readonly servedPercent: number;
	/** Load of the store per second: round trips of all replicas, and keys in them. */
	readonly trips: number;
	readonly keys: number;
	/** Time from the end of an outage of 5 s until all replicas share their limits again, ms. */
	readonly recoveryMs: number;
	/** After the outage: the most that a tenant was admitted, like `mostPercent`. */
	readonly mostAfterPercent: number;
}

export const FLEET_CASES: readonly FleetCase[] = [
	{ replicas: 3, tenants: 10, rps: 10 },
	{ replicas: 3, tenants: 10, rps: 100 },
	{ replicas: 3, tenants: 1_000, rps: 100 },
	{ replicas: 10, tenants: 1_000, rps: 100 },
	{ replicas: 50, tenants: 10, rps: 10 },
	{ replicas: 200, tenants: 10, rps: 100 },
	{ replicas: 1_000, tenants: 10, rps: 100 },
];

const SEED = 1;
/** Round-trip time to the store, ms: 1 to 3. */
const LATENCY = [0.5, 1] as const;
/** Twice the time to pay back a burst that was spent at all replicas at once. */
const WARM_MS = 12_000;
const STEADY_MS = 12_000;
const OUTAGE_MS = 5_000;
const AFTER_MS = 12_000;
/** Requests per second of all tenants with a low rate. */
const LITTLE = 6_000;

/** @param scale below 1: a shorter run, for tests. */
export function simulate(given: FleetCase, scale = 1): FleetResult {
	const { replicas, tenants, rps } = given;
	const random = randomFrom(SEED);
	let isAway = false;
	const latency = () => (isAway ? undefined : LATENCY[0] + random() * LATENCY[1]);
	const slots = powerOfTwo(Math.min(4 * tenants, 400_000 / Math.sqrt(replicas)));
	const fleet = new Fleet({ replicas, tenants, rps, burst: rps, slots, latency });
	const demand = demandOf(given);
	const ask = asking(fleet, demand, replicas, random);
	const until = (condition: () => boolean) => {
		const from = fleet.now;
		while (!condition() && fleet.now - from < 60_000) fleet.run(10, ask);
		return fleet.now - from;
	};

	// Replicas serve after the store's first response.
	fleet.run(1_000, () => {});
	fleet.run(WARM_MS, ask);
	const { now: from, trips, keysSent } = fleet;
	fleet.run(STEADY_MS * scale, ask);
	const seconds = (fleet.now - from) / 1_000;
	const steady = { trips: (fleet.trips - trips) / seconds, keys: (fleet.keysSent - keysSent) / seconds };
	const over = percent(
		sum(demand.over, (tenant) => fleet.admitted(tenant, from)),
		sum(demand.over, () => rps * seconds),
	);
	const within = [...demand.full, ...demand.little];
	const served = percent(
		sum(within, (tenant) => fleet.admitted(tenant)),
		sum(within, (tenant) => fleet.asked(tenant)),
	);
	const least = Math.min(...demand.full.map((tenant) => percent(fleet.admitted(tenant), fleet.asked(tenant))));
	const most = mostPercent(fleet, given, 0);

	isAway = true;
	fleet.run(OUTAGE_MS, ask);
	isAway = false;
	const back = fleet.now;
	const all = Array.from({ length: replicas }, (_, i) => fleet.settlement(i));
	const recoveryMs = until(() => all.every(({ away }) => away.shards === 0));
	fleet.run(AFTER_MS * scale, ask);
	return {
		...given,
		asked: Math.round(demand.perSecond),
		mostPercent: most,
		overPercent: over,
		leastPercent: least,
		servedPercent: served,
		trips: Math.round(steady.trips),
		keys: Math.round(steady.keys),
		recoveryMs,
		mostAfterPercent: mostPercent(fleet, given, back),
	};
}

/** `N * burst + (N + 1) * rps * U`: docs/internals/shared-rate-limits.md. */
function mostPercent(fleet: Fleet, { replicas, tenants, rps }: FleetCase, from: number): number {
	const beyond = Array.from({ length: Math.min(tenants, 100) }, (_, tenant) => fleet.mostBeyondRate(tenant, from));
	return percent(Math.max(...beyond), replicas * rps + ((replicas + 1) * rps * LEAST_SLACK_MS) / 1000);
}

interface Demand {
	/** Tenants that send three times their rate, exactly their rate, and little. */
	readonly over: readonly number[];
	readonly full: readonly number[];
	readonly little: readonly number[];
	/** Requests per second: of all, and of each with little. */
	readonly perSecond: number;
	readonly each: number;
	readonly rps: number;
}

function demandOf({ tenants, rps }: FleetCase): Demand {
	const over = Math.max(1, Math.min(5, Math.floor(tenants / 100), Math.floor(3_000 / rps)));
	const full = Math.min(tenants - over, 40, Math.max(2, Math.floor(6_000 / rps)));
	const little = tenants - over - full;
	const each = little === 0 ? 0 : Math.min(rps / 2, LITTLE / little);
	const numbers = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);
	return {
		over: numbers(0, over),
		full: numbers(over, full),
		little: numbers(over + full, little),
		perSecond: 3 * over * rps + full * rps + little * each,
		each,
		rps,
	};
}

/** Each tenant uses all replicas with its own weights: some send nearly everything to one, some spread evenly. */
function asking(fleet: Fleet, demand: Demand, replicas: number, random: () => number): (now: number) => void {
	const owed = { over: 0, full: 0, little: 0 };
	const turns = { over: 0, full: 0, little: 0 };
	const replicaFor = (tenant: number) => {
		const skew = 1 + (tenant % 4);
		return (Math.floor(random() ** skew * replicas) + tenant * 7) % replicas;
	};
	const some = (kind: keyof typeof owed, perSecond: number) => {
		const tenants = demand[kind];
		if (tenants.length === 0) return;
		for (owed[kind] += perSecond / 1_000; owed[kind] >= 1; owed[kind]--) {
			const tenant = tenants[turns[kind]++ % tenants.length]!;
			fleet.ask(tenant, replicaFor(tenant));
		}
	};
	return () => {
		some('over', 3 * demand.over.length * demand.rps);
		some('full', demand.full.length * demand.rps);
		some('little', demand.little.length * demand.each);
	};
}

function randomFrom(seed: number): () => number {
	let state = seed >>> 0;
	return () => {
		state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
		return state / 2 ** 32;
	};
}

function powerOfTwo(atLeast: number): number {
	return 2 ** Math.max(6, Math.ceil(Math.log2(atLeast)));
}

function sum(tenants: readonly number[], of: (tenant: number) => number): number {
	return tenants.reduce((all, tenant) => all + of(tenant), 0);
}

function percent(part: number, of: number): number {
	return Math.round((1_000 * part) / of) / 10;
}

// --- Output. ---

const ROOT = resolve(import.meta.dirname, '..');
export const FLEET_FILE = resolve(ROOT, 'bench/fleet.json');
export const FLEET_CHART = resolve(ROOT, 'docs/images/fleet.svg');
export const FLEET_PAGE = resolve(ROOT, 'docs/internals/shared-rate-limits.md');

export function readFleetResults(): readonly FleetResult[] {
	return JSON.parse(readFileSync(FLEET_FILE, 'utf8')) as FleetResult[];
}

const number = (value: number) => value.toLocaleString('en-US');

/** The rows of the table in docs/internals/shared-rate-limits.md. */
export function fleetRows(results: readonly FleetResult[]): string {
	const heads = [
		'Replicas',
		'Tenants',
		'`rps` of each',
		'Requests per second',
		'Largest excess',
		'Tenants over their rate: admitted, of the rate',
		'Tenants within their rate: admitted, of their requests, all / worst tenant',
		'Round trips / keys per second',
		'Recovery',
		'Largest excess after the outage',
	];
	const rows = results.map((one) => [
		number(one.replicas),
		number(one.tenants),
		number(one.rps),
		number(one.asked),
		`${one.mostPercent} %`,
		`${one.overPercent} %`,
		`${one.servedPercent} % / ${one.leastPercent} %`,
		`${number(one.trips)} / ${number(one.keys)}`,
		`${one.recoveryMs} ms`,
		`${one.mostAfterPercent} %`,
	]);
	return [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

const WIDTH = 760;
const LEFT = 190;
const RIGHT = 560;
const ROW_HEIGHT = 22;
const TOP = 64;
/** End of the axis, percent. */
const MOST = 120;

/** Scale of the tenants' shares, from 0: those at their rate, and those over it, next to the rate itself. */
export function drawFleet(results: readonly FleetResult[]): string {
	const scale = (value: number) => LEFT + (value / MOST) * (RIGHT - LEFT);
	const y = (row: number) => TOP + row * ROW_HEIGHT;
	const height = y(results.length) + 30;
	/** A value beyond the axis is an arrow at its end; each row has the numbers. */
	const point = (value: number, cy: number, kind: 'least' | 'over') =>
		value <= MOST
			? `<circle cx="${scale(value).toFixed(1)}" cy="${cy}" r="4" class="${kind}"/>`
			: `<path d="M${RIGHT} ${cy - 4}l8 4l-8 4z" class="${kind}"/>`;
	const rows = results.flatMap((one, row) => {
		const name = `${number(one.replicas)} × ${number(one.tenants)}, ${number(one.rps)}/s`;
		const line = y(row) + 11;
		const cell = (x: number, text: string) =>
			`<text x="${x}" y="${line + 4}" class="text" text-anchor="end">${text}</text>`;
		return [
			cell(LEFT - 12, name),
			`<line x1="${LEFT}" x2="${RIGHT}" y1="${line}" y2="${line}" class="rail"/>`,
			point(one.leastPercent, line - 4, 'least'),
			point(one.overPercent, line + 4, 'over'),
			cell(616, `${one.leastPercent} %`),
			cell(676, `${one.overPercent} %`),
			cell(WIDTH - 16, `${number(one.keys)}/s`),
		];
	});
	const marks = [0, 25, 50, 75, 100].flatMap((value) => [
		`<line x1="${scale(value).toFixed(1)}" x2="${scale(value).toFixed(1)}" y1="${TOP}" y2="${y(results.length)}" class="${value === 100 ? 'limit' : 'rail'}"/>`,
		`<text x="${scale(value).toFixed(1)}" y="${y(results.length) + 18}" class="faint" text-anchor="middle">${value} %</text>`,
	]);
	const said = results.map((one) => {
		const who = `${number(one.replicas)} replicas, ${number(one.tenants)} tenants of ${number(one.rps)}/s`;
		return `${who}: at their rate ${one.leastPercent} %, over it ${one.overPercent} %, ${number(one.keys)} keys a second.`;
	});
	return [
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title desc">`,
		'<title id="title">One limit over many replicas: what tenants get of their rate</title>',
		`<desc id="desc">${said.join(' ')}</desc>`,
		`<style>${FLEET_STYLE}</style>`,
		`<rect width="${WIDTH}" height="${height}" class="ground"/>`,
		'<text x="24" y="28" class="text title">What tenants get of their rate, by replicas × tenants</text>',
		`<circle cx="30" cy="46" r="5" class="least"/><text x="42" y="50" class="faint">asks for its rate: the worst tenant</text>`,
		`<circle cx="300" cy="46" r="5" class="over"/><text x="312" y="50" class="faint">asks for three times as much</text>`,
		'<circle cx="596" cy="46" r="5" class="least"/><circle cx="656" cy="46" r="5" class="over"/>',
		`<text x="${WIDTH - 16}" y="50" class="faint" text-anchor="end">keys</text>`,
		...marks,
		...rows,
		'</svg>',
		'',
	].join('\n');
}

const FLEET_STYLE = `
	svg { color-scheme: light dark; font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; font-variant-numeric: tabular-nums; }
	.ground { fill: #fff; } .text { fill: #1f2328; } .faint { fill: #59636e; } .title { font-size: 16px; font-weight: 600; }
	.rail { stroke: #d0d7de; } .limit { stroke: #59636e; stroke-dasharray: 3 3; } .least { fill: #0969da; } .over { fill: #8250df; }
	@media (prefers-color-scheme: dark) {
		.ground { fill: #0d1117; } .text { fill: #f0f6fc; } .faint { fill: #9198a1; }
		.rail { stroke: #3d444d; } .limit { stroke: #9198a1; } .least { fill: #4493f8; } .over { fill: #ab7df8; }
	}`;

const BEGIN = '<!-- fleet: begin, written by bench/fleet.ts -->';
const END = '<!-- fleet: end -->';

/** The page with these rows in it. */
export function withRows(page: string, results: readonly FleetResult[]): string {
	const [before, after] = [page.indexOf(BEGIN), page.indexOf(END)];
	if (before < 0 || after < before) throw new Error(`docs/internals/shared-rate-limits.md lacks ${BEGIN} and ${END}`);
	return `${page.slice(0, before)}${BEGIN}\n${fleetRows(results)}\n${page.slice(after)}`;
}

function main(): void {
	const { values } = parseArgs({ options: { draw: { type: 'boolean', default: false } } });
	if (!values.draw) {
		const results = FLEET_CASES.map((one) => {
			const begin = performance.now();
			const result = simulate(one);
			console.log(JSON.stringify(result), `${Math.round(performance.now() - begin)} ms`);
			return result;
		});
		writeFileSync(FLEET_FILE, `${JSON.stringify(results, undefined, '\t')}\n`);
	}
	const results = readFleetResults();
	writeFileSync(FLEET_CHART, drawFleet(results));
	writeFileSync(FLEET_PAGE, withRows(readFileSync(FLEET_PAGE, 'utf8'), results));
	console.log(fleetRows(results));
}

if (import.meta.main) main();
