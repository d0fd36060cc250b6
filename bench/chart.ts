/**
 * Draws docs/images/bench.svg from bench/results.json, and prints its tables.
 *
 *   node bench/chart.ts
 *
 * Written by hand: chart libraries draw into a browser's document or bring their own (tens of packages). Bars with figures next to
 * them need no axis, no legend and no layout.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { CASES, type CaseResult, type Results, type Row } from './cases.ts';

const WIDTH = 760;
const MARGIN = 24;
/** Left edge of the bars; names end before it. */
const BARS_X = 232;
/** Length of the longest bar, which leaves room for its figures. */
const BARS_WIDTH = WIDTH - MARGIN - BARS_X - 110;
const ROW = 19;
const BAR = 12;
/** A case's title, and the space above it. */
const HEADING = 40;
/** Title and legend of the chart. */
const HEAD = 64;

const STYLE = `
	svg { color-scheme: light dark; font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; }
	.ground { fill: #fff; } .text { fill: #1f2328; } .faint { fill: #59636e; }
	.ours { fill: #0969da; } .whole { fill: #8c959f; } .tls { fill: #d0d7de; }
	.title { font-size: 16px; font-weight: 600; } .case, .own { font-weight: 600; } .number { font-variant-numeric: tabular-nums; }
	@media (prefers-color-scheme: dark) {
		.ground { fill: #0d1117; } .text { fill: #f0f6fc; } .faint { fill: #9198a1; }
		.ours { fill: #4493f8; } .whole { fill: #7d8590; } .tls { fill: #3d444d; }
	}`;

/** The chart as SVG text, light or dark by the reader's system. The same results give the same text. */
export function drawChart(results: Results): string {
	const drawn = CASES.flatMap(({ name, title, drawn }) => {
		const result = results.cases.find((one) => one.name === name);
		return drawn && result ? [{ title, rows: wholeJobFirst(result.rows) }] : [];
	});
	const parts: string[] = [];
	let y = HEAD;
	for (const { title, rows } of drawn) {
		parts.push(text(MARGIN, y + HEADING - 14, 'text case', title));
		y += HEADING;
		// A handshake costs as much as fifty requests: each case has its own scale.
		const longest = Math.max(...rows.map(({ cpu_us_median }) => cpu_us_median));
		for (const row of rows) {
			parts.push(...bar(row, y, (row.cpu_us_median / longest) * BARS_WIDTH, results.versions));
			y += ROW;
		}
	}
	const height = y + MARGIN;
	const said = drawn.map(
		({ title, rows }) => `${title}: ${rows.map((row) => inWords(row, results.versions)).join(', ')}.`,
	);
	return [
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title desc">`,
		'<title id="title">CPU time for one request, by proxy</title>',
		`<desc id="desc">Microseconds a request or connection, one worker on one core; shorter is better. ${escaped(said.join(' '))}</desc>`,
		`<style>${STYLE}\n</style>`,
		`<rect class="ground" width="${WIDTH}" height="${height}" rx="6"/>`,
		text(MARGIN, 34, 'text title', 'CPU time for one request'),
		text(
			MARGIN,
			56,
			'faint',
			`µs, shorter is better; × is the multiple of the first; each case has its own scale. One core; ${results.machine}.`,
		),
		...parts,
		'</svg>',
		'',
	].join('\n');
}

/** Groups proxies that do the same job. */
function wholeJobFirst(rows: readonly Row[]): Row[] {
	return rows.toSorted((a, b) => Number(isTlsOnly(a)) - Number(isTlsOnly(b)));
}

function isTlsOnly({ name }: Row): boolean {
	return name.endsWith('mTLS only');
}

function bar(row: Row, y: number, length: number, versions: Results['versions']): string[] {
	const { cpu_us_median: median, times_ours: times } = row;
	const kind = row.name === 'ours' ? 'ours' : isTlsOnly(row) ? 'tls' : 'whole';
	const width = round(length);
	const ratio = kind === 'ours' ? '' : ` · ${times.toFixed(2)} ×`;
	return [
		text(BARS_X - 10, y + 10, kind === 'ours' ? 'text own' : 'text', displayName(row.name, versions), 'end'),
		`<rect class="${kind}" x="${BARS_X}" y="${y}" width="${width}" height="${BAR}" rx="2"/>`,
		text(round(BARS_X + width + 8), y + 10, 'faint number', `${median.toFixed(1)}${ratio}`),
	];
}

function inWords({ name, cpu_us_median }: Row, versions: Results['versions']): string {
	return `${displayName(name, versions)} ${cpu_us_median.toFixed(1)}`;
}

const NAMES: Readonly<Record<string, string>> = {
	ours: 'mtls-edge-proxy',
	haproxy: 'HAProxy',
	nginx: 'nginx',
	envoy: 'Envoy',
	ferryman: 'ferryman-edge',
};

/** `haproxy mTLS only` -> `HAProxy 2.6, TLS only` */
function displayName(name: string, versions: Results['versions']): string {
	const key = name.split(' ')[0]!;
	const version = key === 'ours' ? undefined : versions[key];
	const proxy = [NAMES[key] ?? key, ...(version ? [version] : [])].join(' ');
	if (name.endsWith('mTLS only')) return `${proxy}, TLS only`;
	return name.endsWith('whole job') ? `${proxy}, whole job` : proxy;
}

function text(x: number, y: number, classes: string, content: string, anchor?: 'end'): string {
	return `<text class="${classes}" x="${x}" y="${y}"${anchor ? ` text-anchor="${anchor}"` : ''}>${escaped(content)}</text>`;
}

function escaped(content: string): string {
	return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function round(value: number): number {
	return Math.round(value * 10) / 10;
}

/** A case in compare.py's output format, for RESULTS.md. */
export function table({ name, commit, rounds, seconds, rows }: CaseResult): string {
	const title = CASES.find((one) => one.name === name)?.title ?? name;
	const columns = (cells: string[]) => cells.map((cell) => cell.padStart(9)).join('');
	return [
		`${title}; ${commit}, ${rounds} interleaved rounds of ${seconds} s; CPU µs each`,
		''.padEnd(24) + columns(['median', 'min', 'max', 'per s', '× first', 'RSS MiB']),
		...rows.map((row) => {
			const times = [row.cpu_us_median, row.cpu_us_min, row.cpu_us_max].map((us) => us.toFixed(1));
			const cells = [...times, `${row.per_second_median}`, row.times_ours.toFixed(2), row.rss_mib.toFixed(1)];
			return row.name.padEnd(24) + columns(cells);
		}),
		'',
	].join('\n');
}

const root = resolve(import.meta.dirname, '..');
export const RESULTS_FILE: string = resolve(root, 'bench/results.json');
export const CHART_FILE: string = resolve(root, 'docs/images/bench.svg');

export function readResults(): Results {
	return JSON.parse(readFileSync(RESULTS_FILE, 'utf8'));
}

if (import.meta.main) {
	const results = readResults();
	for (const result of results.cases) console.log(table(result));
	writeFileSync(CHART_FILE, drawChart(results));
	console.log('drawn: docs/images/bench.svg');
}
