import type { Chart, History } from './history.ts';
import type { Snapshot } from './problems.ts';
import { keyOf, standingOf, type UpstreamStatus } from './upstreams.ts';

/** The part of a long table that a reader sees. The rest of the page is the same for all. */
export interface View {
	/** Shows upstreams with this text in their name or in a route's prefix; empty: all. */
	readonly filter: string;
	/** Only those that are not well. */
	readonly troubled: boolean;
	/** From 1. */
	readonly page: number;
	/** Rows of a page. */
	readonly rows: number;
}

export const DEFAULT_ROWS = 25;
/** Bounds the cost of a page. */
export const MAX_ROWS = 200;
/** All rows, as they come. */
export const WHOLE_VIEW: View = { filter: '', troubled: false, page: 1, rows: DEFAULT_ROWS };
const MAX_FILTER_LENGTH = 100;
const MAX_PAGE = 100_000;

/** Reads the query of an address. Invalid values become defaults: an old link still leads somewhere. */
export function parseView(query: string): View {
	const parameters = new URLSearchParams(query);
	return {
		filter: (parameters.get('filter') ?? '').trim().slice(0, MAX_FILTER_LENGTH),
		troubled: parameters.get('show') === 'trouble',
		page: wholeNumber(parameters.get('page'), 1, MAX_PAGE),
		rows: wholeNumber(parameters.get('rows'), DEFAULT_ROWS, MAX_ROWS),
	};
}

/** The query that leads to a view: `?filter=a&page=2`, or `?` if all values are defaults. */
export function queryOf({ filter, troubled, page, rows }: View): string {
	const parameters = new URLSearchParams();
	if (filter !== '') parameters.set('filter', filter);
	if (troubled) parameters.set('show', 'trouble');
	if (page !== 1) parameters.set('page', String(page));
	if (rows !== DEFAULT_ROWS) parameters.set('rows', String(rows));
	return `?${parameters}`;
}

function wholeNumber(text: string | null, fallback: number, most: number): number {
	return /^[1-9]\d{0,8}$/.test(text ?? '') ? Math.min(Number(text), most) : fallback;
}

/** One page of the matching items; beyond the last page, the last one. */
export function pageOf<Item>(matching: readonly Item[], { page, rows }: View) {
	const pages = Math.max(1, Math.ceil(matching.length / rows));
	const shown = Math.min(page, pages);
	return {
		matching: matching.length,
		page: shown,
		pages,
		items: matching.slice((shown - 1) * rows, shown * rows),
	};
}

/** The status for one reader: one page of the upstreams, each with its last ten minutes. */
export type StatusPage = ReturnType<typeof pageOfSnapshot> extends Generator<unknown, infer Page> ? Page : never;

/** The part of a snapshot that a view shows, upstreams with problems first. Pure; a step for each upstream. */
export function* pageOfSnapshot(
	{ upstreams, ...rest }: Snapshot,
	view: View,
	history: Pick<History, 'chart' | 'total'>,
	nowMs: number,
) {
	const filter = view.filter.toLowerCase();
	const matching: Record<ReturnType<typeof standingOf>, UpstreamStatus[]> = { refusing: [], doubtful: [], well: [] };
	let healthy = 0;
	for (const one of upstreams) {
		const standing = standingOf(one);
		if (standing === 'well') healthy++;
		if (isShown(one, filter, view.troubled)) matching[standing].push(one);
		yield;
	}
	const page = pageOf([...matching.refusing, ...matching.doubtful, ...matching.well], view);
	const items: (UpstreamStatus & { readonly history: Chart | null })[] = [];
	for (const one of page.items) {
		items.push({ ...one, history: history.chart(keyOf(one), nowMs) ?? null });
		yield;
	}
	return {
		...rest,
		upstreams: { total: upstreams.length, healthy, ...page, items },
		history: { seconds_between: 10, ...history.total(nowMs) },
	};
}

/** @param filter in lower case. */
function isShown(one: UpstreamStatus, filter: string, troubled: boolean): boolean {
	// A problem may be about either.
	if (troubled && standingOf(one) === 'well' && one.tls !== 'not verified') return false;
	const contains = (name: string) => name.toLowerCase().includes(filter);
	return filter === '' || contains(one.upstream) || contains(one.group ?? '') || one.routes.some(contains);
}
