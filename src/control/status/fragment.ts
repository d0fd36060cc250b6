import type { Markup } from './markup.ts';

/**
 * A piece of the page that is one element with an `id`, and the pieces in it. What has changed in a second is found piece by piece,
 * so an update is as large as what it changes.
 */
export interface Fragment {
	/** Of its element; unique in the page. */
	readonly id: string;
	readonly open: string;
	readonly parts: readonly Fragment[];
	readonly close: string;
}

/** An element without pieces of its own. */
export function leaf(id: string, markup: Markup): Fragment {
	return { id, open: markup.toString().trim(), parts: [], close: '' };
}

/** An element around others. */
export function around(id: string, open: Markup, parts: readonly Fragment[], close: Markup): Fragment {
	return { id, open: open.toString().trim(), parts, close: close.toString().trim() };
}

export function htmlOf({ open, parts, close }: Fragment): string {
	return open + parts.map(htmlOf).join('') + close;
}

/** The elements, whole, that have to be replaced for `before` to become `after`: the smallest that will do. */
export function changes(before: Fragment | undefined, after: Fragment): string[] {
	if (before === after) return [];
	if (before === undefined || !isSameFrame(before, after)) return [htmlOf(after)];
	return after.parts.flatMap((part, i) => changes(before.parts[i], part));
}

function isSameFrame(before: Fragment, after: Fragment): boolean {
	return (
		before.id === after.id &&
		before.open === after.open &&
		before.close === after.close &&
		before.parts.length === after.parts.length
	);
}
