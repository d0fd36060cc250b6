/** The completion scripts in their shells, and the man page in its formatters. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, test } from 'node:test';
import { PROGRAMS } from '../../packages/proxy/src/cli/command.ts';
import { fishCompletion } from '../../packages/proxy/src/cli/completion/fish.ts';
import { zshCompletion } from '../../packages/proxy/src/cli/completion/zsh.ts';
import { COMPLETED_COMMANDS, COMPLETIONS, completionFolder } from '../fixtures/completions.ts';
import { temporaryFolder } from '../fixtures/pki.ts';

const LINES = COMPLETIONS.map(({ line }) => line);
const MAN_PAGE = resolve(import.meta.dirname, '../../man/proxy.1');

/** CI requires all tools, see .ci/run. */
function skipWithout(program: string): string | false {
	const missing = spawnSync(program, ['--version']).error !== undefined;
	return missing && !process.env.PROXY_TEST_ALL_CLIENTS && `not installed: ${program}`;
}

/** fish's proposals, one per line, without descriptions. */
function inFish(dir: string): string[][] {
	const commands = LINES.map((line) => `complete -C ${JSON.stringify(line)}; echo END`);
	const script = [`source ${dir}/proxy.fish`, `cd ${dir}`, ...commands].join('\n');
	return parts(execFileSync('fish', ['--no-config', '-c', script], { encoding: 'utf8', timeout: 120_000 }), (part) =>
		part.split('\n').map((row) => row.split('\t')[0]!.replace(/^--[a-z-]+=/, '')),
	);
}

/** zsh's proposals, one per line. It makes proposals only in a terminal. */
function inZsh(dir: string): string[][] {
	const capture = join(import.meta.dirname, 'shells/capture.zsh');
	const output = execFileSync('zsh', ['-f', capture, join(dir, 'proxy.zsh'), dir, ...LINES], {
		encoding: 'utf8',
		timeout: 120_000,
	});
	return parts(output, (part) => part.split('\n').map((row) => row.replace(/^HIT:/, '')));
}

function parts(output: string, read: (part: string) => string[]): string[][] {
	return output
		.split('END\n')
		.slice(0, -1)
		.map((part) =>
			[...new Set(read(part).map((word) => word.replace(/\/$/, '')))].filter((word) => word !== '').sort(),
		);
}

for (const [shell, script, propose] of [
	['zsh', zshCompletion, inZsh],
	['fish', fishCompletion, inFish],
] as const) {
	describe(`completion in ${shell}`, { skip: skipWithout(shell) }, () => {
		test('proposes commands, their second words, flags, values and file names', () => {
			const dir = completionFolder(temporaryFolder(shell));
			writeFileSync(join(dir, `proxy.${shell}`), script(COMPLETED_COMMANDS));
			const proposed = propose(dir);
			assert.equal(proposed.length, LINES.length);
			for (const [index, { line, is, includes = [] }] of COMPLETIONS.entries()) {
				if (is !== undefined) assert.deepEqual(proposed[index], is, line);
				for (const word of includes) assert.ok(proposed[index]!.includes(word), `${line}: ${word}`);
			}
		});
	});
}

describe('the man page', () => {
	test('is found by the name of each program, where npm links it', { skip: skipWithout('man') }, () => {
		const dir = join(temporaryFolder('man'), 'man1');
		mkdirSync(dir);
		for (const program of PROGRAMS) symlinkSync(join(MAN_PAGE, `../${program}.1`), join(dir, `${program}.1`));
		for (const program of PROGRAMS) {
			const shown = execFileSync('man', [program], {
				encoding: 'utf8',
				env: { ...process.env, MANPATH: join(dir, '..') },
			});
			assert.match(shown, /^NAME\n +proxy, +proxy-streaming +-/m, program);
		}
	});

	test('has nothing that mandoc objects to', { skip: skipWithout('mandoc') }, () => {
		const { status, stdout } = spawnSync('mandoc', ['-T', 'lint', '-W', 'style', MAN_PAGE], { encoding: 'utf8' });
		assert.deepEqual([status, stdout], [0, '']);
	});

	test('has nothing that groff warns of', { skip: skipWithout('groff') }, () => {
		const { status, stderr } = spawnSync('groff', ['-ww', '-man', '-Tutf8', MAN_PAGE], { encoding: 'utf8' });
		assert.deepEqual([status, stderr], [0, '']);
	});
});
