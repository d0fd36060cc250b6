import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, test } from 'node:test';
import { parseCommandLine } from '../../../packages/proxy/src/cli/arguments.ts';
import { PROGRAMS } from '../../../packages/proxy/src/cli/command.ts';
import { COMMANDS } from '../../../packages/proxy/src/cli/commands.ts';
import { commandDocs } from '../../../tools/command-docs.ts';

const root = resolve(import.meta.dirname, '../../..');

describe('what is made from the table of commands', () => {
	for (const [path, text] of Object.entries(commandDocs())) {
		test(`${path} is up to date`, () => {
			assert.equal(readFileSync(resolve(root, path), 'utf8'), text, 'run: node tools/command-docs.ts');
		});
	}

	test('every example parses', () => {
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
