import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { claimPidFile, isWriter, parsePid } from '../../../../packages/proxy/src/cli/running/pid-file.ts';
import { mayBeProxy, readProcess } from '../../../../packages/proxy/src/cli/running/process-table.ts';
import { parseProcStat } from '../../../../packages/proxy/src/control/admin/process-facts.ts';
import { StartError } from '../../../../packages/proxy/src/control/start-error.ts';
import { temporaryFolder } from '../../../fixtures/pki.ts';
import { HAS_PROC } from '../../../fixtures/proc.ts';

const MAIN = '/opt/proxy/dist/main.js';
const dir = temporaryFolder('pid-file');

/** A new folder for each case. */
function pathIn(name: string): string {
	mkdirSync(join(dir, name));
	return join(dir, name, 'proxy.pid');
}

describe('the pid file', () => {
	test('appears whole when it is published, and no draft stays', () => {
		const path = pathIn('new');
		const file = claimPidFile(path, MAIN);
		assert.equal(existsSync(path), false, 'nobody finds a process that is not ready');
		file.publish();
		assert.equal(readFileSync(path, 'utf8'), `${process.pid}\n`);
		assert.deepEqual(readdirSync(join(dir, 'new')), ['proxy.pid']);
	});

	test('replaces that of a dead process, an empty file, and our own number from an earlier life', () => {
		for (const [name, text] of [
			['gone', '2147483646\n'],
			['empty', ''],
			['own', `${process.pid}\n`],
		] as const) {
			const path = pathIn(name);
			writeFileSync(path, text);
			claimPidFile(path, MAIN).publish();
			assert.equal(readFileSync(path, 'utf8'), `${process.pid}\n`, name);
		}
	});

	test('is not taken from a live proxy, and the remedy is said', () => {
		const path = pathIn('live');
		// The parent is a live node process that was there before; its command line is that of our own module here.
		writeFileSync(path, `${process.ppid}\n`);
		const main = HAS_PROC ? readProcess(process.ppid)!.args!.at(0)! : MAIN;
		assert.throws(
			() => claimPidFile(path, main),
			(error) =>
				error instanceof StartError &&
				/^--pid-file: ".*live\/proxy\.pid" belongs to process \d+, a running proxy; stop it \(proxy drain --wait --pid-file .*\) or name another file$/.test(
					error.message,
				),
		);
	});

	test('refuses a file with other content, and one that cannot be written', () => {
		const path = pathIn('other');
		writeFileSync(path, 'root:x:0:0\n');
		const cases: [path: string, message: RegExp][] = [
			[path, /^--pid-file: ".*" exists, but does not contain a process number; name another file$/],
			[join(dir, 'no/such/folder.pid'), /^--pid-file: cannot use ".*": its folder does not exist; create it/],
			[dir, /^--pid-file: cannot use ".*": it is a folder; name a file in it$/],
			[join(path, 'x'), /^--pid-file: cannot use ".*": its folder is a file/],
		];
		for (const [at, message] of cases) {
			assert.throws(
				() => claimPidFile(at, MAIN),
				(error) => error instanceof StartError && message.test(error.message),
				String(message),
			);
		}
		assert.equal(readFileSync(path, 'utf8'), 'root:x:0:0\n');
	});

	test('accepts blanks around the number', () => {
		for (const text of ['7\n', ' 7 ', '7', '7\r\n']) assert.equal(parsePid(text), 7, text);
		for (const text of ['0', '-7', '7 8', '7\n8\n', '0x7', '99999999999']) assert.equal(parsePid(text), 'no pid', text);
		for (const text of ['', '\n']) assert.equal(parsePid(text), undefined, text);
	});

	test('names only a process that can be a proxy and started before the file was written', () => {
		const proxy = { startTicks: 1, startedMs: 10_000, args: ['node', '-C', 'boxed_body', MAIN, '--config', 'a'] };
		assert.equal(isWriter(proxy, 11_000, MAIN), true);
		assert.equal(isWriter(proxy, 9_000, MAIN), true, 'clocks have grains');
		assert.equal(isWriter(proxy, 5_000, MAIN), false, 'a later process with the number of the one before');
		assert.equal(isWriter({ ...proxy, args: ['vim', 'main.ts'] }, 11_000, MAIN), false);
		assert.equal(isWriter({}, 11_000, MAIN), true, 'without /proc it cannot be told');
	});

	test('knows a proxy under the name by which it is called', () => {
		for (const args of [
			['node', '/usr/local/bin/proxy'],
			['node', '/usr/local/bin/proxy-streaming'],
			['node', '/opt/old/dist/main.js'],
			['node', './main.js'],
		]) {
			assert.equal(mayBeProxy({ args }, MAIN), true, args.join(' '));
		}
		for (const args of [[], ['node', 'server.js'], ['haproxy'], ['/usr/sbin/proxyd']]) {
			assert.equal(mayBeProxy({ args }, MAIN), false, args.join(' '));
		}
	});
});

describe('/proc', () => {
	test('tells state and start, whatever the name of the program', () => {
		const rest = Array.from({ length: 18 }, (_, i) => i).join(' ');
		assert.deepEqual(parseProcStat(`7 (a) b (c)) S ${rest} 4711 0 0`), { state: 'S', startTicks: 4_711 });
	});

	test('knows this process, and none of a number that there is not', { skip: !HAS_PROC && 'reads /proc' }, () => {
		const entry = readProcess(process.pid)!;
		// To the second of the boot time, and the ticks of the start.
		assert.ok(Math.abs(entry.startedMs! - performance.timeOrigin) < 5_000);
		assert.equal(entry.args![0], process.argv0);
		assert.equal(readProcess(2_147_483_646), undefined);
	});
});
