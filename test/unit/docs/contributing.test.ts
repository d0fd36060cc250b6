/** CONTRIBUTING.md's gate: a module of the gates that type-checks, keeps to its layer and passes its test. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { blockNamed, ROOT } from '../../fixtures/doc-blocks.ts';
import { temporaryFolder } from '../../fixtures/pki.ts';

describe('the gate of CONTRIBUTING.md', () => {
	const dir = temporaryFolder('gate');
	cpSync(join(ROOT, 'tsconfig.json'), join(dir, 'tsconfig.json'));
	writeFileSync(join(dir, 'package.json'), '{"type":"module"}');
	symlinkSync(join(ROOT, 'node_modules'), join(dir, 'node_modules'));
	const files = [blockNamed('the gate of CONTRIBUTING.md'), blockNamed('the test of CONTRIBUTING.md')].map(
		({ code }) => {
			const [, file] = /^\/\/ (\S+\.ts)\n/.exec(code) ?? [];
			mkdirSync(dirname(join(dir, file!)), { recursive: true });
			writeFileSync(join(dir, file!), code);
			return file!;
		},
	);
	const run = (...args: string[]) =>
		execFileSync(process.execPath, args, { cwd: dir, encoding: 'utf8', env: ENVIRONMENT });

	it('type-checks by the rules of the repository', () => {
		const config = { extends: './tsconfig.json', include: files };
		writeFileSync(join(dir, 'tsconfig.example.json'), JSON.stringify(config));
		run(join(ROOT, 'node_modules/typescript/bin/tsc'), '--project', 'tsconfig.example.json');
	});

	it('passes the linter, which checks that gates are pure', () => {
		const config = JSON.parse(readFileSync(join(ROOT, 'biome.json'), 'utf8'));
		writeFileSync(join(dir, 'biome.json'), JSON.stringify({ ...config, $schema: undefined, vcs: undefined }));
		run(join(ROOT, 'node_modules/@biomejs/biome/bin/biome'), 'check', '--error-on-warnings', ...files);
	});

	it('passes its test', () => {
		assert.match(run('--test', files[1]!), /pass 1/);
	});
});

/** Without what the runner of this test tells its children. */
const ENVIRONMENT = { ...process.env, NODE_TEST_CONTEXT: undefined, NODE_OPTIONS: undefined };
