import { plural } from '../../config/wording.ts';
import type { Assets } from './assets.ts';
import type { Count } from './counts.ts';
import type { Chart } from './history.ts';
import { jsonOf } from './json.ts';
import { ago, count, duration, html, latency, Markup, moment, peakOf, percent, rate, SIGNS } from './markup.ts';
import { PANELS } from './panels.ts';
import type { Problem } from './problems.ts';
import type { ShareKind } from './shares.ts';
import { keyOf } from './upstreams.ts';
import { upstreamsPanel } from './upstreams-panel.ts';
import { queryOf, type StatusPage, type View } from './view.ts';

/** The whole document. Pure; a step for each piece. */
export function* renderPage(status: StatusPage, view: View, { css, scripts, build }: Assets): Generator<void, string> {
	const body = yield* renderBody(status, view, build);
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
		<p id="announcement" class="unseen" role="status" aria-live="polite"></p>
		${new Markup(body)}
		<footer>
		<p>The same as JSON: <a href="/status.json">/status.json</a>. For Prometheus: <a href="/metrics">/metrics</a>.</p>
		</footer>
		${scripts.map((script) => html`<script>${new Markup(script)}</script>`)}
		</body>
		</html>
	`}`;
}

function titleOf({ problems, process }: Pick<StatusPage, 'problems' | 'process'>): string {
	return `${verdictOf(problems)} – ${process.host}`;
}

function verdictOf(problems: readonly Problem[]): string {
	return problems.length === 0 ? 'All is well' : plural(problems.length, 'problem');
}

/** The part of the page that changes; a step for each piece. */
export function* renderBody(status: StatusPage, view: View, build: string): Generator<void, string> {
	const smaller: (Markup | undefined)[] = [];
	for (const panel of PANELS) {
		smaller.push(panel(status));
		yield;
	}
	const upstreams = yield* upstreamsPanel(status, view);
	return html`
		<div id="page" data-build="${build}">
		${header(status, view)}
		<main>
		${summary(status)}
		${numbers(status)}
		${traffic(status)}
		${upstreams}
		<div class="panels">${smaller}</div>
		</main>
		${yield* chartData(status)}
		</div>
	`.toString();
}

/** Which process this is, and the time of its figures. */
function header({ process, at, reloads, shared_limits: limits }: StatusPage, view: View): Markup {
	const facts = [
		limits !== null && limits.replicas > 1 && html`one of ${limits.replicas} replicas`,
		html`version ${process.version}`,
		html`Node ${process.node}`,
		html`${process.body_mode} bodies`,
		html`up <span title="since ${process.started_at}">${duration(process.uptime_seconds)}</span>`,
		html`configuration ${reloads.generation}`,
		html`as of ${moment(at, at)}`,
	];
	return html`
		<header>
		<h1>${process.host} <small>mtls-edge-proxy</small></h1>
		<ul id="about">${facts.map((fact) => fact && html`<li>${fact}</li>`)}</ul>
		<div id="live" data-keep>
		<span id="live-state">A snapshot. <a href="${queryOf(view)}">Load it again</a>, or read <a href="/status.json">/status.json</a>.</span>
		<button id="pause" type="button" hidden>Pause</button>
		</div>
		</header>
	`;
}

/** Whether the proxy is well, with the problems first. */
function summary({ problems, upstreams, at }: StatusPage): Markup {
	const errors = problems.filter(({ severity }) => severity === 'error').length;
	const state = problems.length === 0 ? 'good' : errors > 0 ? 'bad' : 'doubtful';
	const sign = { good: '✓', bad: '▲', doubtful: '◆' }[state];
	const details =
		problems.length === 0
			? html`<p>${upstreams.total === 0 ? 'There are no routes yet.' : 'All breakers are closed, few requests and handshakes fail, no certificate is about to expire, and the configuration last read is in force.'}</p>`
			: html`<ul>${problems.slice(0, MAX_PROBLEMS).map((problem) => problemLine(problem, at))}${problems.length > MAX_PROBLEMS && html`<li>and ${problems.length - MAX_PROBLEMS} more, in <a href="/status.json">/status.json</a></li>`}</ul>`;
	return html`
		<section id="summary" class="summary ${state}" aria-labelledby="summary-title" tabindex="-1">
		<h2 id="summary-title"><span class="sign" aria-hidden="true">${sign}</span> <span id="verdict">${verdictOf(problems)}</span></h2>
		${details}
		</section>
	`;
}

const MAX_PROBLEMS = 8;

