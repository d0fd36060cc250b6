/** `proxy demo`, as a newcomer runs it. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, describe, it } from 'node:test';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { Changes, within } from '../fixtures/wait.ts';

const BUILT_MAIN = process.env.PROXY_TEST_MAIN;
const SHOW_MS = 180_000;

describe('proxy demo', () => {
	const parent = mkdtempSync(join(tmpdir(), 'demo-'));
	after(() => rmSync(parent, { recursive: true }));

	function start(...args: string[]) {
		const main = resolve(BUILT_MAIN ?? 'src/main.ts');
		const conditions = BODY_MODE === 'streaming' && BUILT_MAIN === undefined ? ['-C', 'boxed_body'] : [];
		const child = spawn(process.execPath, [...conditions, main, 'demo', ...args], {
			stdio: ['ignore', 'pipe', 'pipe'],
		});
		return new Demo(child);
	}

	it('shows every kind of outcome and exits with 0', async () => {
		const demo = start('--once', '--dir', join(parent, 'once'));
		assert.equal(await demo.exited(), 0, demo.output);
		assert.doesNotMatch(demo.output, /FAIL/);
		assert.match(demo.output, new RegExp(`body_mode=${BODY_MODE}`));
		for (const status of [200, 400, 401, 404, 429, 503]) assert.match(demo.output, new RegExp(`ok .* ${status} `));
		assert.match(demo.output, /ok {3}requests go on, though svc-c-2 dies +200: /);
		assert.match(demo.output, /proxy::breaker: circuit is open .* group=svc-c /);
		assert.match(demo.output, /ok {3}requests reach svc-c-2 again/);
		assert.match(demo.output, /Every outcome was the expected one\.\n$/);
	});

	// SIGTERM has the same handler.
	for (const signal of ['SIGINT', 'SIGHUP'] as const) {
		it(`stays up with lines to paste, and drains on ${signal}`, async () => {
			const demo = start('--dir', join(parent, signal));
			await demo.until(/Ctrl-C drains/);
			assert.match(demo.output, /^curl -i --cacert .* https:\/\/localhost:\d+\/svc-a\/hello$/m);
			const proxy = Number(/^kill -USR1 (\d+)$/m.exec(demo.output)?.[1]);
			process.kill(proxy, 0);
			demo.child.kill(signal);
			assert.equal(await demo.exited(), 0, demo.output);
			assert.match(demo.output, /drained/);
			assert.throws(() => process.kill(proxy, 0), { code: 'ESRCH' });
		});
	}

	it('says so when the proxy ends by itself, and exits with 1', async () => {
		const demo = start('--dir', join(parent, 'killed'));
		await demo.until(/Ctrl-C drains/);
		process.kill(Number(/^kill -USR1 (\d+)$/m.exec(demo.output)?.[1]), 'SIGKILL');
		assert.equal(await demo.exited(), 1);
		assert.match(demo.output, /the proxy ended with SIGKILL/);
	});

	it('says so when its folder cannot be made, and exits with 1', async () => {
		const file = join(parent, 'file');
		writeFileSync(file, '');
		const demo = start('--once', '--dir', join(file, 'demo'));
		assert.equal(await demo.exited(), 1);
		assert.match(demo.output, /ENOTDIR/);
		assert.doesNotMatch(demo.output, /^ +at /m);
	});
});

class Demo {
	readonly child: ChildProcess;
	output = '';
	readonly #changes = new Changes();
	readonly #exited: Promise<number | null>;

	constructor(child: ChildProcess) {
		this.child = child;
		for (const stream of [child.stdout, child.stderr]) {
			stream?.setEncoding('utf8').on('data', (text: string) => {
				this.output += text;
				this.#changes.notify();
			});
		}
		// SIGTERM, since the demo ends its proxy.
		const reap = () => child.kill('SIGTERM');
		process.on('exit', reap);
		this.#exited = new Promise((resolve) => {
			child.once('close', (code) => {
				process.off('exit', reap);
				resolve(code);
			});
		});
	}

	async until(pattern: RegExp): Promise<void> {
		await this.#changes.until(
			() => pattern.test(this.output),
			() => `${pattern} in ${this.output}`,
			SHOW_MS,
		);
	}

	exited(): Promise<number | null> {
		return within(this.#exited, () => `the demo to end: ${this.output}`, SHOW_MS);
	}
}
