import { endpointKey } from '../routing/table.ts';
import type { History } from './history.ts';
import type { Snapshot, StatusPage, UpstreamStatus } from './schema.ts';
import { pageOf, type View } from './view.ts';

/** The part of a snapshot that a view shows, upstreams with problems first. Pure; a step for each upstream. */
export function* pageOfSnapshot(
	{ upstreams, ...rest }: Snapshot,
	view: View,
	history: Pick<History, 'chart' | 'total'>,
	nowMs: number,
): Generator<void, StatusPage> {
	const filter = view.filter.toLowerCase();
	const matching: Record<StoreHealth, UpstreamStatus[]> = { refusing: [], doubtful: [], well: [] };
	let healthy = 0;
	for (const one of upstreams) {
		const storeHealth = standingOf(one);
		if (storeHealth === 'well') healthy++;
		if (isShown(one, filter, view.troubled)) matching[storeHealth].push(one);
		yield;
	}
	const page = pageOf([...matching.refusing, ...matching.doubtful, ...matching.well], view);
	const items: StatusPage['upstreams']['items'][number][] = [];
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

/** Unique in the page, as in the routing table. */
export function keyOf({ upstream, group }: Pick<UpstreamStatus, 'upstream' | 'group'>): string {
	return endpointKey(upstream, group ?? undefined);
}

/** `refusing`: its requests get 503. */
export type StoreHealth = 'refusing' | 'doubtful' | 'well';

export function standingOf({ breaker, health }: UpstreamStatus): StoreHealth {
	if (breaker.state === 'open') return 'refusing';
	return breaker.state === 'half-open' || health === 'unhealthy' ? 'doubtful' : 'well';
}
