import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CommandError } from '../../../../packages/proxy/src/cli/command.ts';
import { drain } from '../../../../packages/proxy/src/cli/running/drain.ts';
import { healthcheck } from '../../../../packages/proxy/src/cli/running/healthcheck.ts';
import { outcomeOf, reload } from '../../../../packages/proxy/src/cli/running/reload.ts';
import { FakeMachine } from './fake-machine.ts';

const METRICS = { host: '127.0.0.1', port: 9090 };
const target = { pidFile: undefined, metrics: METRICS, timeoutMs: 1_000 };

const OUTCOME = { generation: 5, failures: [], needsRestart: [] };

class Printed {
	text = '';
	readonly mainPath = '/opt/proxy/dist/main.js';
	print = (text: string) => {
		this.text += text;
	};
}

const failsWith = (message: RegExp) => (error: unknown) => error instanceof CommandError && message.test(error.message);

describe('proxy reload', () => {
	test('waits for the outcome', async () => {
		const [machine, out] = [new FakeMachine(), new Printed()];
		machine.onSleep = (count) => {
			machine.facts = { ...machine.facts, reloading: count < 3 };
			if (count === 3) machine.facts = { ...machine.facts, generation: 2, reloads: { success: 1, failure: 0 } };
		};
		assert.equal(await reload({ ...target, wait: true }, out, machine), 0);
		assert.deepEqual(machine.signals, ['SIGHUP 42']);
		assert.equal(out.text, 'reloaded: generation 2 is in force (process 42, 0.1 s)\n');
	});

	test('says that it has failed, with 1', async () => {
		const [machine, out] = [new FakeMachine(), new Printed()];
		machine.onSleep = () => {
			const failures = ['config.toml:3: tls.key_path: cannot be read\nconfig.toml:4: \u001b[2Jx: unknown key'];
			machine.facts = { ...machine.facts, reloads: { success: 0, failure: 1 }, failures };
		};
		assert.equal(await reload({ ...target, wait: true }, out, machine), 1);
		assert.equal(
			out.text,
			'config.toml:3: tls.key_path: cannot be read\nconfig.toml:4: ?[2Jx: unknown key\n' +
				'the reload failed, and the parts that failed are unchanged: generation 1 is in force (process 42, 0.1 s)\n',
		);
	});

	test('names the settings that need a restart, with 3', async () => {
		const [machine, out] = [new FakeMachine(), new Printed()];
		machine.onSleep = () => {
			const needsRestart = ['tenant_rps (config.toml:3)', 'jwt.audience (removed from config.toml)'];
			machine.facts = { ...machine.facts, generation: 2, reloads: { success: 1, failure: 0 }, needsRestart };
		};
		assert.equal(await reload({ ...target, wait: true }, out, machine), 3);
		assert.equal(
			out.text,
			'needs a restart: tenant_rps (config.toml:3), jwt.audience (removed from config.toml)\n' +
				'reloaded: generation 2 is in force (process 42, 0.1 s)\n',
		);
	});

	test('does not mistake another reload for its own', () => {
		const before = { reloads: { success: 3, failure: 1 } };
		const after = (success: number, failure: number, reloading: boolean) =>
			outcomeOf(before, { ...OUTCOME, reloads: { success, failure }, reloading })?.exitCode;
		assert.equal(after(3, 1, false), undefined, 'the signal is on its way');
		assert.equal(after(3, 1, true), undefined);
		assert.equal(after(4, 1, true), undefined, 'one that was under way has ended, and ours is next');
		assert.equal(after(5, 1, false), 0);
		assert.equal(after(4, 2, false), 1, 'which of the two has failed cannot be told');
	});

	test('ends after its time limit, and says that the reload goes on', async () => {
		const machine = new FakeMachine();
		machine.facts = { ...machine.facts, reloading: true };
		await assert.rejects(
			reload({ ...target, wait: true }, new Printed(), machine),
			failsWith(/^no outcome within 1\.0 s: the reload is still running; the log of process 42 has it later$/),
		);
	});

	test('sends nothing if it could not see the outcome, except with --no-wait', async () => {
		const [machine, out] = [new FakeMachine(), new Printed()];
		machine.answer = new CommandError('127.0.0.1:9090: nobody listens there');
		const pidFile = await pidFileOf(42);
		await assert.rejects(
			reload({ ...target, pidFile, wait: true }, out, machine),
			failsWith(
				/^nothing was reloaded, because the outcome could not be read: 127\.0\.0\.1:9090: nobody listens there; give --metrics/,
			),
		);
		assert.deepEqual(machine.signals, []);
		assert.equal(await reload({ ...target, pidFile, wait: false }, out, machine), 0);
		assert.deepEqual(machine.signals, ['SIGHUP 42']);
		assert.equal(out.text, 'process 42 was told to reload; its log has the outcome\n');
	});

	test('fails if the process ends meanwhile', async () => {
		const machine = new FakeMachine();
		machine.onSleep = () => {
			machine.processes.clear();
			machine.answer = new CommandError('gone');
		};
		await assert.rejects(
			reload({ ...target, wait: true }, new Printed(), machine),
			failsWith(/^process 42 has ended in the meantime/),
		);
	});

	test('names the owner of the process if it may not signal it', async () => {
		for (const [code, message] of [
			['EPERM', /belongs to another user \(EPERM\); run the command as that user/],
			['ESRCH', /is gone/],
		] as const) {
			const machine = new FakeMachine();
			machine.signalError = Object.assign(new Error(code), { code });
			await assert.rejects(reload({ ...target, wait: true }, new Printed(), machine), failsWith(message));
		}
	});
});

