/** The floors are rules of the linter: biome.json says which folder may import which, that gates are pure, and who names shared memory. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { before, describe, test } from 'node:test';
import { temporaryFolder } from '../../fixtures/pki.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const BIOME = join(ROOT, 'node_modules/@biomejs/biome/bin/biome');

interface Report {
	readonly diagnostics: readonly {
		readonly category: string;
		readonly location: { readonly path: string; readonly start: { readonly line: number } };
	}[];
}

/** By path, the lines that the linter's rules about floors find wrong in these modules. */
function wrongLines(modules: Readonly<Record<string, readonly string[]>>): Record<string, number[]> {
	const dir = temporaryFolder('floors');
	const config = JSON.parse(readFileSync(join(ROOT, 'biome.json'), 'utf8'));
	writeFileSync(join(dir, 'biome.json'), JSON.stringify({ ...config, $schema: undefined, vcs: undefined }));
	for (const [path, lines] of Object.entries(modules)) {
		mkdirSync(dirname(join(dir, path)), { recursive: true });
		writeFileSync(join(dir, path), lines.join('\n'));
	}
	const args = ['lint', '--reporter=json', '--max-diagnostics=none'];
	const { stdout, stderr } = spawnSync(process.execPath, [BIOME, ...args], { cwd: dir, encoding: 'utf8' });
	const report = /\{"summary".*\}/s.exec(stdout)?.[0];
	assert.ok(report, stderr);
	const found = Object.fromEntries(Object.keys(modules).map((path) => [path, new Set<number>()]));
	for (const { category, location } of (JSON.parse(report) as Report).diagnostics) {
		if (/Restricted|Cycles/.test(category)) found[location.path]?.add(location.start.line);
	}
	return Object.fromEntries(Object.entries(found).map(([path, lines]) => [path, [...lines].sort((a, b) => a - b)]));
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

describe('the linter', () => {
	let found: Record<string, number[]>;
	before(() => {
		found = wrongLines({ ...ALLOWED, ...FORBIDDEN });
	});

	for (const path of Object.keys(ALLOWED)) {
		test(`lets ${path} import what is below it`, () => assert.deepEqual(found[path], []));
	}
	for (const [path, lines] of Object.entries(FORBIDDEN)) {
		test(`finds what ${path} may not import or name`, () => {
			assert.deepEqual(
				found[path],
				lines.map((_, i) => i + 1),
			);
		});
	}
});
