import {
	COMMON_SWITCHES,
	type Command,
	GROUPS,
	invocation,
	type ValueOption,
} from '../../packages/proxy/src/cli/command.ts';
import {
	operandForm,
	optionForm,
	SIGNALS,
	SUMMARY,
	switchForm,
	WRONG_USAGE,
} from '../../packages/proxy/src/cli/help.ts';
import { capitalized } from '../../packages/proxy/src/config/wording.ts';
import { code, row } from '../docs/table.ts';

/** docs/reference/command.md. */
export function commandPage(commands: readonly Command[]): string {
	return [
		'# The command',
		'',
		'<!-- Made by tools/command-docs.ts from packages/proxy/src/cli/commands.ts. Do not edit. -->',
		'',
		`\`proxy\`: ${SUMMARY[0]!.toLowerCase()}${SUMMARY.slice(1)}`,
		'',
		'Without a command, `proxy` starts the server. `proxy help COMMAND` prints the section of one command, and `man proxy` has all of them. For a',
		'mistyped command or option, the message suggests the nearest one. An option overrides its environment variable, and an empty variable',
		'counts as unset. `--flag=VALUE` and `--flag VALUE` are the same.',
		'',
		'`proxy-streaming` is the same command in the [other body mode](../how-to/install.md#body-modes).',
		'',
		...GROUPS.flatMap((group) => {
			const members = commands.filter((command) => command.group === group);
			return members.length === 0 ? [] : [`**${group}:** ${members.map(link).join(', ')}`, ''];
		}),
		...GROUPS.flatMap((group) => commands.filter((command) => command.group === group)).flatMap(ofCommand),
		'## For every command',
		'',
		'| Option | |',
		'|---|---|',
		...Object.values(COMMON_SWITCHES).map((option) => row(code(switchForm(option)), option.about)),
		'',
		'## Signals',
		'',
		'| Signal | |',
		'|---|---|',
		...SIGNALS.map(([names, about]) => row(names.split(', ').map(code).join(', '), about)),
		'',
		...FINDING,
	].join('\n');
}

const FINDING = [
	'## How a running proxy is found',
	'',
	"`proxy reload` and `proxy drain` send a signal. So run them as the proxy's user or as root, on its machine and in its container.",
	'The metrics listener accepts no commands, because anyone who can reach it could send them.',
	'',
	'- **By `--pid-file`** (`PROXY_PID_FILE`). The file holds the process ID and a line feed, so `kill -HUP "$(cat FILE)"` works. The',
	'  proxy writes it atomically when it is ready, and removes it when it exits. The proxy does not start if the file names a live proxy, or',
	'  contains anything but a number.',
	'- **A stale ID** is ignored. The process must be alive, and must have started before the file was written. A word of its command',
	'  line must be `proxy`, `proxy-streaming` or the module of the command. Without `/proc` the command checks only that the process is alive.',
	'- **By the metrics address.** `GET /process` returns the process ID, its start time, the generation and the count of reloads. The',
	'  command signals only a process with that ID and that start time on this machine. If no such process exists, for example because the proxy is',
	'  behind a port forward or in another pid namespace, the command says so.',
	"- **Its command line** must look like a proxy's as well. While the proxy is not running, any user of the machine can listen on its",
	'  port and report any process ID.',
	'',
	'`proxy reload` reads the outcome from `/process`, and waits for it up to `--timeout`. `proxy drain` sends no signal to a proxy that is',
	'draining already, because a second one would cut the drain short. `--wait` returns when the process has ended.',
	'',
];

function link({ name }: Command): string {
	return `[\`${name}\`](#${`proxy-${name}`.replaceAll(' ', '-')})`;
}

function ofCommand(command: Command): string[] {
	const { name, about, details = [], example, exitCodes } = command;
	const operands = Object.values(command.operands);
	const usage = [invocation(command), ...operands.map(operandForm), '[OPTIONS]'].join(' ');
	const rows = [
		...operands.map((operand) => row(code(operandForm(operand)), operand.about, '')),
		...Object.values(command.options).map((option) => row(code(optionForm(option)), option.about, origin(option))),
		...Object.values(command.switches).map((option) => row(code(switchForm(option)), option.about, '')),
	];
	return [
		`## proxy ${name}`,
		'',
		`${capitalized(about)}.`,
		...details.flatMap((paragraph) => ['', paragraph]),
		'',
		'<!-- checked by test/unit/docs/pages.test.ts: proxy accepts every command line of its own -->',
		'```sh',
		example,
		'```',
		'',
		`Usage: \`${usage}\``,
		'',
		...(rows.length === 0 ? [] : ['| Option | | Variable, default |', '|---|---|---|', ...rows, '']),
		'| Exit code | Meaning |',
		'|---|---|',
		...Object.entries({ ...exitCodes, 2: WRONG_USAGE }).map(([exitCode, meaning]) => row(exitCode, meaning)),
		'',
	];
}

function origin({ flag, env, fallback, required, repeatable }: ValueOption): string {
	return [
		...(flag !== undefined && env !== undefined ? [code(env)] : []),
		...(fallback === undefined ? [] : [code(fallback)]),
		...(required ? ['required'] : []),
		...(repeatable ? ['may be repeated'] : []),
	].join(', ');
}