describe('a proxy that is named by its pid file', () => {
	test('is found by its number and start, also if the clock was set since the file was written', async () => {
		const pidFile = await pidFileOf(42);
		const machine = new FakeMachine();
		const [entry] = machine.processes.values();
		machine.processes.set(42, { ...entry, startedMs: Date.now() + 3_600_000 });
		assert.equal(await drain({ ...target, pidFile, wait: false }, new Printed(), machine), 0);
		assert.deepEqual(machine.signals, ['SIGTERM 42']);
		machine.answer = new CommandError('a:1: nobody listens there');
		await assert.rejects(drain({ ...target, pidFile, wait: false }, new Printed(), machine), failsWith(/is gone/));
	});
});

describe('proxy drain', () => {
	test('sends the signal once, and returns', async () => {
		const [machine, out] = [new FakeMachine(), new Printed()];
		assert.equal(await drain({ ...target, wait: false }, out, machine), 0);
		machine.facts = { ...machine.facts, phase: 'stopping' };
		assert.equal(await drain({ ...target, wait: false }, out, machine), 0);
		assert.deepEqual(machine.signals, ['SIGTERM 42']);
		assert.equal(out.text, 'process 42 was told to drain\nprocess 42 is draining already\n');
	});

	test('waits until the process is gone, also if another one has its number by then', async () => {
		for (const after of [undefined, { startTicks: 2_000 }]) {
			const [machine, out] = [new FakeMachine(), new Printed()];
			machine.onSleep = (count) => {
				if (count < 20) return;
				if (after === undefined) machine.processes.delete(42);
				else machine.processes.set(42, after);
			};
			assert.equal(await drain({ ...target, timeoutMs: 5_000, wait: true }, out, machine), 0);
			assert.equal(out.text, 'process 42 has ended after 1.0 s\n');
		}
	});

	test('waits no longer than its limit, and sends no second signal', async () => {
		const machine = new FakeMachine();
		await assert.rejects(
			drain({ ...target, wait: true }, new Printed(), machine),
			failsWith(/^process 42 is still draining after 1\.0 s; see its log/),
		);
		assert.deepEqual(machine.signals, ['SIGTERM 42']);
	});
});

describe('proxy healthcheck', () => {
	const check = async (status: number, body: string, live = false) => {
		const out = new Printed();
		const asked: string[] = [];
		const code = await healthcheck({ metrics: METRICS, live, timeoutMs: 2_000 }, out, async (_address, path) => {
			asked.push(path);
			if (status === 0) throw new CommandError(body);
			return { status, body };
		});
		return [code, out.text, ...asked];
	};

	test('is one line and 0 or 1', async () => {
		assert.deepEqual(await check(200, 'ready'), [0, 'ready\n', '/readyz']);
		assert.deepEqual(await check(200, 'ready; shared limits: away'), [0, 'ready; shared limits: away\n', '/readyz']);
		assert.deepEqual(await check(200, 'alive', true), [0, 'alive\n', '/livez']);
		assert.deepEqual(await check(503, 'not ready: starting'), [1, 'not ready: starting\n', '/readyz']);
		assert.deepEqual(await check(0, 'a:1: nobody listens there'), [1, 'a:1: nobody listens there\n', '/readyz']);
		assert.deepEqual(await check(404, '<html>\n<body>'), [
			1,
			'127.0.0.1:9090: answers 404 to /readyz; is that the --metrics-bind of a proxy?\n',
			'/readyz',
		]);
	});
});

async function pidFileOf(pid: number): Promise<string> {
	const { temporaryFolder } = await import('../../../fixtures/pki.ts');
	const { writeFileSync } = await import('node:fs');
	const path = `${temporaryFolder('pid')}/proxy.pid`;
	writeFileSync(path, `${pid}\n`);
	return path;
}
