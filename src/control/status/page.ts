import { count, duration, latency, moment, rate } from './format.ts';
import { around, type Fragment, htmlOf, leaf } from './fragment.ts';
import { jsonOf } from './json.ts';
import { html, Markup } from './markup.ts';
import {
	certificatesPanel,
	connectionsPanel,
	dnsPanel,
	handshakesPanel,
	issuersPanel,
	limitsPanel,
	memoryPanel,
	refusalsPanel,
	reloadsPanel,
	tenantsPanel,
	workersPanel,
} from './panels.ts';
import { plural } from './problems.ts';
import type { Chart, Count, Problem, StatusPage } from './schema.ts';
import { upstreamsPanel } from './upstreams-panel.ts';
import { queryOf, type View } from './view.ts';

/** What stands in the page beside the status: made once. */
export interface PageAssets {
	readonly css: string;
	readonly scripts: readonly string[];
	/** Changes with the assets: a page that is older is to be loaded anew. */
	readonly build: string;
}

/** The whole document. Pure; a step for each piece. */
export function* renderPage(
	status: StatusPage,
	view: View,
	{ css, scripts, build }: PageAssets,
): Generator<void, string> {
	const main = htmlOf(yield* renderMain(status, view, build));
	return `<!doctype html>${html`
		<html lang="en">
		<head>
		<meta charset="utf-8">
		<meta name="viewport" content="width=device-width, initial-scale=1">
		<meta name="color-scheme" content="light dark">
		<meta name="robots" content="noindex">
		<title>${titleOf(status)}</title>
		<link rel="icon" href="data:,">
		<style>${new Markup(css)}</style>
		</head>
		<body>
		<a class="skip" href="#summary">Skip to the summary</a>
		<header>
		<h1>mtls-edge-proxy</h1>
		<div id="live">
		<span id="live-state">A moment’s values. <a href="${queryOf(view)}">Load them anew</a>, or read <a href="/status.json">/status.json</a>.</span>
		<button id="pause" type="button" hidden>Pause</button>
		</div>
		</header>
		<p id="announcement" class="unseen" role="status" aria-live="polite"></p>
		${new Markup(main)}
		<footer>
		<p>The same as JSON: <a href="/status.json">/status.json</a>. For Prometheus: <a href="/metrics">/metrics</a>.</p>
		</footer>
		${scripts.map((script) => html`<script>${new Markup(script)}</script>`)}
		</body>
		</html>
	`}`;
}

export function titleOf({ problems }: Pick<StatusPage, 'problems'>): string {
	return problems.length === 0
		? 'All well – mtls-edge-proxy'
		: `${plural(problems.length, 'problem')} – mtls-edge-proxy`;
}

/** All that changes, in pieces; a step for each. */
export function* renderMain(status: StatusPage, view: View, build: string): Generator<void, Fragment> {
	const smaller: Fragment[] = [];
	for (const panel of SMALLER) {
		const made = panel(status);
		if (made !== undefined) smaller.push(made);
		yield;
	}
	const open = html`<main id="page" data-build="${build}">`;
	const parts = [
		summary(status),
		numbers(status),
		traffic(status),
		yield* upstreamsPanel(status, view),
		around('panels', html`<div id="panels" class="panels">`, smaller, html`</div>`),
		about(status),
		yield* chartData(status),
	];
	return around('page', open, parts, html`</main>`);
}

const SMALLER: readonly ((status: StatusPage) => Fragment | undefined)[] = [
	dnsPanel,
	refusalsPanel,
	handshakesPanel,
	connectionsPanel,
	workersPanel,
	certificatesPanel,
	issuersPanel,
	memoryPanel,
	reloadsPanel,
	limitsPanel,
	tenantsPanel,
];

