/** Vale on all pages, with the rules of `npm run check`; test/unit/tools/checks.test.ts tests `tools/checks/prose.ts`. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { pagesIn } from '../../tools/checks/prose.ts';
import { judgeByVale } from '../../tools/checks/vale.ts';
import { temporaryFolder } from '../fixtures/pki.ts';
import { ROOT } from './tools.ts';

// Not always a failure: tools/linters/install.sh gives the reason.
const skip = judgeByVale([]) === undefined && 'not installed: vale';

describe('Vale', { skip }, () => {
	test('has no breach on any page', () => {
		assert.deepEqual(judgeByVale(pagesIn(ROOT)), []);
	});

	test('finds a breach of each rule, and accepts the same without it', () => {
		const words = (count: number) => Array.from({ length: count }, (_, i) => `word${i}`).join(' ');
		const page = (sentence: number, bullet: number, cell: number, subject: string, gate: string) =>
			[
				`A \`piece of code\` ${words(sentence - 3)} end.`,
				`- ${words(bullet / 2)}.\n  ${words(bullet / 2)}.`,
				`| a |\n|---|\n| ${words(cell)} |`,
				`${subject} is left.`,
				`It is the ${gate}.`,
			].join('\n\n');
		const breachesOf = (markdown: string) => {
			const file = join(temporaryFolder('vale'), 'page.md');
			writeFileSync(file, markdown);
			return judgeByVale([file])!.map((breach) => breach.slice(file.length + 1).replace(/^(\d+):\d+/, '$1'));
		};
		assert.deepEqual(breachesOf(page(30, 60, 24, 'Nothing', '`route` gate')), []);
		assert.deepEqual(breachesOf(page(31, 62, 25, 'What', 'gate `route`')), [
			'1:House.Sentences:split this sentence',
			'3:House.Bullets:split this bullet',
			'8:House.Cells:shorten this cell',
			'10:House.Subject:begin with the subject: "What "',
			'12:House.Tics:"the gate *****": write the name before its noun: "the `route` gate"',
		]);
	});
});
