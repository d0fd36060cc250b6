/**
 * Every command of `proxy`.
 *
 * To add a command:
 *
 * 1. Describe it in `commands/<name>.ts` with `defineCommand`. `commands/check.ts` has options with flag, variable, default and parser,
 *    switches, operands, an example and exit codes.
 * 2. Import the module that does the work (`packages/proxy/src/cli/<name>/…`) in `run`, never at the top: every command would load it.
 * 3. Add it to the list below, next to the others of its group. Help, completion, near-miss suggestions and the warnings about unknown
 *    variables use this list.
 * 4. Run `node tools/command-docs.ts`, which rewrites man/proxy.1 and docs/reference/command.md. A test fails until then.
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
