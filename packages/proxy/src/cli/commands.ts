/**
 * Every command of `proxy`.
 *
 * To add one: describe it in `commands/<name>.ts` with `defineCommand` (see `commands/check.ts`: options with flag,
 * variable, default and parser; switches; operands; an example; exit codes), let its `run` import the module that does the
 * work (`packages/proxy/src/cli/<name>/…`, never at the top: each start of any command would load it), and put it into the list below, beside
 * the others of its group. Help, completion, near-miss suggestions and the warnings about unknown variables know it then;
 * `node tools/command-docs.ts` writes man/proxy.1 and docs/reference/command.md anew, and a test fails until that has been done.
 */
import type { Command } from './command.ts';
import { check } from './commands/check.ts';
import { completion } from './commands/completion.ts';
import { demo } from './commands/demo.ts';
import { drain } from './commands/drain.ts';
import { embedDemo } from './commands/embed-demo.ts';
import { explain } from './commands/explain.ts';
import { healthcheck } from './commands/healthcheck.ts';
import { help } from './commands/help.ts';
import { init } from './commands/init.ts';
import { pkiClient } from './commands/pki-client.ts';
import { reload } from './commands/reload.ts';
import { run } from './commands/run.ts';
import { schema } from './commands/schema.ts';
import { token } from './commands/token.ts';

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
