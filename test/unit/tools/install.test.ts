import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { lockDifference } from '../../../tools/install.mjs';
import { fakePackage } from './fake-package.ts';

const INSTALL = join(import.meta.dirname, '../../../tools/install.mjs');
const RUNTIME = `node-${process.platform}-${process.arch}`;
const LOCK = { packages: { '': {}, 'node_modules/a': { version: '1.0.0', integrity: 'sha512-a' } } };

interface Folder {
	/** The text of node_modules/.package-lock.json. */
	readonly installed: object;
	/** Whether node_modules/.bin/node exists. It is the Node that runs the test. */
	readonly hasNode: boolean;
}

/** Runs install.mjs in such a folder, whose npm only writes down its arguments. */
function install(t: TestContext, { installed, hasNode }: Folder) {
	const root = fakePackage(
		t,
		{
			'package-lock.json': JSON.stringify(LOCK),
			'tools/runtime/package.json': JSON.stringify({ optionalDependencies: { [RUNTIME]: process.versions.node } }),
			'node_modules/.package-lock.json': JSON.stringify(installed),
			'bin/npm': '#!/bin/sh\necho "$@" > npm-arguments\n',
		},
		{ linksModules: false },
	);
	cpSync(INSTALL, join(root, 'tools/install.mjs'));
	chmodSync(join(root, 'bin/npm'), 0o755);
	mkdirSync(join(root, 'node_modules/.bin'));
	if (hasNode) symlinkSync(process.execPath, join(root, 'node_modules/.bin/node'));
	const { npm_execpath: _, ...env } = process.env;
	const { status, stderr } = spawnSync(process.execPath, [join(root, 'tools/install.mjs')], {
		encoding: 'utf8',
		env: { ...env, PATH: `${join(root, 'bin')}${delimiter}${process.env.PATH}` },
	});
	return { status, stderr, calledNpm: existsSync(join(root, 'npm-arguments')) };
}

describe('before a script', () => {
	test('a complete folder installs nothing and prints nothing', (t) => {
		assert.deepEqual(install(t, { installed: LOCK, hasNode: true }), { status: 0, stderr: '', calledNpm: false });
	});

	test('a package of another version than the locked one makes npm install everything', (t) => {
		const installed = { packages: { 'node_modules/a': { version: '0.9.0', integrity: 'sha512-b' } } };
		const { stderr, calledNpm } = install(t, { installed, hasNode: true });
		assert.match(stderr, /node_modules\/a is at 0\.9\.0, not at the locked 1\.0\.0/);
		assert.ok(calledNpm);
	});

	test('a pinned Node that npm left out stops the script with the remedy', (t) => {
		const { status, stderr, calledNpm } = install(t, { installed: LOCK, hasNode: false });
		assert.deepEqual([status, calledNpm], [1, true]);
		assert.match(stderr, new RegExp(`optional package ${RUNTIME}\\..* npm ci --include=optional`));
	});

	test('a missing package, other content or one package too many is a difference from the lock', () => {
		const a = LOCK.packages['node_modules/a'];
		for (const [packages, difference] of [
			[{}, /node_modules\/a is not there/],
			[{ 'node_modules/a': { ...a, integrity: 'sha512-b' } }, /node_modules\/a/],
			[{ ...LOCK.packages, 'node_modules/b': a }, /installed but not locked/],
		] as const) {
			assert.match(lockDifference(LOCK, { packages }) ?? '', difference);
		}
	});
});