function problemLine({ severity, text, since, look, link }: Problem, now: string): Markup {
	const badge =
		severity === 'error'
			? html`<span class="badge bad">error</span>`
			: html`<span class="badge doubtful">warning</span>`;
	const age = since === null ? undefined : html` <small>since ${moment(since, now)}, ${ago(since, now)}</small>`;
	return html`<li>${badge} <a href="${link}">${text}</a>${age}<span class="look">${look}</span></li>`;
}

/** The main figures at a glance. A bad one has a colour, and a sign for people who do not see colours. */
function numbers(status: StatusPage): Markup {
	const { traffic, connections, upstreams, workers, refusals } = status;
	const share = (kind: ShareKind) => status.shares.find((one) => one.kind === kind);
	const isOver = (...kinds: ShareKind[]) => kinds.some((kind) => (share(kind)?.over_since ?? null) !== null);
	const responses = share('5xx')?.last_ten_minutes;
	const handshakes = share('handshakes')?.last_ten_minutes;
	const tile = (name: string, value: Markup, state: 'bad' | 'doubtful' | false = false) =>
		html`<div class="${state}"><dt>${name}</dt><dd>${value}${state && html` <span class="sign" aria-hidden="true">${SIGNS[state]}</span>`}</dd></div>`;
	return html`
		<dl id="numbers" class="tiles">
		${tile('Requests/s', rate(traffic.requests_per_second))}
		${tile('Errors, 10 min', percent(traffic.error_share), isOver('5xx') && 'bad')}
		${tile('Refused, 10 min', percent(partOf(lately(refusals), responses?.total)), isOver('401', '429') && 'doubtful')}
		${tile('p99', latency(traffic.p99_seconds))}
		${tile('In flight', count(traffic.in_flight))}
		${tile('Connections', count(connections.http1 + connections.h2))}
		${tile('TLS failed, 10 min', percent(partOf(handshakes?.count, handshakes?.total)), isOver('handshakes') && 'doubtful')}
		${tile('Upstreams', html`${upstreams.healthy}/${upstreams.total} <small>healthy</small>`, upstreams.healthy < upstreams.total && 'bad')}
		${tile('Workers', html`${workers.listening}/${workers.configured}`, workers.listening < workers.configured && 'bad')}
		</dl>
	`;
}

function lately(counts: readonly Count[]): number {
	return counts.reduce((sum, { last_ten_minutes }) => sum + last_ten_minutes, 0);
}

/** From 0 to 1; `null` without a total. */
function partOf(count: number | undefined, total: number | undefined): number | null {
	return count === undefined || !total ? null : Math.min(count / total, 1);
}

function traffic({ history, traffic }: StatusPage): Markup {
	const figure = (series: string, title: string, words: Markup) => html`
		<figure>
		<figcaption>${title} <small>${words}</small></figcaption>
		<div class="chart large" data-keep data-series="${series}" data-row="total" aria-hidden="true"></div>
		</figure>
	`;
	return html`
		<section id="traffic" aria-labelledby="traffic-title">
		<h2 id="traffic-title">Traffic of the last ten minutes</h2>
		<div class="figures">
		${figure('rate', 'Requests per second', html`peak ${rate(peakOf(history.requests_per_second))}/s`)}
		${figure('errors', 'Error rate', html`${percent(traffic.error_share)} of all responses, peak ${percent(peakOf(errorShares(history)))}`)}
		${figure('latency', 'Round trips', html`<span class="key dashed">p50</span> ${latency(traffic.p50_seconds)} <span class="key">p99</span> ${latency(traffic.p99_seconds)}`)}
		</div>
		</section>
	`;
}

/** 5xx among the responses of each point. */
function errorShares({ requests_per_second: responses, errors_per_second: errors }: Chart): (number | null)[] {
	return responses.map((all, i) => (all === null ? null : all === 0 ? 0 : Math.min((errors[i] ?? 0) / all, 1)));
}

/** Only numbers, for the script. Browsers do not run a data block. */
function* chartData({ history, upstreams }: StatusPage): Generator<void, Markup> {
	const columns = (chart: Chart) => ({
		rate: [chart.requests_per_second, chart.errors_per_second],
		latency: [chart.p50_seconds, chart.p99_seconds],
	});
	const rows: [string, object][] = [['total', { ...columns(history), errors: [errorShares(history)] }]];
	for (const one of upstreams.items) {
		if (one.history !== null) rows.push([keyOf(one), columns(one.history)]);
		yield;
	}
	const json = (yield* jsonOf(Object.fromEntries(rows))).replaceAll('<', '\\u003c');
	return html`<script type="application/json" id="chart-data">${new Markup(json)}</script>`;
}
