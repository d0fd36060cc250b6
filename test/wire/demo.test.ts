/** `proxy demo`, as a newcomer runs it. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { Program } from '../fixtures/program.ts';
import { BODY_MODE, commandLine } from '../fixtures/proxy.ts';

const SHOW_MS = 180_000;

describe('proxy demo', () => {
	const parent = mkdtempSync(join(tmpdir(), 'demo-'));
	after(() => rmSync(parent, { recursive: true }));

	function start(...args: string[]) {
		// SIGTERM, since the demo ends its proxy.
		return new Program([...commandLine(), 'demo', ...args], { env: process.env, reap: 'SIGTERM' });
	}

	it('shows every kind of outcome and exits with 0', async () => {
		const demo = start('--once', '--dir', join(parent, 'once'));
		assert.equal(await demo.ended(SHOW_MS), 0, demo.text);
		assert.doesNotMatch(demo.text, /FAIL/);
		assert.match(demo.text, new RegExp(`body_mode=${BODY_MODE}`));
		for (const status of [200, 400, 401, 404, 429, 503]) assert.match(demo.text, new RegExp(`ok .* ${status} `));
		assert.match(demo.text, /ok {3}requests go on, though svc-c-2 dies +200: /);
		assert.match(demo.text, /proxy::breaker: circuit is open .* group=svc-c /);
		assert.match(demo.text, /ok {3}requests reach svc-c-2 again/);
		assert.match(demo.text, /ok .* 101 svc-b heard tenant-c: hello\n/);
		assert.match(demo.text, /ok .* \/demo\.Greeter\/SayHello tenant-c +0 OK: greeter heard tenant-c: hello\n/);
		assert.match(demo.text, /ok .* \/demo\.Greeter\/SayHello \(no token\) +16 UNAUTHENTICATED: unauthorized\n/);
		assert.match(demo.text, /proxy_grpc_responses_total\{.*code="0"\} 1\n/);
		assert.match(demo.text, /ok {3}the WebSocket +ended with Close 1008\n/);
		assert.match(demo.text, /Every outcome was as expected\.\n$/);
	});

	// Of a terminal that closes; SIGINT and SIGTERM have the same handler.
	it('stays up with lines to paste, and drains on SIGHUP', async () => {
		const demo = start('--dir', join(parent, 'stays'));
		await demo.says(/Ctrl-C drains/, SHOW_MS);
		assert.match(demo.text, /^curl -i --cacert .* https:\/\/localhost:\d+\/svc-a\/hello$/m);
		const proxy = Number(/^kill -USR1 (\d+)$/m.exec(demo.text)?.[1]);
		process.kill(proxy, 0);
		demo.signal('SIGHUP');
		assert.equal(await demo.ended(SHOW_MS), 0, demo.text);
		assert.match(demo.text, /drained/);
		assert.throws(() => process.kill(proxy, 0), { code: 'ESRCH' });
	});

	it('says so when the proxy ends by itself, and exits with 1', async () => {
		const demo = start('--dir', join(parent, 'killed'));
		await demo.says(/Ctrl-C drains/, SHOW_MS);
		process.kill(Number(/^kill -USR1 (\d+)$/m.exec(demo.text)?.[1]), 'SIGKILL');
		assert.equal(await demo.ended(SHOW_MS), 1);
		assert.match(demo.text, /the proxy ended with SIGKILL/);
	});

	it('says so when its folder cannot be made, and exits with 1', async () => {
		const file = join(parent, 'file');
		writeFileSync(file, '');
		const demo = start('--once', '--dir', join(file, 'demo'));
		assert.equal(await demo.ended(SHOW_MS), 1);
		assert.match(demo.text, /ENOTDIR/);
		assert.doesNotMatch(demo.text, /^ +at /m);
	});
});
