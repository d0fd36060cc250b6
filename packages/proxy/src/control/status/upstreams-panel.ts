import { grpcStatusInWords } from '../../gates/grpc-status.ts';
import type { UpstreamProtocol } from '../../shared/messages.ts';
import type { Chart } from './history.ts';
import { ago, badge, count, html, inParts, latency, type Markup, moment, peakOf, percent, rate } from './markup.ts';
import type { ShareKind } from './shares.ts';
import { grpcFailureShare, keyOf, standingOf, type UpstreamStatus } from './upstreams.ts';
import { DEFAULT_ROWS, queryOf, type StatusPage, type View } from './view.ts';

/** Prefixes shown of one upstream; `/status.json` has all. */
const MAX_PREFIXES = 4;

type Row = UpstreamStatus & { readonly history: Chart | null };

/** One page of routes and their upstreams, those with problems first; a step for each row. */
export function* upstreamsPanel({ upstreams, dns, shares, at }: StatusPage, view: View): Generator<void, Markup> {
	const { total, matching, items } = upstreams;
	const head = html`
		<section id="upstreams" aria-labelledby="upstreams-title">
		<h2 id="upstreams-title">Routes and upstreams</h2>
		${searchForm(view, total)}
	`;
	if (items.length === 0) {
		const none = dns.length === 0 ? 'There are no routes.' : 'No upstream has an address.';
		const words = total === 0 ? none : 'No upstream matches the filter.';
		return html`${head}<p class="empty">${words}</p></section>`;
	}
	const shown = matching === total ? `${total}` : `${matching} of ${total}`;
	const boundOf = (kind: ShareKind) => shares.find((one) => one.kind === kind)?.bound ?? 0;
	const context = { now: at, errorBound: boundOf('5xx'), grpcBound: boundOf('grpc') };
	const rows: Markup[] = [];
	for (const item of items) {
		rows.push(row(item, context));
		yield;
	}
	return html`
		${head}
		<table class="upstreams">
		<caption>Upstreams shown: ${shown}, those with problems first. Rates and latencies cover the last ten seconds, errors the last ten minutes.</caption>
		<thead><tr>${COLUMNS.map(([name, kind]) => html`<th scope="col" class="${kind}">${name}</th>`)}</tr></thead>
		<tbody>${rows}</tbody>
		</table>
		${pager(upstreams, view)}</section>
	`;
}

/** `spare` columns are hidden on a phone. */
const COLUMNS = [
	['Upstream and routes', 'name'],
	['State', 'state'],
	['Req/s', 'number'],
	['Errors', 'number'],
	['p50', 'number spare'],
	['p99', 'number spare'],
	['Connections', 'number spare'],
	['Last ten minutes', 'trend spare'],
] as const;

interface Context {
	readonly now: string;
	/** Shares from which errors, and failed gRPC calls, are many; 0: never. */
	readonly errorBound: number;
	readonly grpcBound: number;
}

function row(one: Row, { now, errorBound, grpcBound }: Context): Markup {
	const key = keyOf(one);
	const prefixes = one.routes.slice(0, MAX_PREFIXES).map((prefix) => html`<li><code>${inParts(prefix)}</code></li>`);
	const more = one.routes.length - prefixes.length;
	const { error_share: errors, connections, streams } = one;
	const failedCalls = grpcFailureShare(one.grpc);
	const cells = [
		state(one, now),
		rate(one.requests_per_second),
		html`${share(errors, errorBound)}${failedCalls !== null && failedCalls > 0 && html` <small>gRPC ${share(failedCalls, grpcBound)}</small>`}`,
		latency(one.p50_seconds),
		latency(one.p99_seconds),
		html`${count(connections.active)}<small> + ${count(connections.idle)} idle${streams !== null && html`, ${count(streams)} in flight`}</small>`,
		trend(one.history, key),
	];
	return html`
		<tr id="upstream ${key}" class="${standingOf(one)}">
		<th scope="row" class="name"><span class="authority">${inParts(one.upstream)}</span> <small>${notesOn(one).join(', ')}</small>
		<ul class="prefixes">${prefixes}${more > 0 && html`<li>and ${more} more</li>`}</ul></th>
		${cells.map((cell, i) => html`<td class="${COLUMNS[i + 1]![1]}">${cell}</td>`)}
		</tr>
	`;
}

