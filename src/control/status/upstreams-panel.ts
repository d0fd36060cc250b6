import { count, duration, latency, moment, rate } from './format.ts';
import { around, type Fragment, leaf } from './fragment.ts';
import { html, type Markup } from './markup.ts';
import type { Chart, StatusPage, UpstreamStatus } from './schema.ts';
import { isTroubled } from './snapshot.ts';
import { DEFAULT_ROWS, queryOf, type View } from './view.ts';

/** Prefixes shown of one upstream; `/status.json` has all. */
const MAX_PREFIXES = 4;

type Row = UpstreamStatus & { readonly history: Chart | null };

/** Routes and their upstreams: one page of them, whose rows are pieces of their own; a step for each row. */
export function* upstreamsPanel({ upstreams, dns, at }: StatusPage, view: View): Generator<void, Fragment> {
	const { total, matching, items } = upstreams;
	const head = html`
		<section id="upstreams" aria-labelledby="upstreams-title">
		<h2 id="upstreams-title">Routes and upstreams</h2>
		${searchForm(view, total)}
	`;
	if (items.length === 0) {
		const none = dns.length === 0 ? 'There are no routes.' : 'No upstream has an address.';
		const words = total === 0 ? none : 'No upstream fits the filter.';
		return leaf('upstreams', html`${head}<p class="empty">${words}</p></section>`);
	}
	const shown = matching === total ? `${total}` : `${matching} of ${total}`;
	const open = html`
		${head}
		<div class="wide"><table class="upstreams" role="table">
		<caption>Upstreams shown: ${shown}. Rates and latencies are those of the last ten seconds.</caption>
		<thead role="rowgroup"><tr role="row">
		${COLUMNS.map(([name, kind]) => html`<th scope="col" role="columnheader" class="${kind}">${name}</th>`)}
		</tr></thead>
		<tbody id="upstreams-rows" role="rowgroup">
	`;
	const rows: Fragment[] = [];
	for (const [i, item] of items.entries()) {
		rows.push(leaf(`upstream-${i}`, row(item, i, at)));
		yield;
	}
	return around('upstreams', open, rows, html`</tbody></table></div>${pager(upstreams, view)}</section>`);
}

const COLUMNS = [
	['Upstream and routes', 'name'],
	['Breaker', 'words'],
	['Health', 'words'],
	['Requests/s', 'number'],
	['p50', 'number'],
	['p99', 'number'],
	['Requests', 'number'],
	['5xx', 'number'],
	['Connections', 'number'],
	['Last ten minutes', 'trend'],
] as const;

function row(one: Row, i: number, now: string): Markup {
	const { upstream, group, tls, routes, connections } = one;
	const prefixes = routes.slice(0, MAX_PREFIXES).map((prefix) => html`<li><code>${prefix}</code></li>`);
	const more = routes.length - prefixes.length;
	const cell = (label: string, kind: string, content: Markup) =>
		html`<td role="cell" class="${kind}" data-label="${label}">${content}</td>`;
	return html`
		<tr id="upstream-${i}" role="row" class="${one.breaker.state === 'half-open' ? 'half-open' : isTroubled(one) && 'troubled'}">
		<th scope="row" role="rowheader" class="name"><span class="authority">${upstream}</span>${group !== null && html` <small>of ${group}${one.weight !== null && one.weight !== 1 && html`, weight ${one.weight}`}</small>`}${TLS[tls]}
		<ul class="prefixes">${prefixes}${more > 0 && html`<li>and ${more} more</li>`}</ul></th>
		${cell('Breaker', 'words', breaker(one.breaker, now))}
		${cell('Health', 'words', health(one))}
		${cell('Requests/s', 'number', rate(one.requests_per_second))}
		${cell('p50', 'number', latency(one.p50_seconds))}
		${cell('p99', 'number', latency(one.p99_seconds))}
		${cell('Requests', 'number', count(one.requests_total))}
		${cell('5xx', 'number', count(one.errors_total))}
		${cell('Connections', 'number', html`${count(connections.active)}<small> + ${count(connections.idle)} idle</small>`)}
		<td role="cell" class="trend" data-label="Last ten minutes">${trend(one.history, i)}</td>
		</tr>
	`;
}

const TLS = {
	none: undefined,
	verified: html` <small>TLS</small>`,
	'not verified': html` <small>TLS, not verified</small>`,
} as const;

