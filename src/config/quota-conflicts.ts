import { MAX_BURST_SECONDS } from '../gates/tenant-limit.ts';
import type { ConfigProblem } from './error.ts';
import type { TomlDocument } from './toml.ts';
import { quote } from './wording.ts';

/**
 * What is wrong with quotas beyond a single key: a tenant that is there twice, and a burst that fits no rate. Apart from the
 * schema, so that all problems are reported at once.
 */
export function quotaConflicts(document: TomlDocument): ConfigProblem[] {
	return [
		...duplicateTenants(document),
		...capWithoutClaim(document),
		...['tenants', 'routes'].flatMap((list) =>
			tablesOf(document, list).flatMap((_, i) => burstProblem(document, list, i)),
		),
	];
}

function duplicateTenants(document: TomlDocument): ConfigProblem[] {
	const first = new Map<unknown, number>();
	return tablesOf(document, 'tenants').flatMap(({ name }, i) => {
		if (typeof name !== 'string') return [];
		const taken = first.get(name);
		if (taken === undefined) {
			first.set(name, i);
			return [];
		}
		const other = `tenants[${taken}] on line ${document.lineOf(['tenants', taken, 'name'])}`;
		return problemAt(
			document,
			'tenants',
			i,
			'name',
			`${quote(name)} is already the name of ${other}; remove one of the two`,
		);
	});
}

function burstProblem(document: TomlDocument, list: string, i: number): ConfigProblem[] {
	const { rps, burst } = tablesOf(document, list)[i]!;
	if (burst === undefined || (rps !== undefined && typeof rps !== 'number')) return [];
	if (!rps) {
		const message = `says how many may come at once, and there is no rps that fills them up again; set rps beside it, or leave it out`;
		return problemAt(document, list, i, 'burst', message);
	}
	const most = rps * MAX_BURST_SECONDS;
	if (typeof burst !== 'number' || burst <= most) return [];
	const message = `takes more than ${MAX_BURST_SECONDS} s to fill up again; set it to ${most} or less, or raise rps`;
	return problemAt(document, list, i, 'burst', message);
}

function capWithoutClaim(document: TomlDocument): ConfigProblem[] {
	const { jwt } = document.root;
	const message = 'is the most that rate_claim may say, and there is none; set rate_claim beside it, or leave it out';
	const isCapAlone = (table: object) => 'max_rps' in table && !('rate_claim' in table);
	const problems = tablesOf(document, 'issuers').flatMap((issuer, i) =>
		isCapAlone(issuer) ? problemAt(document, 'issuers', i, 'max_rps', message) : [],
	);
	if (typeof jwt !== 'object' || jwt === null || !isCapAlone(jwt)) return problems;
	const line = document.lineOf(['jwt', 'max_rps']);
	return [{ ...(line !== undefined && { line }), key: 'jwt.max_rps', message }, ...problems];
}

function tablesOf({ root }: TomlDocument, list: string): Record<string, unknown>[] {
	const tables = root[list];
	return Array.isArray(tables) ? tables.map((table) => (typeof table === 'object' && table !== null ? table : {})) : [];
}

function problemAt(document: TomlDocument, list: string, i: number, key: string, message: string): ConfigProblem[] {
	const line = document.lineOf([list, i, key]) ?? document.lineOf([list, i]);
	return [{ ...(line !== undefined && { line }), key: `${list}[${i}].${key}`, message }];
}
