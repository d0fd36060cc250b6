/**
 * Measures this project and other proxies, and draws the chart of the README.
 *
 *   npm run bench                                  every case: bench/results.json, docs/images/bench.svg, and tables; about 20 minutes
 *   npm run bench -- --rounds 2 --secs 1           the same, shorter
 *   npm run bench -- --only h2 --only h1           only these cases; other results stay
 *   npm run bench -- --proto h2 --conns 16         one comparison by hand, with the options of compare.py; nothing is stored
 *   npm run bench -- --help                        this text, and the options of compare.py
 *
 * It needs what compare.py needs. Proxies that are not installed are left out with a message.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { CASES, type Case, type CaseResult, type Results, type Row } from './cases.ts';
import { CHART_FILE, drawChart, RESULTS_FILE, readResults, table } from './chart.ts';

const COMPARE = resolve(import.meta.dirname, 'compare.py');

function main(args: string[]): void {
	if (args.includes('--help')) {
		const [comment] = /(?<=\/\*\*\n)[\s\S]*?(?= \*\/)/.exec(readFileSync(import.meta.filename, 'utf8'))!;
		console.log(comment.replaceAll(/^ \* ?/gm, ''));
		console.log(`Cases: ${CASES.map(({ name }) => name).join(', ')}\n`);
	}
	const all = ownOptions(args);
	if (all === undefined) {
		process.exitCode = spawnSync('python3', [COMPARE, ...args], { stdio: 'inherit' }).status ?? 1;
		return;
	}
	const versions: Record<string, string> = {};
	for (const one of CASES.filter(({ name }) => all.only?.includes(name) ?? true)) {
		if (one.needs !== undefined && spawnSync(one.needs, ['version']).error !== undefined) {
			console.error(`left out: ${one.name}, which needs ${one.needs}`);
			continue;
		}
		const result = measure(one, all.rounds, all.secs, versions);
		console.log(table(result));
		keep(result, versions);
	}
	console.log('written: bench/results.json, docs/images/bench.svg');
}

/** The options of a run over all cases; `undefined` if there is any other option, which is for compare.py. */
function ownOptions(args: string[]): { only: string[] | undefined; rounds: string; secs: string } | undefined {
	const options = {
		only: { type: 'string', multiple: true },
		rounds: { type: 'string', default: '5' },
		secs: { type: 'string', default: '3' },
	} as const;
	try {
		const { values } = parseArgs({ args, options });
		const unknown = values.only?.find((name) => !CASES.some((one) => one.name === name));
		if (unknown === undefined) return { only: values.only, rounds: values.rounds, secs: values.secs };
		console.error(`there is no case '${unknown}'; there are ${CASES.map(({ name }) => name).join(', ')}`);
		process.exit(2);
	} catch {
		return undefined;
	}
}

interface Comparison {
	readonly versions: Readonly<Record<string, string>>;
	readonly rows: readonly (Row & { readonly latency_max_mean: unknown })[];
}

function measure({ name, args }: Case, rounds: string, secs: string, versions: Record<string, string>): CaseResult {
	const command = [COMPARE, ...args, '--rounds', rounds, '--secs', secs, '--json'];
	const { status, stdout } = spawnSync('python3', command, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
	// compare.py has printed the reason.
	if (status !== 0) process.exit(status ?? 1);
	const comparison: Comparison = JSON.parse(stdout);
	Object.assign(versions, comparison.versions);
	const rows = comparison.rows.map(({ latency_max_mean: _, ...row }) => row);
	return { name, commit: commit(), rounds: Number(rounds), seconds: Number(secs), rows };
}

/** After each case, so that an interrupted run keeps its results. */
function keep(result: CaseResult, versions: Readonly<Record<string, string>>): void {
	const before = previous();
	const known = new Map([...before.cases, result].map((one) => [one.name, one]));
	const results: Results = {
		machine: `${cpus().length} CPUs, ${cpus()[0]?.model.trim() ?? 'unknown'}`,
		versions: { ...before.versions, ...versions },
		cases: CASES.flatMap(({ name }) => known.get(name) ?? []),
	};
	writeFileSync(RESULTS_FILE, `${JSON.stringify(results, null, 2)}\n`);
	writeFileSync(CHART_FILE, drawChart(results));
}

function previous(): Results {
	try {
		return readResults();
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
		return { machine: '', versions: {}, cases: [] };
	}
}

function commit(): string {
	const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).trim();
	const changed = git('status', '--porcelain', '--untracked-files=no', '--', 'packages', 'package-lock.json') !== '';
	return `${git('rev-parse', '--short', 'HEAD')}${changed ? ' with changes' : ''}`;
}

main(process.argv.slice(2));
