import { plural } from '../../config/wording.ts';
import { grpcStatusInWords, IS_GRPC_FAILURE } from '../../gates/grpc-status.ts';
import type { Count } from './counts.ts';
import {
	badge,
	bytes,
	type Content,
	count,
	day,
	duration,
	html,
	inParts,
	latency,
	type Markup,
	moment,
	percent,
} from './markup.ts';
import { EXPIRES_SOON_DAYS, type Panel } from './problems.ts';
import type { StatusPage } from './view.ts';

/** The smaller panels: a heading and a table each. */

/** Rows of one of these tables; `/status.json` has all. */
const MAX_ROWS = 50;

/** In their order on the page. */
export const PANELS: readonly ((status: StatusPage) => Markup | undefined)[] = [
	dnsPanel,
	refusalsPanel,
	grpcPanel,
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

/** Only with `[[upstreams]] dns`. */
function dnsPanel({ dns, at }: StatusPage): Markup | undefined {
	if (dns.length === 0) return undefined;
	// Failing names come first: there may be more than are shown.
	const ordered = dns.toSorted((a, b) => trouble(b) - trouble(a));
	return panel('dns', 'Addresses from DNS', [
		table(
			'Upstreams that get their addresses from DNS. While it fails, the addresses of the last good answer stay in use.',
			['Upstream', '#Addresses', 'Age', 'Last answer'],
			ordered,
			({ group, name, addresses, age_seconds, failing_since, failures, cause }) => [
				html`${group} <small>${name}</small>`,
				addresses === 0 ? badge('bad', 'none') : count(addresses),
				html`${age_seconds === null ? 'never answered' : duration(age_seconds)}`,
				failing_since === null
					? html`${age_seconds === null ? 'none yet' : 'good'}`
					: html`${causeText(cause)} <small>${failures}×, since ${moment(failing_since, at)}</small>`,
			],
		),
	]);
}

function trouble({ addresses, failing_since }: StatusPage['dns'][number]): number {
	return Number(addresses === 0) * 2 + Number(failing_since !== null);
}

function refusalsPanel({ refusals }: StatusPage): Markup {
	return panel('refusals', 'Refusals', [
		countsTable(
			'Requests that the proxy refused, by reason. Failures of an upstream count in the table of upstreams.',
			refusals,
			'No request has been refused.',
		),
	]);
}

function handshakesPanel({ handshakes }: StatusPage): Markup {
	const { completed_total, failed_total, p50_seconds, p99_seconds, failures } = handshakes;
	return panel('handshakes', 'TLS handshakes', [
		facts([
			['Completed', count(completed_total)],
			['Failed', count(failed_total)],
			['p50', latency(p50_seconds)],
			['p99', latency(p99_seconds)],
		]),
		countsTable('Failed handshakes, by reason.', failures, 'No handshake has failed.'),
	]);
}

function connectionsPanel({ connections }: StatusPage): Markup {
	const { handshaking, http1, h2, websockets, refused, ended, websocket_ends, http2_errors } = connections;
	const said = (words: string, counts: readonly Count[]) =>
		counts.map(({ reason, ...one }) => ({ ...one, reason: `${words}: ${reason}` }));
	const events = [
		...said('refused', refused),
		...said('ended', ended),
		...said(
			'WebSocket ended',
			websocket_ends.filter(({ reason }) => !ENDED_BY_A_PEER.has(reason)),
		),
		...said('HTTP/2 error', http2_errors),
	];
	return panel('connections', 'Client connections', [
		facts([
			['HTTP/1.1', count(http1)],
			['HTTP/2', count(h2)],
			['In handshake', count(handshaking)],
			...(websockets > 0 || websocket_ends.length > 0 ? ([['WebSockets open', count(websockets)]] as const) : []),
		]),
		countsTable('Connections refused or ended by the proxy, by reason.', events, 'None has been refused or ended.'),
	]);
}

/** Normal ends of WebSockets. */
const ENDED_BY_A_PEER: ReadonlySet<string> = new Set(['client', 'upstream']);

/** Only once there has been a call. */
function grpcPanel({ grpc }: StatusPage): Markup | undefined {
	if (grpc.length === 0) return undefined;
	return panel('grpc', 'gRPC', [
		table(
			'Calls that upstreams answered, by status, with the upstreams that recently returned it most. ▲ marks a failure of the server.',
			['Status and upstreams', '#Last ten minutes', '#Since the start'],
			grpc,
			({ code, last_ten_minutes, total, upstreams, upstreams_total }) => [
				html`${last_ten_minutes === 0 || code === 0 ? inParts(grpcStatusInWords(code)) : grpcBadge(code)} <small>${inParts(upstreams.join(', '))}${upstreams_total > upstreams.length && ` and ${upstreams_total - upstreams.length} more`}</small>`,
				count(last_ten_minutes),
				count(total),
			],
		),
	]);
}

function grpcBadge(code: number): Markup {
	return badge(IS_GRPC_FAILURE[code] ? 'bad' : 'doubtful', inParts(grpcStatusInWords(code)));
}

function certificatesPanel({ certificates }: StatusPage): Markup {
	return panel('certificates', 'Certificates', [
		table(
			'The server’s certificate and its issuers, the CAs of clients, and revocation lists.',
			['Subject', 'Use', 'Ends', '#Days left'],
			certificates,
			({ subject, kind, not_after, days_left }) => [
				html`<span class="subject">${inParts(subject)}</span>`,
				html`${KINDS[kind]}`,
				day(not_after),
				days_left < 0
					? badge('bad', kind === 'crl' ? 'overdue' : 'expired')
					: days_left < EXPIRES_SOON_DAYS && kind !== 'crl'
						? badge('doubtful', days_left)
						: html`${days_left}`,
			],
		),
	]);
}

const KINDS = {
	server: 'server',
	server_chain: 'server’s chain',
	client_ca: 'CA of clients',
	upstream_client: 'for upstreams',
	upstream_ca: 'CA of upstreams',
	crl: 'CRL',
} as const;

function issuersPanel({ issuers }: StatusPage): Markup {
	return panel('issuers', 'Token issuers', [
		table(
			'Who signs tokens, and the age of the keys that verify them.',
			['Issuer', 'Keys', 'Age', '#Fetches failed'],
			issuers,
			({ issuer, keys, algorithms, source, age_seconds, fetches }) => [
				html`<span class="subject">${inParts(issuer ?? 'any (iss is not checked)')}</span> <small>${algorithms.join(', ')}</small>`,
				keys.length === 0 ? badge('bad', 'none') : html`${keys.length}${keyNames(keys)}`,
				html`${source === 'file' ? 'from a file' : age_seconds === null ? 'never fetched' : duration(age_seconds)}`,
				fetches === null
					? html`<span class="quiet">no fetches</span>`
					: html`${fetches.failure_total} of ${fetches.failure_total + fetches.success_total}`,
			],
		),
	]);
}

/** Names are not secret; there may be many, and long ones. */
function keyNames(keys: readonly (string | null)[]): Markup | undefined {
	const named = keys.filter((kid) => kid !== null);
	if (named.length === 0) return undefined;
	const more = named.length - MAX_KEY_NAMES;
	const shown = named.slice(0, MAX_KEY_NAMES).map((kid) => html` <code>${kid.slice(0, 40)}</code>`);
	return html` <small class="kids">${shown}${more > 0 && ` and ${more} more`}</small>`;
}

const MAX_KEY_NAMES = 4;

function workersPanel({ workers }: StatusPage): Markup {
	return panel('workers', 'Workers', [
		table(
			`${workers.listening} of ${plural(workers.configured, 'worker thread')} accept connections. Loop: share of time that the event loop was busy.`,
			['Worker', '#Loop', '#Delay p99', '#In flight', '#Connections'],
			workers.each,
			({ worker, utilization, delay_p99_seconds, in_flight, connections }) => [
				html`worker ${worker}`,
				utilization === null ? count(null) : meter(utilization, `event loop of worker ${worker}`),
				latency(delay_p99_seconds),
				count(in_flight),
				count(connections),
			],
		),
	]);
}

function memoryPanel({ memory, process }: StatusPage): Markup {
	const amount = (unit: string, value: number) => (unit === 'bytes' ? html`${bytes(value)}` : count(value));
	return panel('memory', 'Memory and budgets', [
		facts([
			['Resident', html`${bytes(process.resident_bytes)}`],
			['Heap of the main thread', html`${bytes(process.heap_used_bytes)}`],
		]),
		table(
			'Budgets that all workers share.',
			['Budget', '#In use', '#Limit', '#Share'],
			memory,
			({ name, unit, used, limit, key }) => [
				html`${name} <small><code>${key}</code></small>`,
				amount(unit, used),
				amount(unit, limit),
				meter(limit === 0 ? 0 : used / limit, name),
			],
		),
	]);
}

function reloadsPanel({ reloads, at }: StatusPage): Markup {
	const { generation, success_total, failure_total, last, needs_restart } = reloads;
	return panel('reloads', 'Reloads', [
		facts([
			['Generation', count(generation)],
			['Succeeded', count(success_total)],
			['Failed', count(failure_total)],
		]),
		needs_restart.length > 0 &&
			html`<p>${badge('doubtful', 'needs a restart')} ${causeText(needs_restart.join(', '))}</p>`,
		table(
			'The last reloads, the latest first.',
			['When', 'What', 'Outcome', 'Trigger'],
			last,
			(one) => [
				moment(one.at, at),
				html`${PARTS[one.part]}`,
				one.outcome === 'success' ? badge('good', 'applied') : html`${badge('bad', 'failed')} ${causeText(one.cause)}`,
				html`${one.asked}`,
			],
			'No reload since the start.',
		),
	]);
}

const PARTS = { tls: 'TLS', identity: 'identity', routes: 'routes' } as const;

/** Only with `[limiter]`. */
function limitsPanel({ shared_limits: limits }: StatusPage): Markup | undefined {
	if (limits === null) return undefined;
	const { store, cause, replicas, settle_seconds, calls, revocations } = limits;
	return panel('limits', 'Shared limits', [
		facts([
			['Store', store === 'up' ? badge('good', 'up') : html`${badge('bad', 'unavailable')} ${causeText(cause)}`],
			['Replicas', count(replicas)],
			['Settled within', html`${settle_seconds.toFixed(2)} s`],
			['Calls', count(calls.success_total)],
			['Failed', count(calls.failure_total)],
			...(revocations === null ? [] : ([['Revocations', count(revocations)]] as const)),
		]),
	]);
}

/** Only with `[status] tenants = true`. */
function tenantsPanel({ tenants }: StatusPage): Markup | undefined {
	if (tenants === null) return undefined;
	return panel('tenants', 'Tenants', [
		table(
			'Tenants with limits of their own ([[tenants]]), the busiest first. Requests in flight are counted only with a limit on concurrency.',
			['Tenant', '#Requests/s allowed', '#Burst', '#In flight', '#Concurrency'],
			tenants,
			({ tenant, requests_per_second, burst, concurrency, in_flight }) => [
				html`<span class="subject">${inParts(tenant)}</span>`,
				typeof requests_per_second === 'number'
					? count(requests_per_second)
					: html`${requests_per_second ?? 'default'}`,
				count(burst),
				count(in_flight),
				count(concurrency),
			],
			'The configuration has none.',
		),
	]);
}

function causeText(text: string | null): Markup {
	return html`<span class="cause">${inParts(text ?? '')}</span>`;
}

function panel(id: Panel, title: string, content: readonly Content[]): Markup {
	return html`<section id="${id}" aria-labelledby="${id}-title"><h2 id="${id}-title">${title}</h2>${content}</section>`;
}

function facts(pairs: readonly (readonly [name: string, value: Markup])[]): Markup {
	return html`<dl class="facts">${pairs.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function countsTable(caption: string, counts: readonly Count[], empty: string): Markup {
	const hasStatus = counts.some(({ status }) => status !== undefined);
	return table(
		caption,
		['Reason', ...(hasStatus ? ['#Response'] : []), '#Last ten minutes', '#Since the start'],
		counts,
		({ reason, status, last_ten_minutes, total }) => [
			html`${reason}`,
			...(hasStatus ? [html`${status}`] : []),
			count(last_ten_minutes),
			count(total),
		],
		empty,
	);
}

/**
 * @param columns names; those of columns with numbers begin with `#`.
 * @param cellsOf the cells of an item's row; the first one names the row.
 * @param empty says that there are none.
 */
function table<Item>(
	caption: string,
	columns: readonly string[],
	items: readonly Item[],
	cellsOf: (item: Item) => readonly Markup[],
	empty = 'There are none.',
): Markup {
	if (items.length === 0) return html`<p class="empty">${empty}</p>`;
	const kinds = columns.map((name) => (name.startsWith('#') ? 'number' : 'words'));
	const rows = items.slice(0, MAX_ROWS).map(cellsOf);
	const more = items.length - rows.length;
	return html`
		<table><caption>${caption}</caption>
		<thead><tr>${columns.map((name, i) => html`<th scope="col" class="${kinds[i]}">${name.replace('#', '')}</th>`)}</tr></thead>
		<tbody>${rows.map(
			([first, ...cells]) => html`
				<tr><th scope="row">${first}</th>${cells.map((cell, i) => html`<td class="${kinds[i + 1]}">${cell}</td>`)}</tr>
			`,
		)}</tbody></table>
		${more > 0 && html`<p class="empty">and ${more} more, in <a href="/status.json">/status.json</a></p>`}
	`;
}

/** A bar next to its number; the number says everything. */
function meter(share: number, name: string): Markup {
	return html`<span class="meter"><meter min="0" max="1" low="0.7" high="0.9" optimum="0" value="${Math.min(share, 1).toFixed(3)}" aria-label="${name}"></meter> <span>${percent(share)}</span></span>`;
}
