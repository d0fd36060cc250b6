/**
 * Every command of `proxy`.
 *
 * To add a command:
 *
 * 1. Describe it with `defineCommand` in the file of its group in `commands/`. The others there have options with flag, variable, default
 *    and parser, switches, operands, an example and exit codes.
 * 2. Import the module that does the work (`packages/proxy/src/cli/<name>/…`) in `run`, never at the top: every command would load it.
 * 3. Add it to the list below, next to the others of its group. Help, completion, near-miss suggestions and the warnings about unknown
 *    variables use this list.
 * 4. Run `node tools/command-docs.ts`, which rewrites man/proxy.1 and docs/reference/command.md. A test fails until then.
 */
import type { Command } from './command.ts';
import { drain, reload } from './commands/control.ts';
import { check, explain, healthcheck } from './commands/inspect.ts';
import { run } from './commands/run.ts';
import { init, pkiClient, schema, token } from './commands/set-up.ts';
import { completion, help } from './commands/shell.ts';
import { demo, embedDemo } from './commands/try-it.ts';

export const COMMANDS: readonly Command[] = [
	run,
	init,
	pkiClient,
	token,
	schema,
	check,
	explain,
	healthcheck,
	reload,
	drain,
	demo,
	embedDemo,
	completion,
	help,
];
