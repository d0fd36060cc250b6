import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { COMMANDS } from '../../../packages/proxy/src/cli/commands.ts';
import { bashCompletion } from '../../../packages/proxy/src/cli/completion/bash.ts';
import { fishCompletion } from '../../../packages/proxy/src/cli/completion/fish.ts';
import { completionModel } from '../../../packages/proxy/src/cli/completion/model.ts';
import { zshCompletion } from '../../../packages/proxy/src/cli/completion/zsh.ts';
import { COMPLETED_COMMANDS, COMPLETIONS, completionFolder } from '../../fixtures/completions.ts';
import { temporaryFolder } from '../../fixtures/pki.ts';

const hasBash = spawnSync('bash', ['--version']).error === undefined;

/** For each line, what bash proposes; words are cut where readline cuts them, at blanks and `=`. */
function inBash(lines: readonly string[]): string[][] {
	const dir = completionFolder(temporaryFolder('completion'));
	writeFileSync(join(dir, 'proxy.bash'), bashCompletion(COMPLETED_COMMANDS));
	const calls = lines.map((line) => {
		const words = line.split(/ +|(=)/).filter((word) => word !== undefined);
		const quoted = words.map((word) => `'${word}'`).join(' ');
		return `COMP_WORDS=(${quoted}); COMP_CWORD=${words.length - 1}; _proxy; printf '%s\\n' "\${COMPREPLY[@]}"; echo END`;
	});
	const script = ['set -u', `source '${join(dir, 'proxy.bash')}'`, `cd '${dir}'`, ...calls].join('\n');
	const output = execFileSync('bash', ['--norc', '-c', script], {
		encoding: 'utf8',
		stdio: ['ignore', 'pipe', 'inherit'],
	});
	return output
		.split('END\n')
		.slice(0, -1)
		.map((part) => part.split('\n').filter((word) => word !== ''));
}

describe('completion in bash', { skip: !hasBash && 'no bash' }, () => {
	const proposed = hasBash ? inBash(COMPLETIONS.map(({ line }) => line)) : [];
	for (const [index, { line, is, includes = [] }] of COMPLETIONS.entries()) {
		it(`completes ${JSON.stringify(line)} in bash`, () => {
			const words = proposed[index]!;
			if (is !== undefined) assert.deepEqual([...words].sort(), is);
			for (const word of includes) assert.ok(words.includes(word), `${word} in ${words}`);
		});
	}
});

describe('the scripts of all shells', () => {
	const scripts = { bash: bashCompletion(COMMANDS), zsh: zshCompletion(COMMANDS), fish: fishCompletion(COMMANDS) };

	for (const [shell, script] of Object.entries(scripts)) {
		it(`name every command and every flag: ${shell}`, () => {
			for (const { name, options, switches } of COMMANDS) {
				for (const word of name.split(' ')) assert.ok(script.includes(word), word);
				for (const { flag } of [...Object.values(options), ...Object.values(switches)]) {
					if (flag !== undefined) assert.ok(script.includes(shell === 'fish' ? `-l ${flag} ` : `--${flag}`), flag);
				}
			}
		});
	}

	it('propose a value for each option with known values', () => {
		const { commands } = completionModel(COMMANDS);
		const run = commands.find(({ name }) => name === 'run')!;
		assert.deepEqual(
			run.options.map(({ flag, values }) => [flag, values]),
			[
				['config', 'file'],
				['bind', undefined],
				['metrics-bind', undefined],
				['pid-file', 'file'],
				['workers', ['auto']],
				['log-format', ['json', 'pretty']],
			],
		);
	});
});
