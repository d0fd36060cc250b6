import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { findCommands, UsageError } from '../../../packages/proxy/src/cli/arguments.ts';
import { COMMON_SWITCHES, type Command, GROUPS } from '../../../packages/proxy/src/cli/command.ts';
import { COMMANDS } from '../../../packages/proxy/src/cli/commands.ts';
import { helpFor, helpText } from '../../../packages/proxy/src/cli/help.ts';

const named = (name: string): Command => COMMANDS.find((command) => command.name === name)!;
const helpOf = (name: string, columns?: number) => helpText(COMMANDS, [named(name)], columns);

describe('the help text', () => {
	it('lists every command in its group, with its purpose and an example', () => {
		const text = helpText(COMMANDS);
		const groups = GROUPS.filter((group) => COMMANDS.some((command) => command.group === group));
		const titles = [...text.matchAll(/^([A-Z][a-z ]+):$/gm)].map(([, title]) => title);
		assert.deepEqual(titles, ['Usage', ...groups, 'Options', 'Signals', 'Exit codes']);
		for (const { name, example } of COMMANDS) {
			assert.match(text, new RegExp(`^  ${name} +\\S`, 'm'));
			assert.ok(text.includes(`$ ${example}\n`), example);
		}
	});

	it('has no example that is wider than its widest text', () => {
		for (const line of helpText(COMMANDS, undefined, 100).split('\n')) assert.ok(line.length <= 100, line);
	});

	it('has bold titles on a terminal with colors, and the same text', () => {
		const terminal = helpFor({ columns: 100, isTTY: true, hasColors: () => true }, COMMANDS);
		assert.match(terminal, /^\x1b\[1mSet up:\x1b\[22m$/m);
		assert.equal(terminal.replaceAll(/\x1b\[\d+m/g, ''), helpText(COMMANDS, undefined, 100));
		for (const stream of [{ isTTY: true, hasColors: () => false }, { hasColors: () => true }, {}])
			assert.equal(helpFor(stream, COMMANDS), helpText(COMMANDS));
	});

	it('tells every flag, variable and default of the start', () => {
		tellsAll(helpText(COMMANDS), named('run'));
	});

	for (const command of COMMANDS) {
		it(`the help of ${command.name} has its flags, variables, defaults, operands and exit codes`, () => {
			const text = helpOf(command.name);
			tellsAll(text, command);
			for (const { placeholder } of Object.values(command.operands)) assert.ok(text.includes(placeholder), placeholder);
			for (const [code, meaning] of Object.entries(command.exitCodes)) {
				assert.match(text.replaceAll(/\s+/g, ' '), new RegExp(` ${code} ${meaning}`));
			}
			assert.ok(text.includes(`  ${command.example}\n`));
		});
	}

	it('the help of one command names no option of another', () => {
		assert.doesNotMatch(helpOf('check'), /--once/);
		assert.doesNotMatch(helpOf('demo'), /--bind/);
	});

	it('keeps to the width of the terminal', () => {
		for (const columns of [74, 80, 100]) {
			for (const text of [
				helpText(COMMANDS, undefined, columns),
				...COMMANDS.map(({ name }) => helpOf(name, columns)),
			]) {
				const tooLong = text.split('\n').filter((line) => line.length > columns || line !== line.trimEnd());
				assert.deepEqual(
					tooLong.filter((line) => !/^ +\$? ?\w+=\S|^ +\$? ?proxy /.test(line)),
					[],
					'an example is one line, whatever its length',
				);
			}
		}
	});

	it('has a minimum and a maximum width', () => {
		assert.equal(helpText(COMMANDS, undefined, 500), helpText(COMMANDS, undefined, 100));
		assert.equal(helpText(COMMANDS, undefined, 1), helpText(COMMANDS, undefined, 60));
	});

	it('help for an unknown command is wrong usage, with the nearest name', () => {
		assert.throws(
			() => findCommands(['chekc'], COMMANDS),
			(error) =>
				error instanceof UsageError && /unknown command "chekc"; did you mean proxy check\?/.test(error.message),
		);
	});
});

describe('every command', () => {
	it('has a group, one line about it and an example that calls it', () => {
		for (const { name, group, about, example } of COMMANDS) {
			assert.match(name, /^[a-z-]+( [a-z-]+)?$/);
			assert.ok(GROUPS.includes(group), name);
			assert.match(about, /^[a-z].*[^.]$/, name);
			assert.match(example, name === 'run' ? /^proxy / : new RegExp(`^proxy ${name}( |$)`), name);
		}
		assert.equal(new Set(COMMANDS.map(({ name }) => name)).size, COMMANDS.length);
	});

	it('has unique flags, and one meaning for each key', () => {
		for (const { name, options, switches, operands } of COMMANDS) {
			const flags = [...Object.values(options), ...Object.values({ ...switches, ...COMMON_SWITCHES })];
			const own = flags.map(({ flag }) => flag).filter((flag) => flag !== undefined);
			assert.equal(new Set(own).size, own.length, name);
			const keys = [options, switches, operands].flatMap(Object.keys);
			assert.equal(new Set(keys).size, keys.length, name);
		}
	});
});

function tellsAll(text: string, { options, switches }: Command): void {
	for (const { flag, env, fallback } of Object.values(options)) {
		if (flag !== undefined) assert.ok(text.includes(`--${flag} `), flag);
		if (env !== undefined) assert.ok(text.includes(env), env);
		if (fallback !== undefined) assert.ok(text.includes(`default ${fallback}]`), fallback);
	}
	for (const { flag } of Object.values(switches)) assert.ok(text.includes(`--${flag} `), flag);
	for (const flags of ['-h, --help ', '-V, --version ']) assert.ok(text.includes(flags), flags);
}
