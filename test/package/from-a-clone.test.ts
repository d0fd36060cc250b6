/** The way of docs/how-to/install.md from a clone of the repository to the two programs on PATH. */
import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { inScratchCopy } from '../../tools/checks/scratch-copy.ts';
import { blockNamed } from '../fixtures/doc-blocks.ts';
import { run } from './consumer.ts';

const ROOT = resolve(import.meta.dirname, '../..');

test('from a clone: the commands of docs/how-to/install.md put both programs on PATH', async () => {
	const { code } = blockNamed('proxy from a clone');
	const { stdout } = await inScratchCopy(ROOT, (clone) => run('bash', ['-euc', code], clone));
	assert.match(stdout, /^proxy \d+\.\d+\.\d+ \(collected bodies.*\n.*\(streaming bodies/m);
});
