import { statSync } from 'node:fs';
import { parseLogFilter } from '@mtls-edge-proxy/gate/shared/log.ts';
import { bodyMode } from '#body';
import { type ConfigProblem, describeProblem, inFileOrder } from '../config/error.ts';
import { plural } from '../config/wording.ts';
import { assertEnoughFiles, openFilesLimit } from '../control/descriptor-limit.ts';
import { inspect } from '../control/files/inspection.ts';
import { processLimits } from '../control/process-state.ts';
import { checkAdvice } from './check-advice.ts';
import type { Context } from './command.ts';
import { unknownVariables } from './environment.ts';
import { type RunValues, threads } from './run-options.ts';
import { assertFewWorkers } from './worker-limit.ts';

/**
 * `proxy check`: reports what the start would refuse or warn of. Uses the same code to read and judge, but opens no socket and starts
 * no thread.
 */

interface CheckValues extends Omit<RunValues, 'pidFile' | 'logFormat' | 'noStatus'> {
	readonly json: boolean;
}

/** What `--json` prints; members are added, never changed. */
export interface CheckResult {
	/** Whether there are no errors. */
	readonly ok: boolean;
	readonly errors: readonly Finding[];
	readonly warnings: readonly Finding[];
}

export interface Finding {
	/** The configuration file; `null` for other problems, such as the environment. */
	readonly file: string | null;
	/** From 1; `null` if no line is at fault. */
	readonly line: number | null;
	/** Full key, `routes[2].prefix`, or the name of a variable; `null` if there is none. */
	readonly key: string | null;
	/** Begins with the path of the file that the key names, if that file has the fault. */
	readonly message: string;
}

/** @returns the exit code: 0, or 1 if there are errors. */
export async function runCheck(
	{ config: path, bind, metricsBind, forceWorkers, rustLog, json, ...values }: CheckValues,
	{ env, print, cores, commands }: Pick<Context, 'env' | 'print' | 'cores' | 'commands'>,
): Promise<number> {
	const workers = threads(values.workers, cores);
	const { files, problems, warnings } = await inspect(path, new Date());
	const ofFile = (found: readonly ConfigProblem[]) => inFileOrder(found).map((problem) => ({ path, problem }));
	const failing = warnings.filter(({ failsCheck }) => failsCheck);
	const advice =
		files === undefined
			? []
			: checkAdvice(files.config, { bind, metricsBind }, modeOf(files.config.tls.keyPath), bodyMode);
	const errors = [...ofFile([...problems, ...failing]), ...refusalsOfProcess(workers, cores, forceWorkers)];
	const doubts = [
		...ofFile([...warnings.filter(({ failsCheck }) => !failsCheck), ...advice]),
		...parseLogFilter(rustLog).problems.map((message) => ofProcess({ key: 'RUST_LOG', message })),
		...unknownVariables(env, commands).map(({ name, message }) => ofProcess({ key: name, message })),
		...(files === undefined
			? []
			: processLimits(files.config, workers).warnings.map((message) => ofProcess({ message }))),
	];
	print(json ? toJson(errors, doubts) : toText(path, errors, doubts));
	return errors.length === 0 ? 0 : 1;
}

/** `undefined` on Windows, which has no such permissions. */
function modeOf(file: string): number | undefined {
	return process.platform === 'win32' ? undefined : statSync(file, { throwIfNoEntry: false })?.mode;
}

interface Found {
	/** The configuration file; `null` for other problems. */
	readonly path: string | null;
	readonly problem: ConfigProblem;
}

function ofProcess(problem: ConfigProblem): Found {
	return { path: null, problem };
}

function refusalsOfProcess(workers: number, cores: number, forceWorkers: boolean): Found[] {
	const asserted = [
		() => assertFewWorkers(workers, cores, forceWorkers),
		() => assertEnoughFiles(openFilesLimit(), workers),
	];
	return asserted.flatMap((assert) => {
		try {
			assert();
			return [];
		} catch (error) {
			return [ofProcess({ message: (error as Error).message })];
		}
	});
}

function toJson(errors: readonly Found[], doubts: readonly Found[]): string {
	const result: CheckResult = { ok: errors.length === 0, errors: errors.map(finding), warnings: doubts.map(finding) };
	return `${JSON.stringify(result)}\n`;
}

function finding({ path, problem: { line, key, file, message } }: Found): Finding {
	const text = file === undefined ? message : `${file}: ${message}`;
	return { file: path, line: line ?? null, key: key ?? null, message: text };
}

function toText(path: string, errors: readonly Found[], doubts: readonly Found[]): string {
	const verdict = errors.length === 0 ? 'ok' : 'cannot be used';
	const counts = `${plural(errors.length, 'error')}, ${plural(doubts.length, 'warning')}`;
	const lines = [
		...errors.map((found) => `error: ${described(found)}`),
		...doubts.map((found) => `warning: ${described(found)}`),
		`${path}: ${verdict} (${counts})`,
	];
	return `${lines.join('\n')}\n`;
}

function described({ path, problem }: Found): string {
	if (path !== null) return describeProblem(path, problem);
	return problem.key === undefined ? problem.message : `${problem.key}: ${problem.message}`;
}