function share(part: number | null, bound: number): Markup {
	const areMany = bound > 0 && part !== null && part >= bound;
	return areMany ? badge('bad', percent(part)) : percent(part);
}

/** Further facts about an upstream, in a few words each. */
function notesOn({ group, weight, protocol, chosen, tls }: UpstreamStatus): string[] {
	const notes: string[] = [];
	if (group !== null) notes.push(`of ${group}`);
	if (weight !== null && weight !== 1) notes.push(`weight ${weight}`);
	const spoken = (chosen ?? []).map((choice) => PROTOCOLS[choice]);
	notes.push(spoken.length === 0 ? PROTOCOLS[protocol] : `auto: ${spoken.join(' and ')}`);
	if (tls !== 'none') notes.push(tls === 'verified' ? 'TLS' : 'TLS, not verified');
	return notes;
}

const PROTOCOLS: Readonly<Record<UpstreamProtocol, string>> = {
	'http/1.1': 'HTTP/1.1',
	h2: 'HTTP/2',
	auto: 'HTTP/2 or HTTP/1.1',
};

/** The worse state of breaker and health check, in one line; it opens if there are details. */
function state(one: UpstreamStatus, now: string): Markup {
	const { breaker, health, health_since: healthSince } = one;
	const isBreakers = breaker.state !== 'closed';
	const verdict = isBreakers ? BREAKER[breaker.state] : HEALTH[health];
	const since = isBreakers ? breaker.since : health === 'unhealthy' ? healthSince : null;
	const details = detailsOf(one, now);
	const line = html`${verdict}${since !== null && html` <small>${ago(since, now)}</small>`}`;
	if (details.length === 0) return line;
	return html`<details id="state ${keyOf(one)}"><summary>${line}</summary><ul>${details.map((detail) => html`<li>${detail}</li>`)}</ul></details>`;
}

const BREAKER = {
	closed: badge('good', 'closed'),
	open: badge('bad', 'open'),
	'half-open': badge('doubtful', 'half-open'),
} as const;

const HEALTH = {
	healthy: badge('good', 'healthy'),
	unhealthy: badge('doubtful', 'unhealthy'),
	'not probed yet': html`${BREAKER.closed} <small>not probed yet</small>`,
	'not probed': html`${BREAKER.closed} <small>not probed</small>`,
} as const;

/** By what opened it. */
const REASONS: Readonly<Record<string, string>> = {
	status: 'failing responses',
	connect: 'no connection',
	timeout: 'no response in time',
	broken: 'broken responses',
	health: 'health check',
	probe: 'probe request',
};

/** The time of a probe that passed is of no interest, and would change the row every few seconds. */
function detailsOf({ breaker, last_probe: last, grpc }: UpstreamStatus, now: string): Markup[] {
	const details: Markup[] = [];
	const { state, since, reason, cause, opened_total: opened } = breaker;
	const why = reason === null ? undefined : (cause ?? REASONS[reason] ?? reason);
	if (state !== 'closed' || opened > 0) {
		details.push(
			html`Breaker ${state}${since !== null && html` since ${moment(since, now)}`}${why !== undefined && `: ${why}`}`,
		);
	}
	if (opened > 0) details.push(html`Opened ${opened}× since the start`);
	if (last !== null && !last.passed) {
		details.push(html`Health check: ${last.found}${last.remedy !== null && `: ${last.remedy}`}`);
	}
	const failed = grpc.filter(({ code, last_ten_minutes: lately }) => code !== 0 && lately > 0);
	if (failed.length > 0) {
		const words = failed.map(({ code, last_ten_minutes: lately }) => `${grpcStatusInWords(code)} ${lately}×`);
		details.push(html`gRPC in the last ten minutes: ${words.join(', ')}`);
	}
	return details;
}

/** The script draws into the first two; the words are for everybody, and the only content without it. */
function trend(history: Chart | null, key: string): Markup {
	if (history === null) return html`<span class="quiet">no chart</span>`;
	return html`
		<span class="charts" aria-hidden="true">
		<span class="chart" data-keep data-series="rate" data-row="${key}"></span>
		<span class="chart" data-keep data-series="latency" data-row="${key}"></span>
		</span>
		<span class="peak">peak ${rate(peakOf(history.requests_per_second))}/s, p99 ${latency(peakOf(history.p99_seconds))}</span>
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
		only those with problems</label>
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
