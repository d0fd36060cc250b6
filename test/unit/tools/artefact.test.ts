import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkFirstStatements, checkPack } from '../../../tools/checks/artefact.ts';
import { MANIFEST } from './fake-package.ts';

test('a command may load nothing but Node before its first statement', () => {
	const allowed = "#!/usr/bin/env node\nimport 'node:inspector'; await import('./a.js');";
	assert.deepEqual(checkFirstStatements('main.js', allowed), []);
	assert.deepEqual(checkFirstStatements('main.js', "import { a } from './chunks/a.js';"), [
		'main.js imports ./chunks/a.js before its first statement',
	]);
});

test('a package with the pinned Node, without its command or too large is reported', () => {
	assert.deepEqual(checkPack(MANIFEST, { size: 50_000_000, files: [{ path: 'tools/runtime/package.json' }] }), [
		'fake contains tools/runtime/package.json',
		'fake lacks dist/main.js',
		'fake lacks dist-streaming/main.js',
		'fake has 50000000 bytes, more than 2000000',
	]);
});
