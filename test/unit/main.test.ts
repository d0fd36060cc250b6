/** The least of the command: what needs no proxy that serves. The rest is in test/wire/start.test.ts. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Program } from '../fixtures/program.ts';

const MAIN = fileURLToPath(new URL('../../packages/proxy/src/main.ts', import.meta.url));
describe('the command', () => {
	test('--version names the streaming mode if that was chosen', async () => {
		await using command = new Program([process.execPath, '-C', 'boxed_body', MAIN, '--version']);
		assert.equal(await command.ended(), 0);
		assert.match(command.stdout, / \(streaming bodies, Node /);
	});

	test('output that cannot be written exits with 1 and one line; a closed reader does not', {
		skip: !existsSync('/dev/full') && 'needs /dev/full',
	}, () => {
		const run = (words: string, to: string) =>
			spawnSync('sh', ['-c', `"$0" "$1" ${words} ${to}`, process.execPath, MAIN], { encoding: 'utf8' });
		for (const words of ['--version', 'help check', 'schema']) {
			const { status, stderr } = run(words, '> /dev/full');
			assert.equal(stderr, 'proxy: standard output cannot be written (ENOSPC)\n', words);
			assert.equal(status, 1, words);
			assert.equal(run(words, '| true').stderr, '', words);
		}
	});

	test('a wrong flag is 2, with one line for each problem', async () => {
		await using command = new Program([process.execPath, MAIN, '--bogus', '--workers', 'none']);
		assert.equal(await command.ended(), 2);
		assert.match(command.stderr, /^proxy: unknown option "--bogus"[^\n]*\nproxy: --workers: [^\n]*\n$/);
		assert.equal(command.stdout, '');
	});
});
