import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { CommandError } from '../../../../packages/proxy/src/cli/command.ts';
import { findProxy } from '../../../../packages/proxy/src/cli/running/find.ts';
import { temporaryFolder } from '../../../fixtures/pki.ts';
import { FakeMachine } from './fake-machine.ts';

const MAIN = '/opt/proxy/dist/main.js';
const METRICS = { host: '127.0.0.1', port: 9090 };
const byMetrics = { pidFile: undefined, metrics: METRICS };
const dir = temporaryFolder('find');

function pidFile(text: string): string {
	const path = join(dir, `${text.trim() || 'empty'}.pid`);
	writeFileSync(path, text);
	return path;
}

async function fails(target: Parameters<typeof findProxy>[0], machine: FakeMachine, message: RegExp): Promise<void> {
	await assert.rejects(
		findProxy(target, MAIN, machine),
		(error) => error instanceof CommandError && message.test(error.message),
	);
}

describe('a running proxy is found', () => {
	test("finds a proxy by its metrics address, with the process's number and start time", async () => {
		const machine = new FakeMachine();
		const found = await findProxy(byMetrics, MAIN, machine);
		assert.deepEqual([found.pid, found.startTicks], [42, 1_000]);
	});

	test('finds no proxy by a metrics address of another machine or pid namespace', async () => {
		const none = new FakeMachine();
		none.processes.clear();
		await fails(
			byMetrics,
			none,
			/^127\.0\.0\.1:9090: reports process 42, which does not exist on this machine or in this container/,
		);
		const other = new FakeMachine();
		other.processes.set(42, { startTicks: 7, args: ['/sbin/init'] });
		await fails(byMetrics, other, /does not exist on this machine/);
	});

	test('finds no proxy by a metrics address whose listener names another program', async () => {
		const machine = new FakeMachine();
		machine.processes.set(42, { startTicks: 1_000, startedMs: 0, args: ['/usr/sbin/sshd', '-D'] });
		await fails(byMetrics, machine, /^127\.0\.0\.1:9090: reports process 42, which is another program/);
	});

	test('finds a proxy without /proc only by a loopback address', async () => {
		const machine = new FakeMachine();
		machine.processes.set(42, {});
		machine.facts = { ...machine.facts, startTicks: null };
		assert.equal((await findProxy(byMetrics, MAIN, machine)).pid, 42);
		await fails(
			{ ...byMetrics, metrics: { host: 'edge-2', port: 9090 } },
			machine,
			/^edge-2:9090: .*does not exist on this machine/,
		);
	});

	test('finds a proxy by its metrics address only if a proxy responds', async () => {
		for (const [status, body] of [
			[404, 'not found'],
			[200, '<html>'],
			[200, '{"pid":-1}'],
			[200, '{"pid":"1"}'],
			[200, '{"pid":1,"startTicks":1,"generation":"\\u001b[2J","reloads":{"success":0,"failure":0},"reloading":false}'],
			[200, '{"pid":1,"startTicks":1,"generation":1,"reloads":{"success":0},"reloading":false}'],
		] as const) {
			const machine = new FakeMachine();
			machine.answer = { status, body };
			await fails(
				byMetrics,
				machine,
				/^127\.0\.0\.1:9090: answers \d+ to \/process .*is that the --metrics-bind of a proxy/,
			);
		}
	});

	test('finds a proxy by its pid file, with the facts of its metrics listener', async () => {
		const machine = new FakeMachine();
		const path = pidFile('42\n');
		const found = await findProxy({ pidFile: path, metrics: METRICS }, MAIN, machine);
		assert.deepEqual([found.pid, found.startTicks, found.facts], [42, 1_000, machine.facts]);
		machine.facts = { ...machine.facts, pid: 43 };
		const { facts } = await findProxy({ pidFile: path, metrics: METRICS }, MAIN, machine);
		assert.equal(facts, '127.0.0.1:9090: reports process 43, but the file names 42');
	});

	test('finds no proxy by a pid file that names an ended process, or another program', async () => {
		const machine = new FakeMachine();
		machine.processes.set(44, { startTicks: 1, startedMs: 0, args: ['/usr/bin/vim', 'notes'] });
		machine.processes.set(45, { startTicks: 1, startedMs: Date.now() + 60_000, args: ['node', MAIN] });
		for (const pid of [43, 44, 45]) {
			await fails({ pidFile: pidFile(`${pid}\n`), metrics: METRICS }, machine, new RegExp(`process ${pid} is gone`));
		}
		await fails(
			{ pidFile: join(dir, 'none.pid'), metrics: METRICS },
			machine,
			/none\.pid: does not exist; is the proxy running/,
		);
		await fails({ pidFile: pidFile(''), metrics: METRICS }, machine, /does not exist/);
		await fails({ pidFile: pidFile('root:x:0'), metrics: METRICS }, machine, /does not contain a process number/);
		await fails({ pidFile: dir, metrics: METRICS }, machine, /cannot be read: EISDIR/);
	});
});
