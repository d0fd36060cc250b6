import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, test } from 'node:test';
import { parseCommandLine } from '../../../packages/proxy/src/cli/arguments.ts';
import { PROGRAMS } from '../../../packages/proxy/src/cli/command.ts';
import { COMMANDS } from '../../../packages/proxy/src/cli/commands.ts';
import { OTHER_NAME } from '../../../tools/command-docs/man.ts';
import { commandDocs } from '../../../tools/command-docs.ts';

const root = resolve(import.meta.dirname, '../../..');

describe('what is made from the table of commands', () => {
	for (const [path, text] of Object.entries(commandDocs())) {
		test(`${path} is what the table says`, () => {
			assert.equal(readFileSync(resolve(root, path), 'utf8'), text, 'run: node tools/command-docs.ts');
		});

		if (text !== OTHER_NAME)
			test(`${path} names every command, option, variable and example`, () => {
				const plain = text.replaceAll('\\-', '-').replaceAll('\\|', '|');
				for (const { name, options, switches, example } of COMMANDS) {
					assert.ok(plain.includes(`proxy ${name}`) || name === 'run', name);
					assert.ok(plain.includes(example), example);
					for (const { flag, env } of Object.values(options)) {
						if (flag !== undefined) assert.ok(plain.includes(`--${flag} `), flag);
						if (env !== undefined) assert.ok(plain.includes(env), env);
					}
					for (const { flag } of Object.values(switches)) assert.ok(plain.includes(`--${flag}`), flag);
				}
			});
	}

	test('every example is a command line that is understood', () => {
		for (const { name, example } of COMMANDS) {
			const [program, ...argv] = words(example);
			assert.equal(program, 'proxy', example);
			const commandLine = parseCommandLine(argv, {}, COMMANDS);
			assert.ok(commandLine.kind === 'run' && commandLine.command.name === name, example);
		}
	});

	test('each program of the package has its man page in it', () => {
		const { man, files, bin } = JSON.parse(readFileSync(resolve(root, 'packages/proxy/package.json'), 'utf8'));
		assert.deepEqual(Object.keys(bin), PROGRAMS);
		assert.deepEqual(
			man,
			PROGRAMS.map((program) => `./man/${program}.1`),
		);
		assert.ok(files.includes('man'));
	});
});

/** As a shell takes an example apart: quotes, and nothing else that is special. */
function words(line: string): string[] {
	return Array.from(
		line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g),
		([, single, double, plain]) => single ?? double ?? plain!,
	);
}
