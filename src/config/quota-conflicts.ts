import { MAX_BURST_SECONDS } from '../gates/tenant-limit.ts';
import type { ConfigProblem } from './error.ts';
import { duplicateNames, problemIn, tablesOf } from './table-problems.ts';
import type { TomlDocument } from './toml.ts';

/**
 * What is wrong with quotas beyond a single key: a tenant that is there twice, and a burst that fits no rate. Apart from the
 * schema, so that all problems are reported at once.
 */
export function quotaConflicts(document: TomlDocument): ConfigProblem[] {
	return [
		...duplicateNames(document, 'tenants'),
		...capWithoutClaim(document),
		...['tenants', 'routes'].flatMap((list) =>
			tablesOf(document, list).flatMap((_, i) => burstProblem(document, list, i)),
		),
	];
}

function burstProblem(document: TomlDocument, list: string, i: number): ConfigProblem[] {
	const { rps, burst } = tablesOf(document, list)[i]!;
	if (burst === undefined || (rps !== undefined && typeof rps !== 'number')) return [];
	if (!rps) {
		const message = `says how many may come at once, and there is no rps that fills them up again; set rps beside it, or leave it out`;
		return problemIn(document, list, i, 'burst', message);
	}
	const most = rps * MAX_BURST_SECONDS;
	if (typeof burst !== 'number' || burst <= most) return [];
	const message = `takes more than ${MAX_BURST_SECONDS} s to fill up again; set it to ${most} or less, or raise rps`;
	return problemIn(document, list, i, 'burst', message);
}

function capWithoutClaim(document: TomlDocument): ConfigProblem[] {
	const { jwt } = document.root;
	const message = 'is the most that rate_claim may say, and there is none; set rate_claim beside it, or leave it out';
	const isCapAlone = (table: object) => 'max_rps' in table && !('rate_claim' in table);
	const problems = tablesOf(document, 'issuers').flatMap((issuer, i) =>
		isCapAlone(issuer) ? problemIn(document, 'issuers', i, 'max_rps', message) : [],
	);
	if (typeof jwt !== 'object' || jwt === null || !isCapAlone(jwt)) return problems;
	const line = document.lineOf(['jwt', 'max_rps']);
	return [{ ...(line !== undefined && { line }), key: 'jwt.max_rps', message }, ...problems];
}
