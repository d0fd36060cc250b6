/** Third-party linters and builders as child processes: from `.linters/bin` (tools/linters/install.sh), or from PATH. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { neutralEnvironment } from '../fixtures/program.ts';

export const ROOT = resolve(import.meta.dirname, '../..');
const PATH = `${resolve(ROOT, '.linters/bin')}${delimiter}${process.env.PATH}`;

/** For a program that runs while the test does. */
export function toolEnvironment(): NodeJS.ProcessEnv {
	return { ...neutralEnvironment(), PATH };
}

export interface Outcome {
	readonly status: number | null;
	readonly stdout: string;
	/** Both streams, for messages. */
	readonly all: string;
}

interface ToolOptions {
	/** Default: the repository's folder. */
	readonly cwd?: string;
	readonly input?: string;
}

/** Runs to the end, in the repository's folder. */
export function tool(command: string, args: readonly string[], { cwd = ROOT, input }: ToolOptions = {}): Outcome {
	const { error, status, stdout, stderr } = spawnSync(command, args, {
		cwd,
		encoding: 'utf8',
		env: { ...process.env, PATH },
		maxBuffer: 64 * 1024 * 1024,
		...(input === undefined ? {} : { input }),
	});
	if (error !== undefined) throw error;
	return { status, stdout, all: `${stdout}${stderr}` };
}

/** @returns standard output; throws with all output if the exit code is not 0. */
export function succeed(command: string, args: readonly string[], options?: ToolOptions): string {
	const { status, stdout, all } = tool(command, args, options);
	if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${status}:\n${all}`);
	return stdout;
}

/** For `node:test`: `false`, or which of these commands are missing. With PROXY_TEST_ALL_CLIENTS that is a failure. */
export function missingTools(...commands: string[]): string | false {
	const there = (command: string) => spawnSync('sh', ['-c', `command -v ${command}`], { env: { PATH } }).status === 0;
	return missing(commands.filter((command) => !there(command)));
}

/** As above, for a package that tools/linters/install.sh installs from npm. */
export function missingLinter(name: string): string | false {
	return missing(existsSync(join(ROOT, '.linters/node_modules', name)) ? [] : [name]);
}

/** As above, for anything that was looked up in another way. @param what is missing. */
export function missing(what: readonly string[]): string | false {
	if (what.length === 0) return false;
	const message = `not installed: ${what.join(', ')}`;
	if (process.env.PROXY_TEST_ALL_CLIENTS) throw new Error(message);
	return message;
}