/** Is it well? What is wrong comes first. */
function summary({ problems, upstreams, at }: StatusPage): Fragment {
	const errors = problems.filter(({ severity }) => severity === 'error').length;
	const state = problems.length === 0 ? 'good' : errors > 0 ? 'bad' : 'doubtful';
	const sign = { good: '✓', bad: '▲', doubtful: '◆' }[state];
	const verdict = problems.length === 0 ? 'All is well' : `${plural(problems.length, 'problem')}`;
	const details =
		problems.length === 0
			? html`<p>${upstreams.total === 0 ? 'There are no routes yet.' : 'All breakers are closed, few requests and handshakes fail, no certificate is about to expire, and the file as it was last read is in force.'}</p>`
			: html`<ul>${problems.slice(0, MAX_PROBLEMS).map((problem) => problemLine(problem, at))}${problems.length > MAX_PROBLEMS && html`<li>and ${problems.length - MAX_PROBLEMS} more</li>`}</ul>`;
	return leaf(
		'summary',
		html`
			<section id="summary" class="summary ${state}" aria-labelledby="summary-title" tabindex="-1">
			<h2 id="summary-title"><span class="sign" aria-hidden="true">${sign}</span> <span id="verdict">${verdict}</span></h2>
			${details}
			</section>
		`,
	);
}

const MAX_PROBLEMS = 8;

function problemLine({ severity, text, since, look, link }: Problem, now: string): Markup {
	const badge =
		severity === 'error'
			? html`<span class="badge bad">error</span>`
			: html`<span class="badge doubtful">warning</span>`;
	return html`<li>${badge} <a href="${link}">${text}</a>${since !== null && html` <small>since ${moment(since, now)}</small>`}<br><small class="look">${look}</small></li>`;
}

function numbers({ traffic, connections, upstreams, workers, refusals, handshakes }: StatusPage): Fragment {
	const tile = (name: string, value: Markup) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
	return leaf(
		'numbers',
		html`
			<dl id="numbers" class="tiles">
			${tile('Requests/s', rate(traffic.requests_per_second))}
			${tile('p50', latency(traffic.p50_seconds))}
			${tile('p99', latency(traffic.p99_seconds))}
			${tile('In flight', count(traffic.in_flight))}
			${tile('Connections', count(connections.http1 + connections.h2))}
			${tile('Refused, 10 min', count(lately(refusals)))}
			${tile('TLS failed, 10 min', count(lately(handshakes.failures)))}
			${tile('Upstreams', count(upstreams.total))}
			${tile('Workers', html`${workers.listening}<small>/${workers.configured}</small>`)}
			</dl>
		`,
	);
}

function lately(counts: readonly Count[]): number {
	return counts.reduce((sum, { last_ten_minutes }) => sum + last_ten_minutes, 0);
}

function traffic({ history, traffic }: StatusPage): Fragment {
	const peak = (values: readonly (number | null)[]) => {
		const known = values.filter((value) => value !== null);
		return known.length === 0 ? null : Math.max(...known);
	};
	const figure = (series: string, title: string, words: Markup) => html`
		<figure>
		<figcaption>${title} <small>${words}</small></figcaption>
		<div class="chart large" data-keep data-series="${series}" data-row="total" aria-hidden="true"></div>
		</figure>
	`;
	return leaf(
		'traffic',
		html`
			<section id="traffic" aria-labelledby="traffic-title">
			<h2 id="traffic-title">Traffic of the last ten minutes</h2>
			<div class="figures">
			${figure('rate', 'Requests per second', html`${count(traffic.requests_total)} since the start, peak ${rate(peak(history.requests_per_second))}/s`)}
			${figure('latency', 'Round trip to upstreams', html`<span class="key dashed">p50</span> <span class="key">p99</span>, at most ${latency(peak(history.p99_seconds))}`)}
			</div>
			</section>
		`,
	);
}

function about({ process, at, reloads }: StatusPage): Fragment {
	return leaf(
		'about',
		html`
			<p id="about" class="about">
			Version ${process.version}, ${process.body_mode} bodies, Node ${process.node}.
			 Up ${duration(process.uptime_seconds)}, since ${moment(process.started_at, at)}. Configuration ${reloads.generation}.
			 As of ${moment(at, at)}.
			</p>
		`,
	);
}

/** Numbers alone, for the script. A data block is nothing that a browser runs. */
function* chartData({ history, upstreams }: StatusPage): Generator<void, Fragment> {
	const columns = (chart: Chart | null) =>
		chart === null ? null : [chart.requests_per_second, chart.p50_seconds, chart.p99_seconds];
	const data = { total: columns(history), rows: upstreams.items.map((one) => columns(one.history)) };
	const json = (yield* jsonOf(data)).replaceAll('<', '\\u003c');
	return leaf('chart-data', html`<script type="application/json" id="chart-data">${new Markup(json)}</script>`);
}
