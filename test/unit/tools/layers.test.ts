/** The layers are rules of the linter: biome.json says which folder may import which, that gates are pure, and who names shared memory. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { test } from 'node:test';
import { blockNamed } from '../../fixtures/doc-blocks.ts';
import { temporaryFolder } from '../../fixtures/pki.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const BIOME = join(ROOT, 'node_modules/@biomejs/biome/bin/biome');

interface Report {
	readonly diagnostics: readonly {
		readonly category: string;
		readonly location: { readonly path: string; readonly start: { readonly line: number } };
	}[];
}

/** By path, the lines in which the linter's rules about layers find a fault. */
function wrongLines(modules: Readonly<Record<string, readonly string[]>>): Record<string, number[]> {
	const dir = temporaryFolder('layers');
	const config = JSON.parse(readFileSync(join(ROOT, 'biome.json'), 'utf8'));
	writeFileSync(join(dir, 'biome.json'), JSON.stringify({ ...config, $schema: undefined, vcs: undefined }));
	for (const [path, lines] of Object.entries(modules)) {
		mkdirSync(dirname(join(dir, path)), { recursive: true });
		writeFileSync(join(dir, path), lines.join('\n'));
	}
	const args = [BIOME, 'lint', '--reporter=json', '--max-diagnostics=none'];
	const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: dir, encoding: 'utf8' });
	const report = /\{"summary".*\}/s.exec(stdout)?.[0];
	assert.ok(report, stderr);
	const faults = (JSON.parse(report) as Report).diagnostics.filter(({ category }) =>
		/Restricted|Cycles/.test(category),
	);
	const linesOf = (path: string) =>
		faults.filter(({ location }) => location.path === path).map(({ location }) => location.start.line);
	return Object.fromEntries(
		Object.keys(modules).map((path) => [path, [...new Set(linesOf(path))].sort((a, b) => a - b)]),
	);
}

/** Every line of these is right, and of the others wrong. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
	'packages/gate/src/gates/a.ts': ["import 'node:crypto';", "import './jwt.ts';"],
	'packages/gate/src/embed/a.ts': ["import '../tls/tls-options.ts';", 'setTimeout(() => Date.now(), 1);'],
	'packages/proxy/src/gates/a.ts': ["import '@mtls-edge-proxy/gate/gates/jwt.ts';", 'export const a = { Date: 1 };'],
	'packages/proxy/src/data/a.ts': [
		"import '#body';",
		"import '../config/config.ts';",
		"import '../shared/messages.ts';",
	],
	'packages/proxy/src/memory/a.ts': ['export const cells = new SharedArrayBuffer(8);', 'Atomics.load;'],
	'packages/proxy/src/cli/a.ts': ["import '../control/supervisor.ts';", "import '#body';"],
};

const FORBIDDEN: Readonly<Record<string, readonly string[]>> = {
	'packages/gate/src/gates/b.ts': [
		"import '../memory/limiter.ts';",
		"import 'node:fs';",
		"import type { Trust } from '../identity/trust.ts';",
		...['Date.now();', 'performance.now();', 'process.env;', 'console.log;', 'setTimeout;', "fetch('');"],
	],
	'packages/proxy/src/gates/b.ts': ["import '@mtls-edge-proxy/gate/identity/trust.ts';", 'Atomics.load;'],
	'packages/proxy/src/identity/b.ts': ["import '@mtls-edge-proxy/gate/shared/log.ts';", 'Date.now();'],
	'packages/proxy/src/shared/b.ts': ["import type { C } from '../config/config.ts';", 'new SharedArrayBuffer(8);'],
	'packages/proxy/src/config/b.ts': ["export { w } from '../data/worker.ts';"],
	'packages/proxy/src/control/b.ts': [
		"export * from '../data/worker.ts';",
		"import '#body';",
		"import '../cli/serve.ts';",
	],
	'packages/proxy/src/data/http2/b.ts': ["await import('../../control/supervisor.ts');"],
	'packages/proxy/src/data/c.ts': ["import './d.ts';"],
	'packages/proxy/src/data/d.ts': ["export * from './e.ts';"],
	'packages/proxy/src/data/e.ts': ["await import('./c.ts');"],
};

test('the linter refuses each import and name that its folder may not have, and no other', () => {
	const all = Object.entries(FORBIDDEN).map(([path, lines]) => [path, lines.map((_, i) => i + 1)] as const);
	const none = Object.keys(ALLOWED).map((path) => [path, [] as number[]] as const);
	assert.deepEqual(wrongLines({ ...ALLOWED, ...FORBIDDEN }), Object.fromEntries([...none, ...all]));
});

/** By folder of a module, the folders that it imports: of the proxy, and of the gate by a path or by the package. */
function importsByFolder(): Map<string, Set<string>> {
	const imports = new Map<string, Set<string>>();
	for (const file of globSync('packages/{gate,proxy}/src/*/**/*.ts', { cwd: ROOT })) {
		const folder = file.split('/')[3]!;
		const found = imports.get(folder) ?? new Set();
		imports.set(folder, found);
		for (const [, module] of readFileSync(join(ROOT, file), 'utf8').matchAll(/(?:from |import\()'([@.][^']+)'/g)) {
			const path = module!.startsWith('.')
				? join(file, '..', module!)
				: module!.replace('@mtls-edge-proxy/gate/', '././src/');
			const [, other] = /(?:^|\/)src\/([\w-]+)\//.exec(path) ?? [];
			if (other !== undefined && other !== folder) found.add(other);
		}
	}
	return imports;
}

/** By folder, those that arrows of ARCHITECTURE.md lead to, directly or through others. */
function reachable(folder: string, arrows: ReadonlyMap<string, readonly string[]>): string[] {
	return (arrows.get(folder) ?? []).flatMap((next) => [next, ...reachable(next, arrows)]);
}

test('the diagram of layers has every folder with sources, and an arrow to each folder that one imports', () => {
	const arrows = new Map<string, string[]>();
	for (const line of blockNamed('the layers').code.split('\n').slice(1)) {
		const steps = line.split('-->').map((nodes) => nodes.trim().split(' & '));
		for (const [i, from] of steps.slice(0, -1).entries()) {
			for (const one of from) arrows.set(one, [...(arrows.get(one) ?? []), ...steps[i + 1]!]);
		}
	}
	const imports = importsByFolder();
	assert.deepEqual([...new Set([...arrows].flat(2))].sort(), [...imports.keys()].sort());
	for (const [folder, found] of imports) {
		const drawn = reachable(folder, arrows);
		assert.deepEqual(
			[...found].filter((other) => !drawn.includes(other)),
			[],
			folder,
		);
	}
});