const BADGES = {
	closed: html`<span class="badge good"><span aria-hidden="true">●</span> closed</span>`,
	open: html`<span class="badge bad"><span aria-hidden="true">▲</span> open</span>`,
	'half-open': html`<span class="badge doubtful"><span aria-hidden="true">◆</span> half-open</span>`,
} as const;

const HEALTH = {
	healthy: html`<span class="badge good"><span aria-hidden="true">●</span> healthy</span>`,
	unhealthy: html`<span class="badge bad"><span aria-hidden="true">▲</span> unhealthy</span>`,
	'not probed yet': html`<span class="quiet">not probed yet</span>`,
	'not probed': html`<span class="quiet">not probed</span>`,
} as const;

/** The time of a probe that passed is of no interest, and would change the row every few seconds. */
function health({ health, last_probe: last }: UpstreamStatus): Markup {
	if (last === null || last.passed) return HEALTH[health];
	return html`${HEALTH[health]} <span class="why">${last.found}${last.remedy !== null && `: ${last.remedy}`}</span>`;
}

/** By what opened it; a closed one that has never been open needs no reason. */
const REASONS: Readonly<Record<string, string>> = {
	status: 'failing answers',
	connect: 'no connection',
	timeout: 'no answer in time',
	broken: 'broken answers',
	health: 'health check',
	probe: 'probe request',
};

function breaker({ state, since, reason, cause, opened_total }: UpstreamStatus['breaker'], now: string): Markup {
	if (state === 'closed' && opened_total === 0) return BADGES.closed;
	const seconds = since === null ? 0 : (Date.parse(now) - Date.parse(since)) / 1000;
	return html`
		${BADGES[state]}
		${reason !== null && html`<span class="why">${cause ?? REASONS[reason] ?? reason}</span>`}
		${since !== null && html`<span class="when">since ${moment(since, now)}, ${duration(seconds)}</span>`}
		${opened_total > 0 && html`<span class="when">opened ${opened_total}×</span>`}
	`;
}

/** The script draws into the first two; the words are for all, and all there is without it. */
function trend(history: Chart | null, i: number): Markup {
	if (history === null) return html`<span class="quiet">no chart</span>`;
	const peak = (values: readonly (number | null)[]) => {
		const known = values.filter((value) => value !== null);
		return known.length === 0 ? null : Math.max(...known);
	};
	return html`
		<span class="charts" aria-hidden="true">
		<span class="chart" data-keep data-series="rate" data-row="${i}"></span>
		<span class="chart" data-keep data-series="latency" data-row="${i}"></span>
		</span>
		<span class="peak">peak ${rate(peak(history.requests_per_second))}/s, p99 ${latency(peak(history.p99_seconds))}</span>
	`;
}

function searchForm({ filter, troubled, rows }: View, total: number): Markup | undefined {
	// A handful of rows is seen at once; a filter that is in force must be seen, too.
	if (total < LEAST_FOR_FILTER && filter === '' && !troubled) return undefined;
	return html`
		<form role="search" method="get" action="/" data-keep id="filter-form" aria-label="Upstreams">
		<label for="filter">Filter by name or route</label>
		<input id="filter" type="search" name="filter" value="${filter}" maxlength="100" autocomplete="off">
		<label class="check">
		${troubled ? html`<input type="checkbox" name="show" value="trouble" checked>` : html`<input type="checkbox" name="show" value="trouble">`}
		only those in trouble</label>
		${rows !== DEFAULT_ROWS && html`<input type="hidden" name="rows" value="${rows}">`}
		<button type="submit">Filter</button>
		</form>
	`;
}

const LEAST_FOR_FILTER = 6;

function pager({ page, pages }: StatusPage['upstreams'], view: View): Markup | undefined {
	if (pages === 1) return undefined;
	const link = (to: number, words: string, rel: string) =>
		to < 1 || to > pages
			? html`<span class="quiet">${words}</span>`
			: html`<a href="${queryOf({ ...view, page: to })}#upstreams" rel="${rel}" data-view>${words}</a>`;
	return html`
		<nav class="pager" aria-label="Pages of upstreams">
		${link(page - 1, 'Previous', 'prev')}<span>Page ${page} of ${pages}</span>${link(page + 1, 'Next', 'next')}
		</nav>
	`;
}
