import type { Config, RouteConfig } from '../../config/config.ts';
import { quote } from '../../config/wording.ts';
import { fitOf } from '../../gates/routes.ts';
import { placeOf } from './places.ts';

/** Which routes a path could have had, longest prefix first, and why each has it or not. */
export function routeWords(config: Config, path: string, chosen: RouteConfig | undefined): string[] {
	const routes = config.routes.map((route, i) => ({ prefix: route.prefix, route, place: `routes[${i}]` }));
	if (routes.length === 0) return ['the file has no [[routes]]'];
	const near = routes
		.map((one) => ({ ...one, fit: fitOf(one.prefix, path), likeness: likenessOf(one.prefix, path) }))
		.sort((a, b) => b.prefix.length - a.prefix.length);
	const matching = near.filter(({ fit }) => fit === 'matches');
	// Those that come closest are those that were meant; what has the first slash in common alone, nobody meant.
	const missed = near
		.filter(({ fit, likeness }) => fit !== 'matches' && likeness > 1)
		.sort((a, b) => b.likeness - a.likeness)
		.slice(0, MAX_MISSED);
	const shown = [...matching, ...missed].sort((a, b) => b.prefix.length - a.prefix.length);
	const words = shown.map(({ prefix, route, fit, place }) => {
		const which = `${quote(prefix)}, ${placeOf(config, `${place}.prefix`)}`;
		if (route === chosen) return `${which}: taken, the longest that matches`;
		if (fit === 'matches') return `${which}: matches, too, but a longer one does; there is no falling through`;
		if (fit === 'no boundary') {
			return `${which}: no; it ends within a segment: "${cut(prefix.slice(-20))}" is followed by ${quote(path[prefix.length]!)}, not by "/" or the end`;
		}
		return `${which}: no; ${whyItDiffers(prefix, path)}`;
	});
	const left = routes.length - shown.length;
	return left === 0 ? words : [...words, `and ${left} more that the path does not begin with`];
}

const MAX_MISSED = 5;

function whyItDiffers(prefix: string, path: string): string {
	const common = commonLength(prefix, path);
	if (path.length === common) return `the path ends before it: it lacks ${quote(prefix.slice(common))}`;
	if (prefix.toLowerCase() === path.slice(0, prefix.length).toLowerCase()) return 'it is spelled in another case';
	return `the path differs from it at character ${common + 1}: ${quote(path[common]!)} for ${quote(prefix[common]!)}`;
}

/** Characters that the two have in common at their beginning, in any case. */
function likenessOf(prefix: string, path: string): number {
	return commonLength(prefix.toLowerCase(), path.toLowerCase());
}

function commonLength(a: string, b: string): number {
	let i = 0;
	while (i < a.length && i < b.length && a[i] === b[i]) i++;
	return i;
}

function cut(text: string): string {
	return JSON.stringify(text).slice(1, -1);
}
