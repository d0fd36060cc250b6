/** Judges the pages by Vale (`.vale.ini`) where tools/linters/install.sh has installed it; `prose.ts` has the same rules without it. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { finish } from './finish.ts';
import { pagesIn } from './prose.ts';

const ROOT = resolve(import.meta.dirname, '../..');
/** Not one of PATH: versions split sentences differently. */
const VALE = join(ROOT, '.linters/bin/vale');

/** @returns `page:line:column:rule:message` of each breach; `undefined` where Vale is not installed */
export function judgeByVale(pages: readonly string[]): string[] | undefined {
	if (!existsSync(VALE)) return undefined;
	const { error, status, stdout, stderr } = spawnSync(VALE, ['--output=line', ...pages], {
		cwd: ROOT,
		encoding: 'utf8',
	});
	// 1 is a breach, 2 is Vale's own failure.
	if (status !== 0 && status !== 1) throw error ?? new Error(`vale: ${stderr}`);
	return stdout.split('\n').filter((line) => line !== '');
}

if (import.meta.main) {
	const pages = pagesIn(ROOT);
	const breaches = judgeByVale(pages);
	if (breaches === undefined) console.log('vale: left out, because it is not installed (tools/linters/install.sh)');
	else finish('vale', `${pages.length} pages keep to the rules`, breaches);
}
