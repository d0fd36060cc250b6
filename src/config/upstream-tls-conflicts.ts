import type { ConfigProblem } from './error.ts';
import { problemIn, tablesOf } from './table-problems.ts';
import type { TomlDocument } from './toml.ts';
import { parseUpstream } from './upstream.ts';
import { quote } from './wording.ts';

/** What is wrong with TLS to upstreams beyond a single key. */
export function upstreamTlsConflicts(document: TomlDocument): ConfigProblem[] {
	return [...conflictsInTables(document), ...twoSchemes(document)];
}

function conflictsInTables(document: TomlDocument): ConfigProblem[] {
	return tablesOf(document, 'upstreams').flatMap((upstream, i) => {
		const tls = (typeof upstream.tls === 'object' && upstream.tls !== null ? upstream.tls : {}) as Record<
			string,
			unknown
		>;
		const add = (key: string, message: string): ConfigProblem[] => {
			const line = document.lineOf(['upstreams', i, 'tls', key]);
			return [{ ...(line !== undefined && { line }), key: `upstreams[${i}].tls.${key}`, message }];
		};
		const alone = (key: string, other: string) =>
			tls[key] !== undefined && tls[other] === undefined
				? add(key, `needs ${other} beside it: a certificate and its key are shown together; set both, or neither`)
				: [];
		return [
			...alone('cert_path', 'key_path'),
			...alone('key_path', 'cert_path'),
			...(tls.insecure_skip_verify === true && tls.ca_path !== undefined
				? add('insecure_skip_verify', 'is true, so nothing would be asked of ca_path; remove one of the two')
				: []),
		];
	});
}

/** One port speaks TLS or does not, and metrics have one label for both. */
function twoSchemes(document: TomlDocument): ConfigProblem[] {
	const first = new Map<string, { readonly route: number; readonly tls: boolean }>();
	return tablesOf(document, 'routes').flatMap(({ upstream }, i) => {
		const url = typeof upstream === 'string' ? parseUpstream(upstream) : '';
		if (typeof url === 'string') return [];
		const { address, tls } = url;
		const other = first.get(address.authority);
		if (other === undefined) first.set(address.authority, { route: i, tls });
		if (other === undefined || other.tls === tls) return [];
		const [ours, theirs] = tls ? ['https', 'http'] : ['http', 'https'];
		const line = document.lineOf(['routes', other.route, 'upstream']);
		const message =
			`is ${ours}:// here and ${theirs}:// for routes[${other.route}] on line ${line}, for the same upstream ` +
			`${quote(address.authority)}; write in both what it speaks on that port`;
		return problemIn(document, 'routes', i, 'upstream', message);
	});
}
