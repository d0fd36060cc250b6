import type { Config, RouteConfig } from '../../config/config.ts';
import { quote } from '../../config/wording.ts';
import { readingsOf } from '../../gates/path-readings.ts';
import { fitOf } from '../../gates/prefix-table.ts';
import type { RouteTable } from '../../gates/routes.ts';
import { placeOf } from './places.ts';

/** Candidate routes of a path, longest prefix first, each with the reason why it matches or not. */
export function routeWords(config: Config, path: string, chosen: RouteConfig | undefined): string[] {
	const routes = config.routes.map((route, i) => ({ prefix: route.prefix, route, place: `routes[${i}]` }));
	if (routes.length === 0) return ['the file has no [[routes]]'];
	const near = routes
		.map((one) => ({ ...one, fit: fitOf(one.prefix, path), likeness: likenessOf(one.prefix, path) }))
		.sort((a, b) => b.prefix.length - a.prefix.length);
	const matching = near.filter(({ fit }) => fit === 'matches');
	// The most similar prefixes are probably the intended ones. One that shares only the first slash is shown if no route matches.
	const missed = near
		.filter(({ fit, likeness }) => fit !== 'matches' && (likeness > 1 || matching.length === 0))
		.sort((a, b) => b.likeness - a.likeness)
		.slice(0, MAX_MISSED);
	const shown = [...matching, ...missed].sort((a, b) => b.prefix.length - a.prefix.length);
	const words = shown.map(({ prefix, route, fit, place }) => {
		const which = `${quote(prefix)}, ${placeOf(config, `${place}.prefix`)}`;
		if (route === chosen) return `${which}: chosen, the longest match`;
		if (fit === 'matches') return `${which}: matches, but a longer prefix wins, and there is no fallback`;
		if (fit === 'no boundary') {
			return `${which}: no; it ends within a segment: "${cut(prefix.slice(-20))}" is followed by ${quote(path[prefix.length]!)}, not by "/" or the end`;
		}
		return `${which}: no; ${whyItDiffers(prefix, path)}`;
	});
	const left = routes.length - shown.length;
	return left === 0 ? words : [...words, `and ${left} more that do not match`];
}

/** Other readings of the path, with the route of each; readings that lead elsewhere come first. */
export function readingWords(table: RouteTable<RouteConfig>, path: string): string[] {
	const chosen = table.asWritten(path);
	const readings = Array.from(readingsOf(path) ?? [], (reading) => ({ reading, route: table.leadsTo(reading) }));
	const elsewhere = readings.filter(({ route }) => route !== chosen);
	const same = readings.filter(({ reading, route }) => route === chosen && reading !== path);
	const words = [...elsewhere, ...same].map(({ reading, route }) => {
		const read = reading === path ? 'take it for a path of' : `read it as ${readingInWords(reading)},`;
		return `some upstreams ${read} ${route === undefined ? 'no route' : `the route ${quote(route.prefix)}`}`;
	});
	const left = words.length - MAX_READINGS;
	return left <= 0 ? words : [...words.slice(0, MAX_READINGS), `and ${left} more readings`];
}

/** A reading is bytes; most are UTF-8. */
export function readingInWords(reading: string): string {
	return quote(Buffer.from(reading, 'latin1').toString('utf8'));
}

const MAX_READINGS = 8;
const MAX_MISSED = 5;

function whyItDiffers(prefix: string, path: string): string {
	const common = commonLength(prefix, path);
	if (path.length === common) return `the path ends before it: it lacks ${quote(prefix.slice(common))}`;
	if (prefix.toLowerCase() === path.slice(0, prefix.length).toLowerCase()) return 'it differs in letter case';
	return `the path differs from it at character ${common + 1}: ${quote(path[common]!)} instead of ${quote(prefix[common]!)}`;
}

/** Length of the common beginning, ignoring case. */
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
