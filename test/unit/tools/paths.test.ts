import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brokenPaths, endsOf } from '../../../tools/checks/paths.ts';

const ENDS = endsOf(['packages/proxy/src/data/memo/plane.ts', 'docs/reference/logs.md', 'README.md']);
const found = (file: string, ...lines: string[]) => brokenPaths(file, lines.join('\n'), ENDS);

test('accepts a file or a folder by any end of its path', () => {
	const names =
		'`plane.ts`, `memo/plane.ts`, `data/memo/`, `packages/proxy/src/`, docs/reference/logs.md, [a](../README.md)';
	assert.deepEqual(found('a.md', names), []);
});

test('reports a file or a folder that does not exist, with its line', () => {
	assert.deepEqual(found('a.md', 'see', '`src/data/plane.ts`', 'docs/logs.md and `data/memos/`'), [
		'a.md:2: src/data/plane.ts does not exist',
		'a.md:3: docs/logs.md does not exist',
		'a.md:3: data/memos/ does not exist',
	]);
});

test('reads comments of sources, not their code', () => {
	assert.deepEqual(
		found(
			'a.ts',
			"import './gone.ts';",
			'/** See `gone.ts`. */',
			' * `lost.ts`',
			'x(); /' + '/ as in `left.ts`',
			'// `plane.ts`',
		),
		['a.ts:2: gone.ts does not exist', 'a.ts:3: lost.ts does not exist', 'a.ts:4: left.ts does not exist'],
	);
});

test('ignores addresses, words with slashes, and names without backticks or folders', () => {
	assert.deepEqual(
		found('a.md', 'https://example.org/a/b.md, `http/1.1`, and/or, `text/plain`, index.ts, Node.js'),
		[],
	);
});
