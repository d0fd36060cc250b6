import { type ConfigProblem, describeProblem, inFileOrder } from '../config/error.ts';
import { inspect } from '../control/inspection.ts';
import { processLimits } from '../control/process-state.ts';
import { parseLogFilter } from '../shared/log.ts';
import type { CommandLine } from './arguments.ts';
import { unknownVariables } from './environment.ts';

/**
 * `proxy check`: what the start would refuse or warn of, by the very same reading and judging, without a socket and
 * without a thread of ours.
 */

/** What `--json` prints; members are added, never changed. */
export interface CheckResult {
	/** Whether there are no errors. */
	readonly ok: boolean;
	readonly errors: readonly Finding[];
	readonly warnings: readonly Finding[];
}

export interface Finding {
	/** The configuration file; `null` for what is no matter of it, such as the environment. */
	readonly file: string | null;
	/** From 1; `null` where no line is to blame. */
	readonly line: number | null;
	/** Full key, `routes[2].prefix`, or the name of a variable; `null` where there is none. */
	readonly key: string | null;
	/** Begins with the path of the file that the key names, where that is to blame. */
	readonly message: string;
}

/** @returns the exit code: 0, or 1 where there are errors. */
export async function runCheck(
	{ config: path, workers, rustLog, json }: Extract<CommandLine, { command: 'check' }>,
	env: Readonly<Record<string, string | undefined>>,
	print: (text: string) => void,
): Promise<number> {
	const { files, problems, warnings } = await inspect(path, new Date());
	const errors = inFileOrder(problems);
	const doubts = inFileOrder(warnings);
	const others = [
		...parseLogFilter(rustLog).problems.map((message) => ({ key: 'RUST_LOG', message })),
		...unknownVariables(env).map(({ name, message }) => ({ key: name, message })),
		...(files === undefined ? [] : processLimits(files.config, workers).warnings.map((message) => ({ message }))),
	];
	print(json ? toJson(path, errors, doubts, others) : toText(path, errors, doubts, others));
	return errors.length === 0 ? 0 : 1;
}

/** @param others warnings that are no matter of the file. */
function toJson(
	path: string,
	errors: readonly ConfigProblem[],
	doubts: readonly ConfigProblem[],
	others: readonly ConfigProblem[],
): string {
	const result: CheckResult = {
		ok: errors.length === 0,
		errors: errors.map((problem) => finding(path, problem)),
		warnings: [...doubts.map((problem) => finding(path, problem)), ...others.map((problem) => finding(null, problem))],
	};
	return `${JSON.stringify(result)}\n`;
}

function finding(path: string | null, { line, key, file, message }: ConfigProblem): Finding {
	const text = file === undefined ? message : `${file}: ${message}`;
	return { file: path, line: line ?? null, key: key ?? null, message: text };
}

function toText(
	path: string,
	errors: readonly ConfigProblem[],
	doubts: readonly ConfigProblem[],
	others: readonly ConfigProblem[],
): string {
	const verdict = errors.length === 0 ? 'ok' : 'cannot be used';
	const counts = `${counted(errors.length, 'error')}, ${counted(doubts.length + others.length, 'warning')}`;
	const lines = [
		...errors.map((problem) => `error: ${describeProblem(path, problem)}`),
		...doubts.map((problem) => `warning: ${describeProblem(path, problem)}`),
		...others.map(({ key, message }) => `warning: ${key === undefined ? '' : `${key}: `}${message}`),
		`${path}: ${verdict} (${counts})`,
	];
	return `${lines.join('\n')}\n`;
}

function counted(count: number, what: string): string {
	return `${count} ${what}${count === 1 ? '' : 's'}`;
}
