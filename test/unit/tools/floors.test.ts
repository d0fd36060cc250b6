import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkFloors } from '../../../tools/checks/floors.ts';
import { readModule } from '../../../tools/checks/source.ts';

const IMPORTS = { '#body': { boxed_body: './src/data/body/streaming.ts', default: './src/data/body/collected.ts' } };

/** The breaches in a src/ of these files. */
function check(files: Record<string, string>): string[] {
	const sources = Object.entries(files).map(([path, text]) => [path, readModule(path, text)] as const);
	return checkFloors(new Map(sources), IMPORTS);
}

describe('a floor', () => {
	test('may import itself, the floors below it, packages and node', () => {
		const breaches = check({
			'src/gates/jwt.ts': "import { verify } from 'node:crypto'; import './bearer.ts';",
			'src/gates/bearer.ts': '',
			'src/config/load.ts': "import 'zod'; import 'node:fs'; import '../gates/jwt.ts';",
			'src/data/worker.ts': "import '#body'; import '../memory/limiter.ts'; import '../config/load.ts';",
			'src/data/body/collected.ts': '',
			'src/data/body/streaming.ts': '',
			'src/memory/limiter.ts': 'export const cells = new SharedArrayBuffer(8); Atomics.load;',
			'src/main.ts': "import pkg from '../package.json' with { type: 'json' }; await import('./cli/run.ts');",
			'src/cli/run.ts': "import '../control/supervisor.ts'; import '#body';",
			'src/control/supervisor.ts': "new Worker(new URL('../data/worker.ts', import.meta.url));",
		});
		assert.deepEqual(breaches, []);
	});

	for (const [path, text, breach] of [
		['src/gates/jwt.ts', "import '../memory/limiter.ts';", /^src\/gates\/jwt\.ts:1: gates may not import memory/],
		['src/shared/x.ts', "import type { C } from '../config/config.ts';", /shared may not import config/],
		['src/config/x.ts', "export { w } from '../data/worker.ts';", /config may not import data/],
		['src/control/x.ts', "\n\nexport * from '../data/worker.ts';", /x\.ts:3: control may not import data/],
		['src/control/x.ts', "import { bodyMode } from '#body';", /control may not import data \(#body\)/],
		['src/data/x.ts', "await import('../control/supervisor.ts');", /data may not import control/],
		['src/data/x.ts', "type S = import('../control/supervisor.ts').S;", /data may not import control/],
		['src/embed/x.ts', "import '../config/load.ts';", /embed may not import config/],
		['src/cli/x.ts', "import '../main.ts';", /cli may not import main/],
		['src/cli/x.ts', "import '../../tools/build.ts';", /outside src/],
		['src/util/x.ts', '', /no floor is called util/],
	] as const) {
		test(`breach: ${path} with ${text.trim() || 'nothing in it'}`, () => {
			const breaches = check({ [path]: text });
			assert.equal(breaches.length, 1, breaches.join('\n'));
			assert.match(breaches[0] ?? '', breach);
		});
	}

	test('is not fooled by imports in comments and strings', () => {
		const text = "// import '../data/worker.ts';\n/* Atomics */ const s = \"import '../data/worker.ts'; Atomics\";";
		assert.deepEqual(check({ 'src/control/x.ts': text }), []);
	});
});

describe('a gate', () => {
	for (const text of [
		"import 'node:fs';",
		"import 'zod';",
		'const now = () => Date.now();',
		'console.log(1);',
		'const p = globalThis.process;',
	]) {
		test(`is not pure with ${text}`, () => assert.equal(check({ 'src/gates/x.ts': text }).length, 1));
	}

	test('may have members of any name', () => {
		const text =
			'interface I { process: string; Date(): void } const o = { console: 1 }; class C { process = 1 } o.console;';
		assert.deepEqual(check({ 'src/gates/x.ts': text }), []);
	});
});

describe('shared memory', () => {
	for (const text of [
		'new SharedArrayBuffer(8);',
		'let m: SharedArrayBuffer;',
		'Atomics.load(a, 0);',
		'globalThis.Atomics;',
	]) {
		test(`is named only in src/memory: ${text}`, () => {
			assert.deepEqual(check({ 'src/memory/x.ts': text }), []);
			assert.match(check({ 'src/data/x.ts': text })[0] ?? '', /only src\/memory names/);
		});
	}
});

describe('a cycle', () => {
	test('is found through files of one floor, once', () => {
		const breaches = check({
			'src/data/a.ts': "import './b.ts';",
			'src/data/b.ts': "export * from './c.ts';",
			'src/data/c.ts': "await import('./a.ts');",
			'src/data/d.ts': "import './a.ts';",
		});
		assert.deepEqual(breaches, ['import cycle: src/data/a.ts -> src/data/b.ts -> src/data/c.ts -> src/data/a.ts']);
	});

	test('of types alone is none', () => {
		assert.deepEqual(
			check({ 'src/data/a.ts': "import type { B } from './b.ts';", 'src/data/b.ts': "import './a.ts';" }),
			[],
		);
	});
});

test('an import() that cannot be read off the code is refused', () => {
	assert.throws(() => readModule('x.ts', 'await import(name);'), /x\.ts:1: import\(\)/);
});
