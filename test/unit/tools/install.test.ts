import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
	chmodSync,
	cpSync,
	existsSync,
	mkdirSync,
	mkdtempSync,
	readFileSync,
	realpathSync,
	rmSync,
	symlinkSync,
	writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { lockDifference } from '../../../tools/install.mjs';

const INSTALL = join(import.meta.dirname, '../../../tools/install.mjs');
const RUNTIME = `node-${process.platform}-${process.arch}`;
const LOCK = { packages: { '': {}, 'node_modules/a': { version: '1.0.0', integrity: 'sha512-a' } } };

interface Folder {
	/** What node_modules/.package-lock.json says; without it nothing is installed. */
	readonly installed?: object;
	/** The version that tools/runtime pins for this platform; without it, none. */
	readonly pinned?: string;
	/** Whether node_modules/.bin/node is there. It is the Node that runs the test. */
	readonly node?: boolean;
}

/** Runs install.mjs in a folder like that, with an npm that only writes down how it was called. */
function install(t: TestContext, { installed, pinned, node }: Folder) {
	const root = realpathSync(mkdtempSync(join(tmpdir(), 'install-')));
	t.after(() => rmSync(root, { recursive: true }));
	const write = (name: string, text: string) => {
		mkdirSync(dirname(join(root, name)), { recursive: true });
		writeFileSync(join(root, name), text);
	};
	mkdirSync(join(root, 'tools'));
	cpSync(INSTALL, join(root, 'tools/install.mjs'));
	write('package-lock.json', JSON.stringify(LOCK));
	write('tools/runtime/package.json', JSON.stringify({ optionalDependencies: pinned ? { [RUNTIME]: pinned } : {} }));
	if (installed) write('node_modules/.package-lock.json', JSON.stringify(installed));
	mkdirSync(join(root, 'node_modules/.bin'), { recursive: true });
	if (node) symlinkSync(process.execPath, join(root, 'node_modules/.bin/node'));
	write('bin/npm', `#!/bin/sh\necho "$@" > "${root}/npm-arguments"\n`);
	chmodSync(join(root, 'bin/npm'), 0o755);

	const { npm_execpath: _, ...env } = process.env;
	const { status, stderr } = spawnSync(process.execPath, [join(root, 'tools/install.mjs')], {
		encoding: 'utf8',
		env: { ...env, PATH: `${join(root, 'bin')}${delimiter}${process.env.PATH}` },
	});
	const calls = join(root, 'npm-arguments');
	return { status, stderr, npm: existsSync(calls) ? readFileSync(calls, 'utf8') : undefined };
}

const NODE = process.versions.node;

describe('before a script', () => {
	test('nothing is installed and nothing said when all is there', (t) => {
		assert.deepEqual(install(t, { installed: LOCK, pinned: NODE, node: true }), {
			status: 0,
			stderr: '',
			npm: undefined,
		});
	});

	test('everything is installed anew when a locked version is not the installed one', (t) => {
		const installed = { packages: { 'node_modules/a': { version: '0.9.0', integrity: 'sha512-b' } } };
		const { stderr, npm } = install(t, { installed, pinned: NODE, node: true });
		assert.match(stderr, /node_modules\/a is at 0\.9\.0, not at the locked 1\.0\.0/);
		assert.notEqual(npm, undefined);
	});

	test('a pinned Node that npm left out stops the script with the remedy', (t) => {
		const { status, stderr, npm } = install(t, { installed: LOCK, pinned: NODE });
		assert.equal(status, 1);
		assert.notEqual(npm, undefined);
		assert.match(stderr, new RegExp(`optional package ${RUNTIME}\\..* npm ci --include=optional`));
	});
});

describe('what is installed', () => {
	test('differs when a package is missing, of other content, or too many', () => {
		const a = LOCK.packages['node_modules/a'];
		assert.match(lockDifference(LOCK, { packages: {} }) ?? '', /node_modules\/a is not there/);
		assert.match(
			lockDifference(LOCK, { packages: { 'node_modules/a': { ...a, integrity: 'sha512-b' } } }) ?? '',
			/node_modules\/a/,
		);
		assert.match(
			lockDifference(LOCK, { packages: { ...LOCK.packages, 'node_modules/b': a } }) ?? '',
			/installed but not locked/,
		);
	});
});
