/** The checks of `npm run check` find what they are for. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkDependencies, checkNone } from '../../../tools/checks/dependencies.ts';
import { checkLock, findTraces, tracesOf } from '../../../tools/checks/hygiene.ts';
import { brokenPaths, endsOf } from '../../../tools/checks/paths.ts';
import { BULLET, CELL, SENTENCE } from '../../../tools/checks/prose/rules.ts';
import { judge, proseIn } from '../../../tools/checks/prose.ts';

describe('the check of run-time dependencies', () => {
	test('refuses those of a package that promises none, except peers', () => {
		const manifest = { name: 'gate', version: '', peerDependencies: { hono: '>=4' } };
		const installed = { ...manifest, dependencies: { undici: '8' }, optionalDependencies: { redis: '1' } };
		assert.deepEqual(checkNone(manifest), []);
		assert.deepEqual(checkNone(installed), ['gate installs undici', 'gate installs redis']);
	});

	test('wants a row with a reason for each, and for no other', () => {
		const table = '\n## Dependencies\n\n| Package | Why |\n|---|---|\n| `redis` |  |\n| `left` | pads |\n\n## Drain\n';
		const parts = { dependencies: { zod: '4.0.0' }, optionalDependencies: { redis: '1.0.0' } };
		assert.deepEqual(checkDependencies({ name: '', version: '', ...parts }, table), [
			'ARCHITECTURE.md gives no reason for zod',
			'ARCHITECTURE.md gives no reason for redis',
			'ARCHITECTURE.md gives a reason for left, which package.json does not have',
		]);
	});
});

describe('the check of hygiene', () => {
	test('finds the clone, the folder around it, the home and the registry', () => {
		const machine = { root: '/build/ann/clone', home: '/home/ann', registry: 'https://packages.example.net/npm/' };
		const text = ['see /build/ann/clone/src', 'cd /build/ann/other', '~ is /home/ann/', '# packages.example.net', 'ok'];
		const found = findTraces('a.md', text.join('\n'), tracesOf(machine)).map((breach) => breach.split(':')[1]);
		assert.deepEqual(found, ['1', '1', '2', '3', '4']);
	});

	test('finds a locked package with an address, except a workspace', () => {
		const packages = {
			'node_modules/a': { resolved: 'https://packages.example.net/a.tgz' },
			'node_modules/b': { integrity: 'sha512-x' },
			'node_modules/c': { resolved: 'tools/c', link: true },
		};
		assert.match(
			checkLock('package-lock.json', { packages }).join(),
			/^[^,]*node_modules\/a has a 'resolved' address[^,]*$/,
		);
	});
});

test('the check of paths finds files and folders that do not exist, in pages and in comments', () => {
	const ends = endsOf(['packages/proxy/src/data/memo/plane.ts', 'docs/reference/logs.md', 'README.md']);
	const cases: Readonly<Record<string, readonly string[]>> = {
		'a.md `plane.ts`, `memo/plane.ts`, `data/memo/`, `packages/proxy/src/`, docs/reference/logs.md, [a](../README.md)':
			[],
		'a.md https://example.org/a/b.md, `http/1.1`, and/or, `text/plain`, index.ts, Node.js': [],
		'a.md `src/data/plane.ts`, docs/logs.md and `data/memos/`': ['src/data/plane.ts', 'docs/logs.md', 'data/memos/'],
		"a.ts import './gone.ts';": [],
		'a.ts /** See `gone.ts`. */': ['gone.ts'],
		'a.ts  * `lost.ts`': ['lost.ts'],
		['a.ts x(); /' + '/ as in `left.ts`']: ['left.ts'],
	};
	for (const [text, missing] of Object.entries(cases)) {
		const [file] = text.split(' ');
		const found = brokenPaths(file!, `\n${text.slice(file!.length + 1)}`, ends);
		assert.deepEqual(
			found,
			missing.map((path) => `${file}:2: ${path} does not exist`),
			text,
		);
	}
});

describe('the check of prose', () => {
	const breachesOf = (markdown: string) => judge(markdown).breaches;
	const short = (count: number) => 'Some three words here. '.repeat(count / 4).trim();

	test('reads paragraphs, bullets, cells and headings, without code', () => {
		const page =
			'# A `x` title\n\nA paragraph\nof two lines.\n\n- a bullet\n\n```sh\nwhoever\n```\n\n| a |\n|---|\n| `d` |\n';
		assert.deepEqual(
			proseIn(page).map(({ kind, line, text }) => `${kind} ${line} ${text}`),
			[
				...['heading 1 A CODE title', 'paragraph 3 A paragraph of two lines.', 'bullet 6 a bullet'],
				...['cell 12 a', 'cell 14 CODE'],
			],
		);
	});

	test('accepts the maximum length of a sentence, a bullet and a cell, and refuses more', () => {
		const sentence = (count: number) => `A ${Array.from({ length: count - 2 }, (_, i) => `word${i}`).join(' ')} end.`;
		for (const [kind, most, step, textOf] of [
			['sentence', SENTENCE.max, 1, sentence],
			['bullet', BULLET.max, 4, (count: number) => `- ${short(count)}\n`],
			['cell', CELL.max, 4, (count: number) => `| a |\n|---|\n| ${short(count)} |\n`],
		] as const) {
			assert.deepEqual(breachesOf(textOf(most)), [], kind);
			assert.match(breachesOf(textOf(most + step)).join(), new RegExp(`^\\d: a ${kind} of ${most + step} words`), kind);
		}
	});

	test('refuses a tic with the advice for it and its line, and accepts the words in their own meaning', () => {
		assert.deepEqual(breachesOf('One.\n\nWhoever asks, waits.\n'), [
			'3: "Whoever": write the person: "the operator", "a client", "anyone who"',
		]);
		for (const text of ['For HTTP/2 alone.', 'The page answers 421.', 'At most 5 in 10 s.'])
			assert.equal(breachesOf(text).length, 1, text);
		for (const text of ['Let alone two.', 'DNS answers.', 'At most 5 every 10 s.']) {
			assert.deepEqual(breachesOf(text), [], text);
		}
	});

	test('refuses a page whose sentences are mostly passive', () => {
		const page = (passive: number) =>
			`${'The token is refused.\n\n'.repeat(passive)}${'The proxy refuses the token.\n\n'.repeat(40 - passive)}`;
		assert.deepEqual(breachesOf(page(10)), []);
		assert.deepEqual(breachesOf(page(11)), ['1: 28 % of the sentences are passive, at most 25 % may be']);
	});
});
