import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { fakePackage } from './fake-package.ts';

const TOOLS = join(import.meta.dirname, '../../../tools');
const PASSING = "import { test } from 'node:test'; test('passes', () => {});";
const MODE = `import { test } from 'node:test';
import { bodyMode } from '#body';
test('the mode', (t) => t.diagnostic(process.env.PROXY_TEST_BODY + ' and ' + bodyMode));`;
const FAILS_STREAMING = `import { describe, test } from 'node:test';
describe('body', () => test('fits', () => { if (process.env.PROXY_TEST_BODY === 'streaming') throw new Error('no'); }));`;
/** Fails the first time. */
const UNSTEADY = `import { existsSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
const ran = import.meta.filename + '.' + process.env.PROXY_TEST_BODY;
describe('suite', () => {
	test('at first', () => {
		if (existsSync(ran)) return;
		writeFileSync(ran, '');
		throw new Error('too slow');
	});
	test('always', () => {});
});`;
const BODY = {
	'package.json': JSON.stringify({ type: 'module', imports: { '#body': { boxed_body: './s.ts', default: './c.ts' } } }),
	's.ts': "export const bodyMode = 'streaming';",
	'c.ts': "export const bodyMode = 'collected';",
};

/** Runs the suites of a folder with these files. */
function runner(t: TestContext, files: Record<string, string>, ...args: string[]) {
	const root = fakePackage(t, { ...BODY, ...files });
	mkdirSync(join(root, 'tools'));
	for (const file of ['test.ts', 'test-deadline.ts']) cpSync(join(TOOLS, file), join(root, 'tools', file));
	// Or node's test runner takes this for a test file that starts itself. It sets the other where there is a terminal.
	const { NODE_TEST_CONTEXT: _, FORCE_COLOR: _colours, ...outer } = process.env;
	// There is no command here to build.
	const env = { ...outer, PROXY_TEST_DEADLINE_MS: '2000', PROXY_TEST_MAIN: 'none' };
	return spawnSync(process.execPath, [join(root, 'tools/test.ts'), ...args], { cwd: root, env, encoding: 'utf8' });
}

describe('npm test', () => {
	test('runs unit tests once and wire tests in both body modes, under one summary, and names the mode of a failure', (t) => {
		const files = {
			'test/unit/a/b.test.ts': PASSING,
			'test/wire/c.test.ts': MODE,
			'test/wire/d.test.ts': FAILS_STREAMING,
		};
		const { status, stdout } = runner(t, files);
		assert.equal(status, 1);
		assert.match(stdout, /ℹ collected and collected/);
		assert.match(stdout, /ℹ streaming and streaming/);
		assert.equal(stdout.match(/^ℹ tests \d+$/gm)?.join(), 'ℹ tests 5');
		assert.match(stdout, /ℹ pass 4\nℹ fail 1\nℹ cancelled 0\nℹ skipped 0\nℹ todo 0\nℹ duration_ms \d+\n/);
		assert.match(stdout, /failing tests:\n\n.*\n✖ fits \[streaming\]/);
	});

	test('fails a file that does not load, names what a file leaves open, and goes on', (t) => {
		const leak = `${PASSING} import net from 'node:net'; net.createServer().listen(0, '127.0.0.1');`;
		const { status, stdout } = runner(t, {
			'test/unit/a.test.ts': leak,
			'test/unit/b.test.ts': PASSING,
			'test/unit/c.test.ts': "import './gone.ts';",
		});
		assert.equal(status, 1);
		assert.match(stdout, /a\.test\.ts is not over after 2 s\. It keeps open: .*TCPServerWrap/);
		assert.match(stdout, /ℹ pass 2\nℹ fail 2\n/);
	});

	test('runs unit tests of one folder in one process, each file with its own hooks', (t) => {
		const failing =
			"import { beforeEach, test } from 'node:test'; beforeEach(() => { throw new Error('mine'); }); test('fails', () => {});";
		const same = "import { test } from 'node:test'; test('pid', (t) => t.diagnostic('pid ' + process.pid));";
		const files = { 'test/unit/a/a.test.ts': failing, 'test/unit/a/b.test.ts': same, 'test/unit/a/c.test.ts': same };
		const { stdout } = runner(t, files);
		assert.match(stdout, /ℹ pass 2\nℹ fail 1\n/);
		assert.match(stdout, /pid (\d+)\n[\s\S]*pid \1\n/);
	});

	test('with --again a wire file that failed runs once more: if it passes then, it is named as unsteady and counted as passed', (t) => {
		const files = { 'test/wire/a.test.ts': UNSTEADY, 'test/wire/b.test.ts': PASSING };
		const { status, stdout } = runner(t, files, '--again', '--body', 'collected');
		assert.equal(status, 0, stdout);
		assert.match(stdout, /^ℹ unsteady: test\/wire\/a\.test\.ts \[collected\]: at first: too slow$/m);
		assert.match(stdout, /ℹ tests 3\nℹ suites 1\nℹ pass 3\nℹ fail 0\n/);
		assert.equal(runner(t, files, '--body', 'collected').status, 1, 'not without --again');
	});

	test('with --again a wire file that fails twice is a failure, and a unit test that fails once', (t) => {
		const unsteady = { 'test/wire/a.test.ts': UNSTEADY };
		const twice = runner(t, { ...unsteady, 'test/wire/b.test.ts': FAILS_STREAMING }, '--again');
		assert.equal(twice.status, 1);
		assert.match(twice.stdout, /unsteady: test\/wire\/a\.test\.ts/);
		assert.match(twice.stdout, /failing tests:\n\n.*\n✖ fits \[streaming\]/);
		assert.match(twice.stdout, /ℹ fail 1\n/);
		const unit = runner(t, { ...unsteady, 'test/unit/b.test.ts': UNSTEADY }, '--again', '--body', 'collected');
		assert.equal(unit.status, 1);
		assert.match(unit.stdout, /unsteady: test\/wire\/a\.test\.ts[\s\S]*ℹ fail 1\n/);
	});

	test('with --again more than three files that fail are failures at once', (t) => {
		const names = ['a', 'b', 'c', 'd'];
		const files = Object.fromEntries(names.map((name) => [`test/wire/${name}.test.ts`, UNSTEADY]));
		const { status, stdout } = runner(t, files, '--again', '--body', 'collected');
		assert.equal(status, 1);
		assert.match(stdout, /ℹ pass 4\nℹ fail 4\n/);
		assert.doesNotMatch(stdout, /unsteady/);
	});

	test('sets PROXY_TEST_SECOND_MODE for files in the second body mode, unless they are named', (t) => {
		const files = {
			'test/wire/a.test.ts':
				"import { test } from 'node:test'; test('a', (t) => t.diagnostic('second: ' + process.env.PROXY_TEST_SECOND_MODE));",
		};
		const said = (...args: string[]) => runner(t, files, ...args).stdout.match(/second: \w+/g);
		assert.deepEqual(said(), ['second: undefined', 'second: 1']);
		assert.deepEqual(said('test/wire/a.test.ts'), ['second: undefined', 'second: undefined']);
	});

	test('refuses to run while a file belongs to no suite', (t) => {
		const { status, stderr } = runner(t, { 'test/wier/a.test.ts': PASSING });
		assert.equal(status, 2);
		assert.match(stderr, /test\/wier\/a\.test\.ts belongs to no suite/);
	});
});
